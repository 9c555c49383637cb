/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The whole chain on the real kernel: pressure in a memory cgroup wakes an engine that sleeps in
 * the library, and the level comes back by itself; the agent is killed under readers; an idle
 * agent sleeps.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "../filter.h"
#include "../skip.h"
#include "host/clock.h"
#include "support/agent_proc.h"
#include "support/pressure.h"
#include "pn_memwatch.h"

#define MIB (1ull << 20)
#define S   1000000000ull

static struct agent_proc agent;

static int setup(void **state)
{
	return agent_proc_init(&agent);
}

static int teardown(void **state)
{
	pn_memwatch_stop();
	agent_proc_destroy(&agent);
	return 0;
}

static bool source_is(void *arg)
{
	return pn_memwatch_source() == *(pn_memwatch_source_t *)arg;
}

static void expect_source(pn_memwatch_source_t source, int limit_ms)
{
	assert_true(test_until(source_is, &source, limit_ms));
}

/* Waits until the level is this: what ran before may have left some pressure to decay. */
static void wait_for(pn_mem_level level, pn_mem_state *state)
{
	uint64_t deadline_ns = clock_now_ns() + 150 * S; /* 100 % takes 92 s to decay */

	assert_int_equal(pn_memwatch_read(state), 0);
	while (state->level != level)
		assert_int_equal(pn_memwatch_wait(PN_WAIT_LEVEL, state, deadline_ns, state), 0);
}

static void run_pressure(const char *const args[], uint32_t want_mode, uint64_t limit_ns)
{
	struct pressure_group group;
	pn_mem_state seen, state;
	pn_mem_ext ext;
	uint64_t start_ns;
	pid_t reader;
	int r;

	if (geteuid())
		skip_because("needs root for hooks and a memory cgroup");
	r = pressure_group_create(&group, 40 * MIB);
	if (r == -ENOENT || r == -EACCES || r == -EPERM)
		skip_because("no memory cgroup can be made: %s", strerror(-r));
	assert_int_equal(r, 0);
	/* The group's stalls at its limit are to count for this process, and soon. */
	pressure_make_bytes_short();
	setenv("PN_PSI_FULL_REJECT", "0.1", 1);
	assert_int_equal(agent_proc_start(&agent, args), 0);
	unsetenv("PN_HOST_RESERVE_BYTES");
	unsetenv("PN_PSI_FULL_REJECT");
	assert_int_equal(pn_memwatch_start(), 0);
	assert_int_equal(pn_memwatch_source(), PN_SOURCE_AGENT);
	wait_for(PN_MEM_LEVEL_WATCH, &seen);
	assert_int_equal(pn_memwatch_read_ext(&state, &ext), 0);
	assert_int_equal(ext.mode, want_mode);

	reader = pressure_start_reader(&group, 100 * MIB);
	assert_true(reader > 0);
	start_ns = clock_now_ns();
	r = pn_memwatch_wait(PN_WAIT_LEVEL, &seen, start_ns + limit_ns, &state);
	if (!r)
		r = pn_memwatch_read_ext(NULL, &ext);
	pressure_stop(reader);
	pressure_group_destroy(&group);
	assert_int_equal(r, 0);
	assert_true(state.level >= PN_MEM_LEVEL_TIGHT);
	assert_true(ext.reasons & (PN_REASON_PSI_SOME | PN_REASON_PSI_FULL));

	/* Nothing happens any more, and it still falls back. */
	wait_for(PN_MEM_LEVEL_WATCH, &state);
}

static void test_pressure_wakes_engine(void **state)
{
	/* The best rung that this kernel gives; test_hooks says which that has to be. */
	static const char *const args[] = { NULL };
	struct agent_proc probe;
	pn_mem_ext ext = { 0 };

	if (!geteuid()) {
		assert_int_equal(agent_proc_init(&probe), 0);
		assert_int_equal(agent_proc_start(&probe, args), 0);
		assert_int_equal(pn_memwatch_start(), 0);
		assert_int_equal(pn_memwatch_read_ext(NULL, &ext), 0);
		pn_memwatch_stop();
		agent_proc_destroy(&probe);
		setenv("PN_SOCKET", agent.socket_path, 1);
		assert_in_range(ext.mode, PN_MODE_FENTRY, PN_MODE_TRACEPOINT);
	}
	run_pressure(args, ext.mode, 20 * S);
}

static void test_pressure_by_trigger(void **state)
{
	static const char *const args[] = { "--stall-hook", "trigger", NULL };

	run_pressure(args, PN_MODE_PSI_TRIGGER, 30 * S);
}

static void test_pressure_by_poll(void **state)
{
	static const char *const args[] = { "--no-bpf", "--stall-hook", "poll", NULL };

	run_pressure(args, PN_MODE_POLL, 30 * S);
}

struct reader {
	pthread_t thread;
	_Atomic bool stop;
	uint64_t reads, failures, last_publish_ns;
	bool went_back;
};

static void *read_all_the_time(void *arg)
{
	struct reader *r = arg;
	pn_mem_state state;
	pn_mem_ext ext;

	while (!r->stop) {
		if (pn_memwatch_read_ext(&state, &ext)) {
			r->failures++;
			continue;
		}
		r->reads++;
		/* A torn or foreign state would break one of these. */
		if (state.host_avail_bytes > state.host_total_bytes || !state.host_total_bytes ||
		    ext.publish_ns < r->last_publish_ns ||
		    (state.n_dies && state.per_die_free[0] != state.per_die_used[0]))
			r->went_back = true;
		r->last_publish_ns = ext.publish_ns;
	}
	return NULL;
}

