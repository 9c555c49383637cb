/* SPDX-License-Identifier: BSD-2-Clause */
/* Running the built pnmemd for a test: start, wait until it answers, end; and what it logged. */
#ifndef PNMEM_SUPPORT_AGENT_PROC_H
#define PNMEM_SUPPORT_AGENT_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct agent_proc {
	pid_t pid; /* 0: not running */
	char dir[64];
	char socket_path[96];
	char log_path[96];
};

/* Makes the folder for socket and log; sets PN_SOCKET for this process. 0 or -errno. */
int agent_proc_init(struct agent_proc *agent);

/*
 * Starts build/pnmemd (PNMEMD) --foreground with these further arguments (NULL ends them), and
 * returns when it accepts connections: 0. -ECHILD if it ended instead, -ETIMEDOUT after 10 s.
 */
int agent_proc_start(struct agent_proc *agent, const char *const args[]);

/* Sends a signal. */
void agent_proc_signal(const struct agent_proc *agent, int signal_number);

/* Waits for its end; returns the exit status, 128 + signal, or -ETIMEDOUT after 10 s. */
int agent_proc_wait(struct agent_proc *agent);

/* SIGKILL and wait. Allowed when it is not running. */
void agent_proc_kill(struct agent_proc *agent);

/* How often this text is in the log. */
int agent_proc_log_count(const struct agent_proc *agent, const char *text);

/*
 * The descriptors that it has open but for the pages of views, which stay for the next client;
 * those are counted in *ret_pages if it is not NULL. -errno.
 */
int agent_proc_descriptors(const struct agent_proc *agent, int *ret_pages);

/* Its resident memory in KiB; 0 if it cannot be read. */
long agent_proc_rss_kib(const struct agent_proc *agent);

/* Its log, as comment lines of this test's output. */
void agent_proc_log_print(const struct agent_proc *agent);

/* Ends it if need be and removes the folder. */
void agent_proc_destroy(struct agent_proc *agent);

/* Calls cond(arg) every millisecond until it is true or limit_ms have passed. */
bool test_until(bool (*cond)(void *arg), void *arg, int limit_ms);

#endif
