/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the host, the views and the dies used, and which of them took most before the worst moment.
 */
#ifndef PNMEM_CLI_TRACE_REPORT_MEMORY_H
#define PNMEM_CLI_TRACE_REPORT_MEMORY_H

#include "cli/trace/views.h"
#include "core/trace_decode.h"

#define MEMORY_DIES   64
#define MEMORY_FAULTS 256
#define MEMORY_WORST  3

struct memory_history;

struct memory_view {
	bool used;
	uint64_t seen_ns;
	uint64_t used_bytes;              /* then */
	uint64_t peak_bytes, limit_bytes; /* of its cgroup */
	uint64_t peak_ns;
	struct memory_history *history; /* NULL: none so far, or no memory */
	double growth_bytes_per_s;      /* in the seconds before the worst moment */
};

/* A task that had page faults. */
struct memory_faulter {
	uint64_t ts_ns;
	uint64_t count;
	uint64_t cgroup_id;
	uint32_t tid;
	char comm[16];
};

struct memory_die {
	uint8_t uuid[16];
	char pci[16];
	uint64_t least_free_bytes, budget_bytes;
	uint64_t least_ns;
};

struct memory {
	bool has_look; /* of the host */
	uint64_t total_bytes, reserve_bytes;
	uint64_t least_avail_bytes, least_avail_ns;
	double most_some_pct, most_full_pct;
	uint64_t most_full_ns;

	struct memory_view view[TRACE_VIEWS_MAX]; /* by place */

	struct memory_faulter fault[MEMORY_FAULTS]; /* the newest */
	uint64_t fault_count;
	struct memory_faulter worst_fault[MEMORY_WORST]; /* most faults before the worst moment */

	struct memory_die die[MEMORY_DIES];
	unsigned die_count;
	uint64_t cuda_count; /* memory calls */
};

/* A look, whose view is a place. */
void memory_look(struct memory *memory, const struct trace_look *look, uint64_t ts_ns);
void memory_die(struct memory *memory, const struct trace_die *die, uint64_t ts_ns);
void memory_faults(struct memory *memory, const struct pn_event *event);

/* This is the worst moment so far: finds what grew and which tasks had faults before it. */
void memory_worst_moment(struct memory *memory, const struct trace_views *views, uint64_t ts_ns);

/* Frees the views' histories. */
void memory_close(struct memory *memory);

#endif
