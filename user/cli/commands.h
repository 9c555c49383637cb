/* SPDX-License-Identifier: BSD-2-Clause */
/* The subcommands of pnmem. argv[0] is the name. They return the exit status. */
#ifndef PNMEM_CLI_COMMANDS_H
#define PNMEM_CLI_COMMANDS_H

int cmd_status(int argc, char **argv);
int cmd_watch(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_wait(int argc, char **argv);
int cmd_admit(int argc, char **argv);
int cmd_stats(int argc, char **argv);
int cmd_reservations(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_explain(int argc, char **argv);

#endif
