/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent's small children that serve it as long as it lives: the launcher and the finder. The
 * agent forks them at its start, because it may start no process once it serves.
 */
#ifndef PNMEM_AGENT_GPU_CHILD_H
#define PNMEM_AGENT_GPU_CHILD_H

#include <stdbool.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

/* The score of the agent and of these children: the kernel kills almost all others first. */
#define AGENT_OOM_SCORE_ADJ "-900"

/* The child's descriptors: its end of the socketpair, and the one that it keeps. */
#define CHILD_FD      3
#define CHILD_KEPT_FD 4

struct child_role {
	const char *name;   /* as ps shows it, at most 15 characters */
	int kept_fd;        /* what becomes CHILD_KEPT_FD; -1: nothing does */
	void (*drop)(void); /* drops privileges; may still log */
	void (*run)(void);  /* the child's life; the child ends when it returns */
};

struct child {
	pid_t pid; /* 0: it has ended, and is reaped */
	int sock;  /* SOCK_SEQPACKET; io owns it */
	sd_event_source *io;
	sd_event_source *exit_source;
};

/*
 * Forks, with SIGCHLD blocked and one thread. The child has all signals blocked, is locked in
 * memory as far as it has any yet, and ends when the agent ends. The loop calls on_io when the
 * child has said something, and then, once, on_exit when it has ended; userdata is given to both. 0
 * or -errno.
 */
int child_open(struct child *child, const struct child_role *role, sd_event *event,
	       sd_event_io_handler_t on_io, sd_event_child_handler_t on_exit, void *userdata);

/* Kills it and waits for its end. One that is all zero, or was not opened, is left alone. */
void child_close(struct child *child);

/* ---- for the child's own children ------------------------------------------------------------ */

/* Leaves nothing open above `last`. */
void child_close_above(int last);

/* Of the calling process. Where the kernel refuses, nothing changes. */
void child_set_oom_score(const char *score);

#endif
