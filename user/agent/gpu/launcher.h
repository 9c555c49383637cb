/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A small process that starts die samplers on the agent's behalf, because the agent itself may not
 * start programs once it serves, and what it had started would be held to its own list of system
 * calls. What the launcher starts is the agent's child, has no privileges and ends with it.
 */
#ifndef PNMEM_AGENT_GPU_LAUNCHER_H
#define PNMEM_AGENT_GPU_LAUNCHER_H

#include <stdbool.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

struct launcher;

/*
 * While the agent has one thread and little memory, and may still fork; with SIGCHLD blocked. As
 * the agent will be, the launcher is locked in memory and among the last to be killed for it, where
 * the kernel lets it. When it ends nevertheless there is no other: the log says so. 0 or -errno.
 */
int launcher_open(struct launcher **ret, sd_event *event);

/* The launcher ends; what it has started goes on. NULL is allowed. */
void launcher_close(struct launcher *launcher);

/*
 * Asks for program with --cuda-lib cuda_lib (NULL: without) and sock as its descriptor
 * DIE_MESSAGE_FD; sock stays the caller's. Never waits: done is called from the loop, once, when
 * the launcher has answered, however long that takes, with the pid, which is the agent's to reap,
 * or -errno of its fork, -EPIPE if it ended instead. A program that cannot be executed ends with
 * status 127. Returns 0; -EPIPE: the launcher is gone; -EBUSY: the last is not answered yet;
 * -ENAMETOOLONG; another -errno. Then done is not called.
 */
int launcher_start(struct launcher *launcher, const char *program, const char *cuda_lib, int sock,
		   void (*done)(void *arg, pid_t pid), void *arg);

/* done is not called any more; what is started nevertheless is killed. */
void launcher_forget(struct launcher *launcher);

/* It has ended: nothing can be started any more. */
bool launcher_is_gone(const struct launcher *launcher);

#endif
