// SPDX-License-Identifier: BSD-2-Clause
/*
 * The lower rung's tracepoints, and the page-fault sample, one by one: for each there is something
 * that it alone sees. Most of it takes a whole machine (PN_TEST_WHOLE_MACHINE) or
 * cgroup v2; test_hooks has what the rungs have in common.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../filter.h"
#include "../skip.h"
#include "agent/hooks/hooks.h"
#include "host/clock.h"
#include "support/consume.h"
#include "support/eater.h"
#include "support/observers.h"
#include "support/pressure.h"

#define MIB   (1024 * 1024ul)
#define MS_NS 1000000ull

/* What hooks_consume has delivered; of_pid of the process in want_pid alone. */
static struct {
	uint64_t count[PN_EVENT_KIND_COUNT];
	uint64_t of_pid[PN_EVENT_KIND_COUNT];
	uint64_t kswapd_node;
	struct pn_event last_faults;
	uint32_t want_pid;
} seen;
static struct hooks *hooks;
static struct pressure_group group;
static pid_t children[2];
static struct eater *eater;

static void seen_add(void *arg, const struct pn_event *event)
{
	if (event->kind >= PN_EVENT_KIND_COUNT)
		return;
	seen.count[event->kind]++;
	if (event->pid == seen.want_pid)
		seen.of_pid[event->kind]++;
	if (event->kind == PN_EVENT_KSWAPD_WAKE)
		seen.kswapd_node = event->value;
	if (event->kind == PN_EVENT_FAULTS)
		seen.last_faults = *event;
}

static int setup(void **state)
{
	const struct hooks_options options = { .best_mode = PN_MODE_TRACEPOINT };

	memset(&seen, 0, sizeof(seen));
	pressure_group_none(&group);
	return hooks_open(&hooks, &options, seen_add, NULL);
}

static int teardown(void **state)
{
	for (size_t i = 0; i < sizeof(children) / sizeof(children[0]); i++)
		pressure_stop(children[i]);
	memset(children, 0, sizeof(children));
	hooks_close(hooks);
	hooks = NULL;
	pressure_group_destroy(&group);
	if (eater)
		munmap(eater, sizeof(*eater));
	eater = NULL;
	return 0;
}

static bool machine_is_ours(void)
{
	return !geteuid() && getenv("PN_TEST_WHOLE_MACHINE");
}

/* Sum of the counters in /proc/vmstat whose names begin so. */
static uint64_t vmstat_sum(const char *prefix)
{
	FILE *file = fopen("/proc/vmstat", "re");
	unsigned long long value, sum = 0;
	char name[64];

	assert_non_null(file);
	while (fscanf(file, "%63s %llu", name, &value) == 2)
		if (!strncmp(name, prefix, strlen(prefix)))
			sum += value;
	fclose(file);
	return sum;
}

/* Nothing else wakes kswapd for sure than a machine without memory. */
static void test_kswapd_wake(void **state)
{
	if (!machine_is_ours())
		skip_because("takes the whole machine's memory, which only a virtual one is for");
	children[0] = pressure_start_hog(20 * MIB);
	assert_true(children[0] > 0);
	children[1] = pressure_start_reader(&group, 100 * MIB);
	assert_true(children[1] > 0);
	hooks_consume_until(hooks, &seen.count[PN_EVENT_KSWAPD_WAKE], 30000);
	assert_true(seen.count[PN_EVENT_KSWAPD_WAKE] > 0);
	assert_int_equal(seen.kswapd_node, 0);
}

/*
 * Direct reclaims of the kernel's own count are stalls that begin and end; it counts one again when
 * it tries once more. sched_switch sees the waits within them, each for itself if the reclaim's
 * begin is not known, so that there are more of those: the number shows whether these tracepoints
 * work.
 */
