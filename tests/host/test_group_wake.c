/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One group is over its memory.high: the engine that waits in it is woken, and one that waits in
 * another group is not, not once. Where somebody else stalled meanwhile (a kernel thread that
 * compacts, say) the host's level may rise, which proves nothing: then it is tried again. How long
 * the first takes from the kernel's record of it is printed beside the bare chain: the same BPF
 * programs in a process that waits for their ring buffer and does nothing else.
 *
 * PN_GROUP_ROUNDS: how often, 3.
 */
#include <errno.h>
#include <poll.h>
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
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "agent/hooks/hooks.h"
#include "host/clock.h"
#include "support/agent_proc.h"
#include "support/observers.h"
#include "support/pressure.h"
#include "pn_memwatch.h"

#define MIB        (1024 * 1024ul)
#define MS_NS      1000000ull
#define ROUNDS_MAX 500
#define LIMIT_MS   20000
#define QUIET_MS   300
#define TRIES      3
#define DECAY_MS   120000 /* of a level that somebody else raised */
#define WAKES_MAX  64     /* the newest of the engine in a round */

/* What the processes share. */
static struct {
	_Atomic int ready;
	uint64_t group_id;
	_Atomic uint64_t begin_ns; /* of the round; what was seen before does not count */
	_Atomic uint64_t record_ns;
	_Atomic uint64_t bare_ns;
	_Atomic unsigned n_wakes; /* of the engine in the group, in this round */
	struct {
		uint64_t publish_ns; /* of the snapshot that it had then */
		uint64_t woken_ns;
	} wakes[WAKES_MAX];
	_Atomic unsigned others_wakes; /* for a level, of the engine in the other group */
	_Atomic int others_level;
	_Atomic unsigned foreign_stalls; /* records of tasks that are not in the group */
} * shared;

static struct agent_proc agent;
static struct pressure_group own, other;
static pid_t children[3], load;

static void on_record(void *arg, const struct pn_event *event)
{
	uint64_t now_ns = clock_now_ns();

	if ((event->kind == PN_EVENT_STALL || event->kind == PN_EVENT_STALL_END) &&
	    event->cgroup_id != shared->group_id && !shared->foreign_stalls++)
		print_message("# a stall of %s, which is in no group of this test\n", event->comm);
	if (event->kind != PN_EVENT_MEMCG || event->cgroup_id != shared->group_id ||
	    event->ts_ns < shared->begin_ns || shared->bare_ns)
		return;
	shared->record_ns = event->ts_ns;
	shared->bare_ns = now_ns;
}

static void bare_run(void)
{
	const struct hooks_options options = { 0 };
	struct hooks *hooks;
	struct pollfd pollfd = { .events = POLLIN };

	if (hooks_open(&hooks, &options, on_record, NULL) || process_protect() ||
	    hooks_memcg_mode(hooks) == PN_MODE_NONE)
		return;
	pollfd.fd = hooks_fd(hooks);
	shared->ready++;
	/* Not every record wakes. */
	while (poll(&pollfd, 1, QUIET_MS / 3) >= 0)
		hooks_consume(hooks);
}

static void own_engine_run(void)
{
	pn_mem_state state;
	pn_mem_ext ext;

	if (pressure_group_join(&own) || pn_memwatch_start() || process_protect() ||
	    pn_memwatch_source() != PN_SOURCE_AGENT || pn_memwatch_read(&state))
		return;
	shared->ready++;
	for (;;) {
		uint64_t now_ns;
		unsigned n;

		if (pn_memwatch_wait(PN_WAIT_SNAPSHOT, &state, UINT64_MAX, &state))
			return;
		now_ns = clock_now_ns();
		if (pn_memwatch_read_ext(NULL, &ext))
			return;
		n = shared->n_wakes;
		if (ext.publish_ns < shared->begin_ns)
			continue;
		shared->wakes[n % WAKES_MAX].publish_ns = ext.publish_ns;
		shared->wakes[n % WAKES_MAX].woken_ns = now_ns;
		shared->n_wakes = n + 1;
	}
}

static void other_engine_run(void)
{
	pn_mem_state state;
	pn_mem_ext ext;

	if (pressure_group_join(&other) || pn_memwatch_start() || process_protect() ||
	    pn_memwatch_source() != PN_SOURCE_AGENT || pn_memwatch_read(&state))
		return;
	shared->others_level = state.level;
	shared->ready++;
	while (!pn_memwatch_wait(PN_WAIT_LEVEL, &state, UINT64_MAX, &state)) {
		if (pn_memwatch_read_ext(NULL, &ext))
			return;
		print_message(
			"# the other engine woken: %s, reasons %#x, some %.2f %% (file %.2f %%)\n",
			pn_mem_level_name(state.level), ext.reasons, ext.live_psi_some_avg10,
			state.host_psi_some_avg10);
		shared->others_wakes++;
		shared->others_level = state.level;
	}
}

