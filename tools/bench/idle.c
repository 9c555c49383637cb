/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the agent costs while there is ample memory: wake-ups of its loop a second, and resident
 * memory. Beside it, at the same time, what the library does in a process without an agent: the
 * 250 ms poll. Only windows in which no task on the machine stalled count as idle.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "pn_memwatch.h"

#define WINDOW_MS       10000
#define WINDOW_QUICK_MS 2000

/* The poll of a process without an agent publishes how often it has looked. */
static void poller_run(_Atomic uint64_t *looks)
{
	pn_mem_ext ext;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setenv("PN_SOCKET", "/nonexistent", 1);
	if (pn_memwatch_start())
		_exit(1);
	for (;;) {
		if (!pn_memwatch_read_ext(NULL, &ext))
			*looks = ext.looks;
		bench_sleep_ms(20);
	}
}

static double rss_mib(pid_t pid)
{
	char path[64];
	long pages = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	file = fopen(path, "re");
	if (file && fscanf(file, "%*d %ld", &pages) != 1)
		pages = -1;
	if (file)
		fclose(file);
	return pages < 0 ? NAN : (double)pages * (double)sysconf(_SC_PAGESIZE) / (double)MIB;
}

struct idle {
	struct samples agent_per_s, poll_per_s;
	double rss_mib;
};

static void watch_windows(struct bench *bench, const _Atomic uint64_t *poll_looks,
			  struct idle *idle)
{
	unsigned window_ms = bench->quick ? WINDOW_QUICK_MS : WINDOW_MS;
	size_t wanted = bench->quick ? 1 : 3;
	pn_mem_state state;
	pn_mem_ext before, after;

	for (size_t i = 0; i < 4 * wanted && idle->agent_per_s.count < wanted; i++) {
		uint64_t poll_before = *poll_looks;

		if (pn_memwatch_read_ext(NULL, &before))
			return;
		bench_sleep_ms(window_ms);
		if (bench_stopped() || pn_memwatch_read_ext(&state, &after))
			return;
		if (state.level != PN_MEM_LEVEL_OK || after.stalls != before.stalls ||
		    after.psi_some_total_us != before.psi_some_total_us)
			continue;
		samples_add(&idle->agent_per_s,
			    (double)(after.wakeups - before.wakeups) * 1000 / window_ms);
		samples_add(&idle->poll_per_s,
			    (double)(*poll_looks - poll_before) * 1000 / window_ms);
	}
}

static void add_rows(struct bench *bench, const struct idle *idle)
{
	struct row rss = { .name = "agent, resident memory, its 8 MiB recorder included",
			   .unit = "MiB",
			   .value_p99 = NAN,
			   .baseline = NAN,
			   .baseline_p99 = NAN,
			   .goal_of = GOAL_VALUE,
			   .goal = 12 + 8,
			   .count = 1,
			   .value = idle->rss_mib };

	if (idle->agent_per_s.count)
		rows_add_samples(&bench->rows, "agent, wake-ups while idle", "1/s",
				 &idle->agent_per_s, "a 250 ms poll", &idle->poll_per_s, GOAL_VALUE,
				 1);
	else
		rows_add_failed(&bench->rows, "agent, wake-ups while idle",
				"some task stalled on memory in every window");
	if (isnan(idle->rss_mib))
		rows_add_failed(&bench->rows, rss.name, "its statm cannot be read");
	else
		rows_add(&bench->rows, &rss);
}

void idle_bench(struct bench *bench)
{
	static struct idle idle;
	_Atomic uint64_t *poll_looks = bench_shared(sizeof(*poll_looks));
	struct agent_proc agent;
	pid_t poller;
	int r = 0;

	if (geteuid() || !poll_looks)
		r = poll_looks ? -EPERM : -ENOMEM;
	if (!r)
		r = watch_start(&agent);
	if (r) {
		rows_add_failed(&bench->rows, "idle", "no agent with its hooks: %s", bench_why(r));
		return;
	}
	poller = fork();
	if (!poller)
		poller_run(poll_looks);
	r = poller < 0 ? -errno : watch_wait_ok(bench->quick ? 5 : 100);
	if (!r) {
		watch_windows(bench, poll_looks, &idle);
		idle.rss_mib = rss_mib(agent.pid);
	}
	if (poller > 0) {
		kill(poller, SIGKILL);
		waitpid(poller, NULL, 0);
	}
	watch_stop(&agent);
	if (bench_stopped())
		return;
	if (!r)
		add_rows(bench, &idle);
	else if (r == -ETIMEDOUT && bench->quick)
		printf("idle: left out, the level is not OK\n");
	else
		rows_add_failed(&bench->rows, "idle", "the level did not come to OK: %s",
				bench_why(r));
}