static void test_direct_reclaim(void **state)
{
	struct hooks_counters before, after;
	uint64_t first = vmstat_sum("allocstall_"), reclaims = 0;
	int status;

	if (!machine_is_ours())
		skip_because("takes the whole machine's memory, which only a virtual one is for");
	children[0] = pressure_start_hog(24 * MIB);
	assert_true(children[0] > 0);
	eater = mmap(NULL, sizeof(*eater), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_true(eater != MAP_FAILED && !process_protect());
	hooks_counters(hooks, &before);
	for (int i = 0; i < 40 && reclaims < 20; i++) {
		seen.want_pid = (uint32_t)eater_start(eater);
		assert_int_equal(waitpid((pid_t)seen.want_pid, &status, 0), seen.want_pid);
		assert_true(WIFSIGNALED(status)); /* nothing was left */
		hooks_consume_until(hooks, NULL, 0);
		reclaims = vmstat_sum("allocstall_") - first;
	}
	hooks_counters(hooks, &after);
	print_message("# direct: %llu reclaims, %llu stalls, %llu records\n",
		      (unsigned long long)reclaims,
		      (unsigned long long)(after.stalls - before.stalls),
		      (unsigned long long)seen.of_pid[PN_EVENT_STALL]);
	assert_true(reclaims >= 20);
	assert_true(after.stalls - before.stalls >= reclaims / 3);
	assert_true(after.stalls - before.stalls <= reclaims * 2 + 10);
	assert_true(seen.of_pid[PN_EVENT_STALL] > 0);
}

static uint64_t group_some_ns(void)
{
	char path[300];
	unsigned long long total_us;
	FILE *file;

	snprintf(path, sizeof(path), "%s/memory.pressure", group.path);
	file = fopen(path, "re");
	if (!file)
		return UINT64_MAX;
	if (fscanf(file, "some avg10=%*f avg60=%*f avg300=%*f total=%llu", &total_us) != 1)
		total_us = UINT64_MAX / 1000;
	fclose(file);
	return total_us * 1000;
}

/* A group over its memory.high is put to sleep: a stall off the CPU and outside of any reclaim. */
static void test_throttled_sleep(void **state)
{
	struct hooks_counters before, after;
	uint64_t some_before_ns, some_ns, stall_ns;
	int r = pressure_group_create(&group, 64 * MIB);

	if (r)
		skip_because("no memory cgroup can be made: %s", strerror(-r));
	if (group.is_v1)
		skip_because("the memory controller is on cgroup v1, which has no memory.high");
	some_before_ns = group_some_ns();
	if (some_before_ns == UINT64_MAX)
		skip_because("no PSI to compare with");
	assert_int_equal(pressure_group_set_high(&group, 4 * MIB), 0);
	hooks_counters(hooks, &before);
	children[0] = pressure_start_anon(&group, 32 * MIB);
	assert_true(children[0] > 0);
	hooks_consume_until(hooks, NULL, 3000);
	pressure_stop(children[0]); /* its last sleep ends here, and counts then */
	children[0] = 0;
	some_ns = group_some_ns() - some_before_ns;
	hooks_counters(hooks, &after);
	stall_ns = after.stall_ns - before.stall_ns;
	print_message("# throttled: stall %llu ms, psi some of the group %llu ms\n",
		      (unsigned long long)(stall_ns / MS_NS),
		      (unsigned long long)(some_ns / MS_NS));
	assert_true(some_ns > 500 * MS_NS);
	assert_true(stall_ns >= some_ns / 10 * 8);
}

/* Compaction that is asked for is a stall to the tracepoints. */
static void test_compaction(void **state)
{
	int fd = open("/proc/sys/vm/compact_memory", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		skip_because("no compaction in this kernel: %s", strerror(errno));
	seen.want_pid = (uint32_t)getpid();
	assert_int_equal(write(fd, "1", 1), 1);
	close(fd);
	hooks_consume_until(hooks, &seen.of_pid[PN_EVENT_STALL_END], 5000);
	assert_true(seen.of_pid[PN_EVENT_STALL] > 0);
	assert_true(seen.of_pid[PN_EVENT_STALL_END] > 0);
}

/* Takes that many first-touch faults of small pages. */
static void take_faults(size_t count)
{
	size_t bytes = count * 4096;
	volatile uint8_t *pages =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(pages != MAP_FAILED);
	madvise((void *)pages, bytes, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < bytes; i += 4096)
		pages[i] = 1;
	munmap((void *)pages, bytes);
}

static void test_fault_gate(void **state)
{
	const uint64_t *count = &seen.count[PN_EVENT_FAULTS];
	uint64_t look_ns;

	/* Not set, and set far away: nothing. */
	take_faults(20000);
	hooks_set_fault_gate(hooks, clock_now_ns(), 1ull << 40, 0);
	take_faults(20000);
	hooks_consume_until(hooks, NULL, 50);
	assert_int_equal(*count, 0);

	/* Past the gate: once, with the count. */
	hooks_set_fault_gate(hooks, clock_now_ns(), 10000, 0);
	take_faults(20000);
	hooks_consume_until(hooks, count, 5000);
	take_faults(20000);
	hooks_consume_until(hooks, NULL, 50);
	assert_int_equal(*count, 1);
	assert_true(seen.last_faults.value >= 10000);

	/* Set again: again, and not before its time. */
	look_ns = clock_now_ns();
	hooks_set_fault_gate(hooks, look_ns, 64, 300 * MS_NS);
	while (clock_now_ns() < look_ns + 350 * MS_NS)
		take_faults(1000);
	hooks_consume_until(hooks, NULL, 0);
	assert_int_equal(*count, 2);
	assert_true(seen.last_faults.ts_ns >= look_ns + 300 * MS_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_compaction, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fault_gate, setup, teardown),
		cmocka_unit_test_setup_teardown(test_throttled_sleep, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kswapd_wake, setup, teardown),
		cmocka_unit_test_setup_teardown(test_direct_reclaim, setup, teardown),
	};

	if (geteuid() != 0) {
		printf("1..0 # SKIP not root\n# skip: test_tracepoints: not root\n");
		return 0;
	}
	filter_from_environment();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
