/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pnmemd --record-events, which pnmem trace record starts: no agent, but hooks of its own with
 * every record that there is and a large ring, so that an agent's latency is left alone. It writes
 * trace records to standard output until its standard input is closed.
 */
#ifndef PNMEM_AGENT_HOOKS_RECORD_H
#define PNMEM_AGENT_HOOKS_RECORD_H

#define RECORD_OPTION "--record-events"

/* Returns the exit status: 0; 1, with a message, if no hook can be had or the output is gone. */
int record_main(void);

#endif
