/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the subjects of the bench share. A subject measures something beside its baseline, in
 * rounds that alternate between the two so that a drift of the machine meets both, adds its rows
 * and leaves nothing running.
 */
#ifndef PNMEM_BENCH_H
#define PNMEM_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "support/agent_proc.h"
#include "rows.h"

#define MIB       ((size_t)1 << 20)
#define NS_PER_MS 1000000ull
#define NS_PER_S  1000000000ull

struct bench {
	bool quick; /* tiny counts: does it run at all? */
	struct rows rows;
};

void latency_bench(struct bench *bench);
void tight_bench(struct bench *bench);
void snapshot_bench(struct bench *bench);
void idle_bench(struct bench *bench);
void hook_cost_bench(struct bench *bench);
void decisions_bench(struct bench *bench);
void waiters_bench(struct bench *bench);
void engines_bench(struct bench *bench);
void gpu_bench(struct bench *bench);
void trace_bench(struct bench *bench);

/*
 * hook_cost.c: reads pages by reclaim in a child in the group, and adds the CPU time of one, in ns;
 * *result is shared memory. 0 or -errno.
 */
struct pressure_group;
int hook_cost_reclaim(const struct pressure_group *group, _Atomic double *result,
		      struct samples *ret);

/* trace.c: pnmem trace record, recording when this returns: its pid or -errno. */
pid_t recording_start(const char *path);
void recording_stop(pid_t pid);

/* True once SIGINT, SIGTERM or SIGHUP has come: end the round, clean up, return. */
bool bench_stopped(void);

/* Sleeps, or until a signal; not measured with. */
void bench_sleep_ms(unsigned ms);

/* What -errno means here, for a row that could not be measured. */
const char *bench_why(int err);

/* Anonymous memory shared with the children forked after this, zeroed. NULL on ENOMEM. */
void *bench_shared(size_t bytes);

/* watch.c: an agent of our own and this process's pn_memwatch on it. 0 or -errno. */
int watch_start(struct agent_proc *agent);
void watch_stop(struct agent_proc *agent);

/*
 * Waits until the level is OK: pressure made before takes up to 70 s to decay in avg10. 0,
 * -ETIMEDOUT after limit_s, -EINTR when stopped.
 */
int watch_wait_ok(unsigned limit_s);

#endif
