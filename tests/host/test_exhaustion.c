/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The whole machine runs out of memory: processes take all there is, the page cache is thrown out
 * and read again, the OOM killer ends somebody. Meanwhile the agent has to stay awake and tell
 * engines in time, and it must not be the one that is ended. For a machine that is ours alone
 * (PN_TEST_WHOLE_MACHINE), without swap; tests/vm has such ones.
 *
 * PN_EXHAUSTION_ROUNDS: measure that many times how long an engine takes to learn of it, beside a
 * poll, a PSI trigger and earlyoom (tests/vm/exhaustion.sh).
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "../filter.h"
#include "../skip.h"
#include "agent/hooks/hooks.h"
#include "host/clock.h"
#include "support/agent_proc.h"
#include "support/eater.h"
#include "support/observers.h"
#include "support/pressure.h"
#include "pn_memwatch.h"

#define MIB   (1ull << 20)
#define MS_NS 1000000ull
#define S_NS  1000000000ull

#define RESERVE_BYTES  (48 * MIB)
#define RESERVE_TEXT   "48M"
#define ROOM_BYTES     (2 * RESERVE_BYTES + 40 * MIB) /* the level begins at OK */
#define FILE_BYTES     (48 * MIB) /* what programs on such a machine have in the page cache */
#define SMALL_BYTES    (2 * MIB)
#define CROWD_MAX      512
#define ROUNDS_MAX     1000
#define KILL_LIMIT_NS  (120 * S_NS)
#define AFTER_KILL_NS  S_NS
#define DECAY_LIMIT_NS (200 * S_NS) /* of PSI from 100 %, and a hold */

/* Between publishes while the machine is out of memory. A raised level is looked at every 250 ms;
 * the rest is what an emulated machine without a free CPU may be late. */
#define GAP_MAX_NS S_NS

/* What the kernel said of the round, by hooks of this test's own. */
struct records {
	uint64_t begin_ns;
	uint64_t stall_ns; /* the first, kswapd's too, as in PSI */
	uint64_t kill_ns;
	uint32_t victim;
};

static struct agent_proc agent;
static struct observers *observers;
static struct eater *eater;
static struct hooks *hooks;
static struct records records;
static struct pressure_group nowhere;
static pid_t observer_pids[OBSERVER_COUNT], reader, hog, crowd[CROWD_MAX];
static unsigned crowd_count;

static void on_record(void *arg, const struct pn_event *event)
{
	if (event->ts_ns < records.begin_ns)
		return;
	if (event->kind == PN_EVENT_STALL && !records.stall_ns)
		records.stall_ns = event->ts_ns;
	if (event->kind == PN_EVENT_OOM_KILL && !records.kill_ns) {
		records.kill_ns = event->ts_ns;
		records.victim = event->pid;
	}
}

static void sleep_ms(unsigned ms)
{
	const struct timespec time = { ms / 1000, ms % 1000 * 1000000l };

	nanosleep(&time, NULL);
}

static bool machine_is_ours(void)
{
	return !geteuid() && getenv("PN_TEST_WHOLE_MACHINE");
}

