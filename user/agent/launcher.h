/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A small process that starts die samplers on the agent's behalf, because the agent itself may not
 * start programs once it serves, and what it had started would be held to its own list of system
 * calls. What the launcher starts is the agent's child, has no privileges and ends with it.
 */
#ifndef PNMEM_AGENT_LAUNCHER_H
#define PNMEM_AGENT_LAUNCHER_H

#include <sys/types.h>

struct launcher;

/* While the agent has one thread and little memory, and may still fork. 0 or -errno. */
int launcher_open(struct launcher **ret);

/* The launcher ends; what it has started goes on. NULL is allowed. */
void launcher_close(struct launcher *launcher);

/*
 * Starts program with --cuda-lib cuda_lib (NULL: without) and sock as its descriptor
 * DIE_MESSAGE_FD; sock stays the caller's. *ret_pid is the agent's to reap. Waits for the launcher,
 * at most a second. 0; -ETIMEDOUT; -EPIPE: the launcher is gone; -ENAMETOOLONG; another -errno of
 * fork. A program that cannot be executed ends with status 127.
 */
int launcher_start(struct launcher *launcher, const char *program, const char *cuda_lib, int sock,
		   pid_t *ret_pid);

#endif
