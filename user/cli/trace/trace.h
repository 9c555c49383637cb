/* SPDX-License-Identifier: BSD-2-Clause */
/* The subcommands of pnmem trace. argv[0] is the name. They return the exit status. */
#ifndef PNMEM_CLI_TRACE_TRACE_H
#define PNMEM_CLI_TRACE_TRACE_H

int cmd_trace_dump(int argc, char **argv);
int cmd_trace_record(int argc, char **argv);
int cmd_trace_report(int argc, char **argv);
int cmd_trace_export(int argc, char **argv);
int cmd_trace_replay(int argc, char **argv);

#endif