/* The agent is killed in the middle of publishes: readers keep reading whole states. */
static void test_killed_while_publishing(void **state)
{
	struct reader reader = { 0 };

	assert_int_equal(agent_proc_start(&agent, (const char *const[]){ "--no-bpf", NULL }), 0);
	assert_int_equal(pn_memwatch_start(), 0);
	assert_int_equal(pthread_create(&reader.thread, NULL, read_all_the_time, &reader), 0);
	for (int round = 0; round < 10; round++) {
		uint64_t n = (uint64_t)round * 1000;

		expect_source(PN_SOURCE_AGENT, 1500);
		for (int i = 0; i < 50; i++, n++)
			pn_memwatch_set_die(0, n, 1ull << 40, n); /* every push is a publish */
		agent_proc_kill(&agent);
		expect_source(PN_SOURCE_POLL, 1000);
		assert_int_equal(
			agent_proc_start(&agent, (const char *const[]){ "--no-bpf", NULL }), 0);
	}
	expect_source(PN_SOURCE_AGENT, 1500);
	reader.stop = true;
	pthread_join(reader.thread, NULL);
	assert_false(reader.went_back);
	assert_true(reader.reads > 1000);
	assert_int_equal(reader.failures, 0);
}

static long voluntary_switches(pid_t pid)
{
	char path[64], line[128];
	long n = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "voluntary_ctxt_switches: %ld", &n) == 1)
			break;
	if (f)
		fclose(f);
	return n;
}

/* Idle with ample memory: at most one wake-up a second, and at most 12 MiB resident. */
static void test_idle(void **unused)
{
	pn_mem_state state;
	pn_mem_ext before, after;
	long switches, rss_pages;
	bool quiet = false;
	char path[64];
	FILE *f;

	if (geteuid())
		skip_because("needs root for hooks");
	assert_int_equal(agent_proc_start(&agent, NULL), 0);
	assert_int_equal(pn_memwatch_start(), 0);
	wait_for(PN_MEM_LEVEL_OK, &state);
	/* Something else may run on this machine: one quiet window of five seconds is enough. */
	for (int window = 0; window < 6 && !quiet; window++) {
		assert_int_equal(pn_memwatch_read_ext(NULL, &before), 0);
		switches = voluntary_switches(agent.pid);
		sleep(5);
		switches = voluntary_switches(agent.pid) - switches;
		assert_int_equal(pn_memwatch_read_ext(NULL, &after), 0);
		printf("# idle: %llu wake-ups, %ld voluntary switches in 5 s\n",
		       (unsigned long long)(after.wakeups - before.wakeups), switches);
		quiet = after.wakeups - before.wakeups <= 5 && switches <= 5;
	}
	assert_true(quiet);

	snprintf(path, sizeof(path), "/proc/%d/statm", agent.pid);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*d %ld", &rss_pages), 1);
	fclose(f);
	printf("# resident: %ld KiB\n", rss_pages * (sysconf(_SC_PAGESIZE) / 1024));
	/* 8 MiB of it are the flight recorder's, all of which it has from the start. */
	assert_true((uint64_t)rss_pages * (uint64_t)sysconf(_SC_PAGESIZE) <= (12 + 8) * MIB);
}

/* The eventfd of an engine's own loop, and die pushes through the agent. */
static void test_dies_and_fd(void **unused)
{
	pn_mem_state state, seen;
	struct pollfd fd = { .events = POLLIN };
	uint64_t count;

	assert_int_equal(agent_proc_start(&agent, (const char *const[]){ "--no-bpf", NULL }), 0);
	assert_int_equal(pn_memwatch_start(), 0);
	wait_for(PN_MEM_LEVEL_OK, &seen);
	fd.fd = pn_memwatch_fd();
	assert_true(fd.fd >= 0);
	pn_memwatch_set_die(3, 1, 16ull << 30, 7);
	assert_int_equal(pn_memwatch_read(&state), 0);
	assert_int_equal(state.n_dies, 4);
	assert_int_equal(state.per_die_free[3], 1);
	assert_int_equal(state.per_die_used[3], 7);
	assert_int_equal(state.level, PN_MEM_LEVEL_TIGHT);
	assert_int_equal(poll(&fd, 1, 5000), 1);
	assert_int_equal(read(fd.fd, &count, sizeof(count)), sizeof(count));
	pn_memwatch_set_die(3, 16ull << 30, 16ull << 30, 0);
	assert_int_equal(pn_memwatch_wait(PN_WAIT_LEVEL, &state, clock_now_ns() + 5 * S, &state),
			 0);
	assert_int_equal(state.level, PN_MEM_LEVEL_OK);
	assert_int_equal(poll(&fd, 1, 5000), 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_idle, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pressure_wakes_engine, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pressure_by_trigger, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pressure_by_poll, setup, teardown),
		cmocka_unit_test_setup_teardown(test_killed_while_publishing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dies_and_fd, setup, teardown),
	};

	filter_from_environment();
	return cmocka_run_group_tests_name("live", tests, NULL, NULL);
}
