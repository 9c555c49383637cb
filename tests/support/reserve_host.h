/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A made-up machine for reservations: 64 GiB, of which 10 are the reserve and at first 15 above it
 * are available; an agent on it, and engines, whose own poll sees the same.
 */
#ifndef PNMEM_SUPPORT_RESERVE_HOST_H
#define PNMEM_SUPPORT_RESERVE_HOST_H

#include <stdint.h>
#include <sys/types.h>

#include "support/agent_proc.h"

#define GIB                        (1ull << 30)
#define RESERVE_HOST_RESERVE_BYTES (10 * GIB)

struct reserve_host {
	struct agent_proc agent;
	char proc_dir[96];
	char cgroup_dir[96];
	const char *args[8]; /* for agent_proc_start */
};

/*
 * Makes the folders; sets PN_SOCKET, PN_PROCFS, PN_CGROUPFS and PN_HOST_RESERVE_BYTES. 0 or -errno.
 */
int reserve_host_open(struct reserve_host *host);

/* Starts the agent, and waits until it grants reservations: a second. */
void reserve_host_start(struct reserve_host *host);
/* The second half of that alone. */
void reserve_host_wait(void);

/* What is available above the reserve from now on. */
void reserve_host_avail(const struct reserve_host *host, uint64_t above_bytes);

/* Limits a group below the root, with so much of it in use. */
void reserve_host_limit(const struct reserve_host *host, const char *name, uint64_t max_bytes,
			uint64_t current_bytes);

/* Puts a process into the group of this path, which is made; before the process attaches. */
void reserve_host_place(const struct reserve_host *host, pid_t pid, const char *path);

/* Ends the agent and removes everything. */
void reserve_host_close(struct reserve_host *host);

#endif
