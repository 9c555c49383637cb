/* SPDX-License-Identifier: BSD-2-Clause */
/* The tasks that the kernel killed for want of memory. */
#ifndef PNMEM_CLI_TRACE_REPORT_KILLS_H
#define PNMEM_CLI_TRACE_REPORT_KILLS_H

#include <stdint.h>

#include "pn_event.h"

#define KILLS_MAX 16

struct kill {
	uint64_t ts_ns;
	uint64_t cgroup_id;
	uint32_t pid;
	char comm[16];
};

struct kills {
	struct kill kill[KILLS_MAX]; /* the first */
	uint64_t count;
};

void kills_add(struct kills *kills, const struct pn_event *event);

#endif
