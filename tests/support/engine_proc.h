/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Running the built reference engine in a memory cgroup, and talking HTTP to it. Without an agent
 * it polls in its own process and sees no PSI, so that what other programs on this machine do to
 * the host's pressure does not change a result: what is tested is the cgroup.
 */
#ifndef PNMEM_SUPPORT_ENGINE_PROC_H
#define PNMEM_SUPPORT_ENGINE_PROC_H

#include "support/pressure.h"

struct engine_proc {
	pid_t pid; /* 0: not running */
	unsigned port;
	int stdout_fd;
	char dir[64];      /* stands for /proc */
	char ready[128];   /* its line when it had loaded */
	char summary[128]; /* its line at a clean end */
};

struct http_reply {
	int status;             /* 0: no whole reply came */
	unsigned retry_after_s; /* 0: not said */
	char body[512];
};

/*
 * Starts build/tools/engine in the group with these further arguments (NULL ends them), and with
 * the agent at socket_path unless that is NULL. Returns when it has loaded: 0. -ECHILD if it ended
 * instead (engine_proc_wait says how), -ETIMEDOUT after 60 s, another -errno. In every case end
 * with engine_proc_destroy.
 */
int engine_proc_start(struct engine_proc *engine, const struct pressure_group *group,
		      const char *socket_path, const char *const args[]);

/* Waits for its end; returns the exit status, 128 + signal, or -ETIMEDOUT after 60 s. */
int engine_proc_wait(struct engine_proc *engine);

/* Kills it if need be and removes what start made. */
void engine_proc_destroy(struct engine_proc *engine);

/* One request, POST if body is not NULL. Threads: any, at the same time. */
struct http_reply engine_ask(const struct engine_proc *engine, const char *path, const char *body);

#endif
