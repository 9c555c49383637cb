/* SPDX-License-Identifier: BSD-2-Clause */
/* A made-up /proc for a running agent: 64 GiB of memory, no pressure, and what the test changes. */
#ifndef PNMEM_SUPPORT_MADE_HOST_H
#define PNMEM_SUPPORT_MADE_HOST_H

#include <stdint.h>

#include "pn_mem_state.h"

struct made_host {
	char dir[64];
};

/* OK to begin with. 0 or -errno; end with made_host_destroy in any case. */
int made_host_init(struct made_host *host);

/* As much memory available as brings this level; seen at the agent's next look. 0 or -errno. */
int made_host_set_level(const struct made_host *host, pn_mem_level level);

/* A process of this number is in this cgroup (v2), or has moved there. 0 or -errno. */
int made_host_add_process(const struct made_host *host, int pid, const char *cgroup);

void made_host_destroy(const struct made_host *host);

#endif