/* The agent first: it must find its own protection, not inherit ours. */
static int setup(void **state)
{
	const struct hooks_options options = { 0 };

	if (!machine_is_ours())
		return 0; /* the tests skip */
	setenv("PN_HOST_RESERVE_BYTES", RESERVE_TEXT, 1);
	if (agent_proc_init(&agent) || agent_proc_start(&agent, NULL))
		return -1;
	observers = observers_new(RESERVE_BYTES);
	eater = mmap(NULL, sizeof(*eater), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (!observers || eater == MAP_FAILED || process_protect() ||
	    hooks_open(&hooks, &options, on_record, NULL))
		return -1;
	eater->line_bytes = RESERVE_BYTES;
	pressure_group_none(&nowhere);
	nowhere.pass_gap_us = 20000; /* a program that lives from the page cache, not a load */
	observer_pids[OBSERVER_ENGINE] = observers_start(observers, OBSERVER_ENGINE);
	return observer_pids[OBSERVER_ENGINE] < 0;
}

static void crowd_end(void)
{
	for (unsigned i = 0; i < crowd_count; i++)
		pressure_stop(crowd[i]);
	crowd_count = 0;
}

static int teardown(void **state)
{
	crowd_end();
	pressure_stop(hog);
	pressure_stop(reader);
	for (int i = 0; i < OBSERVER_COUNT; i++)
		pressure_stop(observer_pids[i]);
	hooks_close(hooks);
	agent_proc_destroy(&agent);
	observers_free(observers);
	return 0;
}

static void round_begin(void)
{
	hooks_consume(hooks); /* room in the ring: when full it drops the newest */
	memset(&records, 0, sizeof(records));
	eater->crossed_ns = 0;
	assert_int_equal(observers_begin(observers), 0);
	records.begin_ns = observers->begin_ns;
}

/* The engine's first wake-up from here on for which cond holds, 0 if there is none. */
static uint64_t engine_first_ns(uint32_t from, bool (*cond)(const struct engine_wake *wake))
{
	for (uint32_t i = from; i < observers->n_wakes; i++)
		if (cond(&observers->wakes[i]))
			return observers->wakes[i].awake_ns;
	return 0;
}

static bool is_tight(const struct engine_wake *wake)
{
	return wake->level >= PN_MEM_LEVEL_TIGHT;
}

static bool is_critical(const struct engine_wake *wake)
{
	return wake->level == PN_MEM_LEVEL_CRITICAL;
}

static bool is_at_line(const struct engine_wake *wake)
{
	return wake->avail_bytes <= RESERVE_BYTES && wake->publish_ns >= records.begin_ns;
}

static bool knows_stall(const struct engine_wake *wake)
{
	return wake->some_total_us > observers->begin_total_us;
}

/* Waits, without taking a CPU meanwhile, until the engine's newest snapshot says OK. */
static bool wait_ok(void)
{
	uint64_t end_ns = clock_now_ns() + DECAY_LIMIT_NS;

	for (;;) {
		uint32_t n = observers->n_wakes;

		if (n && observers->wakes[n - 1].level == PN_MEM_LEVEL_OK)
			return true;
		if (clock_now_ns() > end_ns)
			return false;
		sleep_ms(100);
	}
}

/* A program that lives from the page cache, and what leaves room for little else. */
static void start_others(void)
{
	reader = pressure_start_reader(&nowhere, FILE_BYTES);
	assert_true(reader > 0);
	hog = pressure_start_hog(ROOM_BYTES);
	assert_true(hog > 0);
}

static bool in_crowd(pid_t pid)
{
	for (unsigned i = 0; i < crowd_count; i++)
		if (crowd[i] == pid)
			return true;
	return false;
}

/* One more small process. Those that have ended stay to be waited for: their pids are theirs. */
static void crowd_grow(void)
{
	pid_t pid = eater_start_small(SMALL_BYTES);

	if (pid > 0)
		crowd[crowd_count++] = pid;
	hooks_consume(hooks);
}

/*
 * Many processes, each smaller than the agent, so that nothing but its score keeps the OOM killer
 * from it; and some more after the first kill, when the killer goes on.
 */
static void test_machine_out_of_memory(void **state)
{
	uint64_t resident_bytes, small_bytes, faults_before, faults_after, unused;
	uint64_t tight_ns, critical_ns, gap_ns = 0, late_ns = 0, end_ns;
	uint32_t from, until;

	if (!machine_is_ours())
		skip_because("takes the whole machine's memory, which only a virtual one is for");
	start_others();
	assert_true(wait_ok());
	assert_int_equal(process_memory(agent.pid, &resident_bytes, &faults_before), 0);
	from = observers->n_wakes;
	round_begin();
	crowd_grow();
	assert_int_equal(process_memory(crowd[0], &small_bytes, &unused), 0);
	end_ns = clock_now_ns() + KILL_LIMIT_NS;
	while (!records.kill_ns && crowd_count < CROWD_MAX && clock_now_ns() < end_ns)
		crowd_grow();
	end_ns = clock_now_ns() + AFTER_KILL_NS;
	while (crowd_count < CROWD_MAX && clock_now_ns() < end_ns)
		crowd_grow();
	until = observers->n_wakes;
	assert_int_equal(process_memory(agent.pid, &unused, &faults_after), 0);

	tight_ns = engine_first_ns(from, is_tight);
	critical_ns = engine_first_ns(from, is_critical);
	for (uint32_t i = from + 1; i < until; i++) {
		const struct engine_wake *wake = &observers->wakes[i];
		uint64_t before_ns = observers->wakes[i - 1].publish_ns;

		if (wake->level >= PN_MEM_LEVEL_TIGHT && wake->publish_ns - before_ns > gap_ns)
			gap_ns = wake->publish_ns - before_ns;
		/* What it reads can be newer than what woke it. */
		if (wake->awake_ns > wake->publish_ns + late_ns)
			late_ns = wake->awake_ns - wake->publish_ns;
	}
	print_message("# %u processes of %llu KiB, the agent has %llu KiB\n", crowd_count,
		      (unsigned long long)small_bytes / 1024,
		      (unsigned long long)resident_bytes / 1024);
	print_message("# rung: whole machine: CRITICAL %lld ms before the first kill\n",
		      (long long)(records.kill_ns - critical_ns) / (long long)MS_NS);
	print_message("# %u publishes, at most %llu ms apart; the engine awake at most %llu ms "
		      "after one; %llu major faults of the agent\n",
		      until - from, (unsigned long long)gap_ns / MS_NS,
		      (unsigned long long)late_ns / MS_NS,
		      (unsigned long long)(faults_after - faults_before));

	assert_true(records.kill_ns > 0);
	assert_true(in_crowd((pid_t)records.victim));
	assert_true(small_bytes < resident_bytes); /* or the score would not have been tried */
	assert_true(tight_ns && tight_ns < records.kill_ns);
	assert_true(critical_ns && critical_ns < records.kill_ns);
	assert_true(gap_ns <= GAP_MAX_NS);
	assert_true(late_ns <= GAP_MAX_NS);
	assert_int_equal(faults_after, faults_before);

	/* It is over, and the level comes back; the agent is the one that was started. */
	crowd_end();
	pressure_stop(hog);
	pressure_stop(reader);
	hog = reader = 0;
	assert_true(wait_ok());
	assert_int_equal(waitpid(agent.pid, NULL, WNOHANG), 0);
}

/* ---- figures -------------------------------------------------------------------------------- */

/* How long after the instant each observer knew, in ms, by round. */
struct series {
	const char *name;
	unsigned count;
	unsigned missed; /* rounds that were over before it knew */
	double ms[ROUNDS_MAX];
};

enum { BY_ENGINE, BY_POLL, BY_TRIGGER, BY_EARLYOOM, BY_COUNT };

static struct series line_series[BY_COUNT] = { { .name = "pnmem" },
					       { .name = "250 ms poll" },
					       { .name = NULL }, /* no stall yet, no trigger */
					       { .name = "earlyoom" } };
static struct series stall_series[BY_COUNT] = {
	{ .name = "pnmem" }, { .name = "250 ms poll" }, { .name = "PSI trigger" }, { .name = NULL }
}; /* it knows no stalls */

/* Who was awake before the instant was known (the eater itself looks from page to page) knew at
 * once. */
static void series_add(struct series *series, uint64_t from_ns, uint64_t seen_ns)
{
	if (seen_ns)
		series->ms[series->count++] =
			seen_ns > from_ns ? (double)(seen_ns - from_ns) / 1e6 : 0;
	else
		series->missed++;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double percentile(const struct series *series, double percent)
{
	unsigned rank = (unsigned)(percent / 100 * series->count + 0.999999);

	return series->ms[rank ? rank - 1 : 0];
}

static double best_of_others(const struct series all[BY_COUNT], double percent)
{
	double best = INFINITY;

	for (int i = BY_POLL; i < BY_COUNT; i++)
		if (all[i].name && all[i].count && percentile(&all[i], percent) < best)
			best = percentile(&all[i], percent);
	return best;
}

static void print_series(const char *from, struct series all[BY_COUNT])
{
	for (int i = 0; i < BY_COUNT; i++) {
		struct series *series = &all[i];

		if (!series->name || !series->count)
			continue;
		qsort(series->ms, series->count, sizeof(series->ms[0]), compare_doubles);
		print_message("# %s -> %s: p50 %.2f ms, p99 %.2f ms (n = %u, missed %u)\n", from,
			      series->name, percentile(series, 50), percentile(series, 99),
			      series->count, series->missed);
	}
	print_message("# %s -> pnmem, of the best of the others: p50 %.2f, p99 %.2f\n", from,
		      percentile(&all[BY_ENGINE], 50) / best_of_others(all, 50),
		      percentile(&all[BY_ENGINE], 99) / best_of_others(all, 99));
}

/* No stall for a while: what the last round pushed out of the page cache is back. */
static bool wait_quiet(void)
{
	struct hooks_counters before, after;

	for (int i = 0; i < 200; i++) {
		hooks_counters(hooks, &before);
		sleep_ms(2 * OBSERVERS_POLL_MS);
		hooks_counters(hooks, &after);
		if (after.stalls == before.stalls && after.stalled_now <= 0)
			return true;
	}
	return false;
}

/* One process eats until it is killed. False if it was not, or was not seen to. */
static bool run_round(void)
{
	uint64_t end_ns = clock_now_ns() + KILL_LIMIT_NS;
	uint32_t from;
	siginfo_t info = { 0 };
	pid_t pid;

	if (!wait_quiet())
		return false;
	from = observers->n_wakes;
	round_begin();
	pid = eater_start(eater);
	if (pid < 0)
		return false;
	while (!info.si_pid && clock_now_ns() < end_ns) {
		hooks_consume(hooks);
		sleep_ms(10);
		waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
	}
	pressure_stop(pid);
	sleep_ms(2 * OBSERVERS_POLL_MS);
	hooks_consume(hooks);
	if (records.victim != (uint32_t)pid || !eater->crossed_ns || !records.stall_ns)
		return false;

	series_add(&line_series[BY_ENGINE], eater->crossed_ns, engine_first_ns(from, is_at_line));
	series_add(&line_series[BY_POLL], eater->crossed_ns, observers->poll_line_ns);
	series_add(&line_series[BY_EARLYOOM], eater->crossed_ns, observers->earlyoom_ns);
	series_add(&stall_series[BY_ENGINE], records.stall_ns, engine_first_ns(from, knows_stall));
	series_add(&stall_series[BY_POLL], records.stall_ns, observers->poll_stall_ns);
	series_add(&stall_series[BY_TRIGGER], records.stall_ns, observers->trigger_ns);
	return true;
}

static void test_figures(void **state)
{
	const char *text = getenv("PN_EXHAUSTION_ROUNDS");
	unsigned rounds = text ? (unsigned)atoi(text) : 0, good = 0;

	if (!machine_is_ours())
		skip_because("takes the whole machine's memory, which only a virtual one is for");
	if (!rounds || rounds > ROUNDS_MAX)
		skip_because("takes minutes: PN_EXHAUSTION_ROUNDS of 1 to %d asks for it",
			     ROUNDS_MAX);
	for (int i = OBSERVER_POLL; i < OBSERVER_COUNT; i++) {
		observer_pids[i] = observers_start(observers, i);
		if (observer_pids[i] == -ENOENT)
			line_series[BY_EARLYOOM].name = NULL; /* not installed */
		else
			assert_true(observer_pids[i] > 0);
	}
	start_others();
	for (unsigned i = 0; i < rounds; i++)
		good += run_round();
	print_message("# %u rounds of %u; PSI trigger with a window of %u ms\n", good, rounds,
		      observers->window_ms);
	print_series("the reserve line", line_series);
	print_series("the first stall", stall_series);
	assert_int_equal(observers->failed, 0);
	assert_int_equal(waitpid(agent.pid, NULL, WNOHANG), 0);
	assert_true(good * 10 >= rounds * 9);
	assert_int_equal(line_series[BY_ENGINE].missed, 0);
	assert_int_equal(stall_series[BY_ENGINE].missed, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_machine_out_of_memory),
		cmocka_unit_test(test_figures),
	};

	filter_from_environment();
	return cmocka_run_group_tests_name("exhaustion", tests, setup, teardown);
}