static bool is_ready(void *arg)
{
	return shared->ready >= *(int *)arg;
}

static void child_start(int which, void (*run)(void))
{
	pid_t parent = getpid();
	int wanted = shared->ready + 1;

	children[which] = fork();
	assert_true(children[which] >= 0);
	if (!children[which]) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent)
			run();
		_exit(1);
	}
	assert_true(test_until(is_ready, &wanted, LIMIT_MS));
}

/* When the engine was first awake for what was published after the record; 0: not yet. */
static uint64_t engine_ns(void)
{
	uint64_t first_ns = 0;

	for (unsigned i = 0; i < shared->n_wakes && i < WAKES_MAX; i++) {
		uint64_t woken_ns = shared->wakes[i].woken_ns;

		if (shared->wakes[i].publish_ns >= shared->record_ns &&
		    (!first_ns || woken_ns < first_ns))
			first_ns = woken_ns;
	}
	return first_ns;
}

static bool is_seen(void *arg)
{
	return shared->bare_ns && engine_ns();
}

static bool other_is_ok(void *arg)
{
	return shared->others_level == PN_MEM_LEVEL_OK;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_percentiles(const char *name, double *us, unsigned n)
{
	qsort(us, n, sizeof(us[0]), compare_doubles);
	print_message("# memory.high -> %s: p50 %.0f us, p99 %.0f us (n = %u)\n", name,
		      us[(n - 1) / 2], us[(n * 99 + 99) / 100 - 1], n);
}

static int setup(void **state)
{
	return agent_proc_init(&agent);
}

static int teardown(void **state)
{
	pressure_stop(load);
	for (int i = 0; i < 3; i++)
		pressure_stop(children[i]);
	agent_proc_destroy(&agent);
	pressure_group_destroy(&own);
	pressure_group_destroy(&other);
	return 0;
}

/* One go of the load, from nothing to awake. */
static void run_round(double *engine_us, double *bare_us)
{
	shared->bare_ns = shared->n_wakes = 0;
	shared->begin_ns = clock_now_ns();
	load = pressure_start_anon(&own, 32 * MIB);
	assert_true(load > 0);
	assert_true(test_until(is_seen, NULL, LIMIT_MS));
	*engine_us = (double)(int64_t)(engine_ns() - shared->record_ns) / 1e3;
	*bare_us = (double)(shared->bare_ns - shared->record_ns) / 1e3;
	shared->begin_ns = UINT64_MAX;
	pressure_stop(load);
	load = 0;
	/* Only so that the next round finds everybody asleep. */
	usleep(QUIET_MS * 1000);
}

static void test_memory_high(void **state)
{
	static double engine_us[ROUNDS_MAX], bare_us[ROUNDS_MAX];
	const char *text = getenv("PN_GROUP_ROUNDS");
	unsigned rounds = text ? (unsigned)atoi(text) : 3, tries = 0;
	struct stat st;
	int r = geteuid() ? -EPERM : pressure_group_create(&own, 256 * MIB);

	if (!r)
		r = pressure_group_create(&other, 256 * MIB);
	if (r)
		skip_because("no memory cgroup can be made: %s", strerror(-r));
	if (own.is_v1)
		skip_because("the memory controller is on cgroup v1, which has no memory.high");
	assert_in_range(rounds, 1, ROUNDS_MAX);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	assert_true(shared != MAP_FAILED);
	assert_int_equal(stat(own.path, &st), 0);
	shared->group_id = st.st_ino; /* of a kernfs folder: the cgroup's id */
	shared->begin_ns = UINT64_MAX;
	setenv("PN_HOST_RESERVE_BYTES", "4K", 1); /* the host is no reason here */
	assert_int_equal(agent_proc_start(&agent, NULL), 0);
	child_start(0, own_engine_run);
	child_start(1, other_engine_run);
	child_start(2, bare_run);
	/* What the engine there has already, and some more: the load alone goes over it. */
	assert_int_equal(pressure_group_set_high(&own, 24 * MIB), 0);

	do {
		assert_true(test_until(other_is_ok, NULL, DECAY_MS));
		shared->others_wakes = shared->foreign_stalls = 0;
		for (unsigned i = 0; i < rounds; i++)
			run_round(&engine_us[i], &bare_us[i]);
		print_percentiles("bare chain", bare_us, rounds);
		print_percentiles("engine", engine_us, rounds);
		print_message("# the other group's engine: %u wake-ups, %u stalls elsewhere\n",
			      shared->others_wakes, shared->foreign_stalls);
	} while (shared->others_wakes && shared->foreign_stalls && ++tries < TRIES);
	assert_int_equal(shared->others_wakes, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_memory_high, setup, teardown),
	};

	return cmocka_run_group_tests_name("group_wake", tests, NULL, NULL);
}
