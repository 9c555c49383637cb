/* SPDX-License-Identifier: BSD-2-Clause */
/* The tasks and cgroups that stalled, how often and how long, in a bounded amount of memory. */
#ifndef PNMEM_CLI_TRACE_REPORT_STALLERS_H
#define PNMEM_CLI_TRACE_REPORT_STALLERS_H

#include "core/trace_decode.h"

/*
 * A histogram of durations: eight buckets for each power of two, so that a value is at most 9 %
 * off.
 */
#define DURATION_BUCKETS 320

struct durations {
	uint64_t count;
	uint64_t total_ns;
	uint64_t longest_ns;
	uint32_t bucket[DURATION_BUCKETS];
};

/* A task or a cgroup. */
struct staller {
	bool used;
	uint32_t tid; /* 0: a cgroup */
	uint32_t pid;
	uint64_t cgroup_id;
	char comm[16];
	struct durations stalls;
};

struct staller_table {
	struct staller *entry;
	unsigned room; /* a power of two */
	unsigned count;
	struct durations rest; /* stalls of those for which there was no room */
};

/*
 * The durations are those of the recorded stalls. The kernel's hooks record at most one stall a
 * millisecond and CPU; the looks have the exact sums.
 */
struct stallers {
	struct staller_table tasks, cgroups;
	struct durations kthreads;
	uint64_t recorded_count; /* of tasks and kernel threads */
	bool has_look;
	uint64_t first_count, first_ns; /* the hooks' sums at the host's first look ... */
	uint64_t last_count, last_ns;   /* ... and at its last */
};

/* Returns false without memory. stallers_close is allowed in both cases. */
bool stallers_open(struct stallers *stallers);
void stallers_close(struct stallers *stallers);

void stallers_add(struct stallers *stallers, const struct pn_event *event);
void stallers_look(struct stallers *stallers, const struct trace_look *look);

/* The increase of the hooks' sums over the trace; 0 if they fell, as with a new agent. */
uint64_t stallers_count(const struct stallers *stallers);
uint64_t stallers_ns(const struct stallers *stallers);

/* The n with the most time, in order; returns how many there are. */
unsigned stallers_top(const struct staller_table *table, const struct staller **ret, unsigned n);

/* This share, 0..1, of the durations was not longer than what is returned. */
uint64_t durations_percentile_ns(const struct durations *durations, double share);

#endif
