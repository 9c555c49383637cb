/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Running the built pnmem-dies for a test, as the agent does: a socketpair on descriptor 3. What
 * should have come and has not after 20 s is an error, never a wait for ever.
 */
#ifndef PNMEM_SUPPORT_DIES_PROC_H
#define PNMEM_SUPPORT_DIES_PROC_H

#include <stdint.h>
#include <sys/types.h>

#include "core/die_message.h"

struct dies_proc {
	pid_t pid; /* 0: not running */
	int sock;  /* the agent's end, -1 closed */
};

/* Starts build/pnmem-dies --cuda-lib library (NULL: without the option). 0 or -errno. */
int dies_proc_start(struct dies_proc *dies, const char *library);

/* Asks for a pass. 0 or -errno. */
int dies_proc_ask(struct dies_proc *dies, uint64_t pass);

/* Receives and checks the next message: 0, -EPIPE at its end, -ETIMEDOUT, or as the check says. */
int dies_proc_receive(struct dies_proc *dies, struct die_message *ret);

/* Closes our end. */
void dies_proc_close(struct dies_proc *dies);

/* Waits for its end; exit status, 128 + signal, or -ETIMEDOUT. */
int dies_proc_wait(struct dies_proc *dies);

/* Ends it if need be. */
void dies_proc_destroy(struct dies_proc *dies);

#endif
