/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thousand watched groups: the agent sleeps as it does with one, a group that did not change
 * costs a look at most 2 us, one that did is seen in time, and a thousand engines that go leave
 * nothing behind but their pages.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "core/page.h"
#include "core/proto.h"
#include "host/clock.h"
#include "host/futex.h"
#include "support/agent_proc.h"
#include "support/group.h"
#include "support/pressure.h"
#include "support/raw_client.h"

#define GROUPS   1000
#define LOOKS    50
#define IDLE_S   5
#define LIMIT_MS 20000

#define SEEN_EACH  200
#define SEEN_COUNT (GROUPS / SEEN_EACH)
#define SOON_NS    1000000000ull

#define MIB (1ull << 20)

static struct agent_proc agent;
static struct group groups[GROUPS];

/* By the engine of every so many groups. */
static struct seen {
	_Atomic uint64_t max_bytes;
	_Atomic int level;
} * seen;

static pid_t engines[GROUPS];

/* The client that is there from the start, in this process's own group. */
static struct page_view view;
static int own_sock;

/* In the group until killed, with its view. Says so on ready_fd. Some tell what they see. */
static void engine_run(const struct group *group, int ready_fd)
{
	const struct page *page;
	struct page_view own;
	pn_mem_state state;
	int sock, memfd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (group_join(group, 0))
		_exit(1);
	sock = raw_connect(agent.socket_path);
	memfd = sock < 0 ? -1 : raw_page(sock);
	if (memfd < 0 || write(ready_fd, "", 1) != 1)
		_exit(1);
	if ((group - groups) % SEEN_EACH)
		for (;;)
			pause();
	page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, memfd, 0);
	if (page == MAP_FAILED || page_open(&own, page, PAGE_BYTES))
		_exit(1);
	for (;; usleep(10000)) {
		if (page_read(&own, &state, NULL))
			continue;
		seen[(group - groups) / SEEN_EACH].max_bytes = state.cgroup_max_bytes;
		seen[(group - groups) / SEEN_EACH].level = state.level;
	}
}

static void start_engines(int from, int to)
{
	char name[16], byte;
	int ready[2];

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	for (int i = from; i < to; i++) {
		struct group root;

		assert_int_equal(group_root(&root), 0);
		snprintf(name, sizeof(name), "m%d", i);
		assert_int_equal(group_create(&groups[i], &root, name), 0);
		assert_int_equal(group_set_max(&groups[i], 1024 * MIB), 0);
		engines[i] = fork();
		assert_true(engines[i] >= 0);
		if (!engines[i])
			engine_run(&groups[i], ready[1]);
		assert_int_equal(read(ready[0], &byte, 1), 1);
	}
	close(ready[0]);
	close(ready[1]);
}

static void stop_engines(void)
{
	for (int i = 0; i < GROUPS; i++)
		if (engines[i] > 0)
			kill(engines[i], SIGKILL);
	for (int i = 0; i < GROUPS; i++) {
		if (engines[i] > 0)
			waitpid(engines[i], NULL, 0);
		engines[i] = 0;
		group_destroy(&groups[i]);
	}
}

static int teardown(void **state)
{
	stop_engines();
	close(own_sock);
	agent_proc_destroy(&agent);
	return 0;
}

/* CPU time of the agent so far. */
static uint64_t agent_cpu_ns(void)
{
	char path[64];
	unsigned long long ns = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", agent.pid);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%llu", &ns), 1);
	fclose(file);
	return ns;
}

static int agent_descriptors(void)
{
	return agent_proc_descriptors(&agent, NULL);
}

static pn_mem_ext own_ext(void)
{
	pn_mem_ext ext;

	assert_int_equal(page_read(&view, NULL, &ext), 0);
	return ext;
}

static bool looked(void *arg)
{
	return own_ext().looks > *(const uint64_t *)arg;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t fastest_tenth(uint64_t took[static LOOKS])
{
	qsort(took, LOOKS, sizeof(took[0]), compare);
	return took[LOOKS / 10];
}

/*
 * CPU time of the least that a look does for a thousand groups, in this process: a snapshot is
 * copied into each page, and who sleeps on it is woken.
 */
static uint64_t bare_cpu_ns(char *pages)
{
	static const char snapshot[sizeof(pn_mem_state) + sizeof(pn_mem_ext)];
	struct timespec before, after;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
	for (size_t i = 0; i < GROUPS; i++) {
		memcpy(pages + i * PAGE_BYTES + 64, snapshot, sizeof(snapshot));
		futex_wake((_Atomic uint32_t *)(void *)(pages + i * PAGE_BYTES), FUTEX_WAKE_ANY);
	}
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
	return (uint64_t)(after.tv_sec - before.tv_sec) * 1000000000u + (uint64_t)after.tv_nsec -
	       (uint64_t)before.tv_nsec;
}

/*
 * CPU time that the agent takes for a look for all views, and that of the bare work beside it: of
 * LOOKS the fastest tenth, since what else runs on a machine makes the same work slower.
 */
static uint64_t look_cpu_ns(uint64_t *ret_bare_ns)
{
	uint64_t took[LOOKS], bare[LOOKS], looks, before;
	size_t bytes = GROUPS * (size_t)PAGE_BYTES;
	char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(pages != MAP_FAILED);
	memset(pages, 0, bytes);
	for (int i = 0; i < LOOKS; i++) {
		bare[i] = bare_cpu_ns(pages);
		looks = own_ext().looks;
		before = agent_cpu_ns();
		agent_proc_signal(&agent, SIGHUP);
		assert_true(test_until(looked, &looks, LIMIT_MS));
		usleep(5000); /* it may still be publishing other views; it is asleep soon */
		took[i] = agent_cpu_ns() - before;
	}
	munmap(pages, bytes);
	*ret_bare_ns = fastest_tenth(bare);
	return fastest_tenth(took);
}

static uint64_t idle_wakeups(void)
{
	uint64_t before = own_ext().wakeups;

	sleep(IDLE_S);
	return own_ext().wakeups - before;
}

static bool has_new_limit(void *arg)
{
	return ((const struct seen *)arg)->max_bytes == 512 * MIB;
}

static bool is_critical(void *arg)
{
	return ((const struct seen *)arg)->level == PN_MEM_LEVEL_CRITICAL;
}

static bool is_filled(void *arg)
{
	const struct group *group = arg;
	unsigned long long bytes = 0;
	char path[1100];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", group->memory,
		 group->is_v1 ? "memory.usage_in_bytes" : "memory.current");
	file = fopen(path, "re");
	if (file && fscanf(file, "%llu", &bytes) != 1)
		bytes = 0;
	if (file)
		fclose(file);
	return bytes >= 450 * MIB;
}

/* From a group being nearly full, which no record tells, to its page saying so. */
static uint64_t growth_ns(int which)
{
	struct pressure_group into = { .file_fd = -1, .is_v1 = groups[0].is_v1 };
	uint64_t filled_ns, took_ns;
	pid_t filler;

	assert_true(strlen(groups[which * SEEN_EACH].memory) < sizeof(into.path));
	strcpy(into.path, groups[which * SEEN_EACH].memory);
	filler = pressure_start_anon(&into, 450 * MIB);
	assert_true(filler > 0);
	assert_true(test_until(is_filled, &groups[which * SEEN_EACH], LIMIT_MS));
	filled_ns = clock_now_ns();
	assert_true(test_until(is_critical, &seen[which], LIMIT_MS));
	took_ns = clock_now_ns() - filled_ns;
	pressure_stop(filler);
	return took_ns;
}

/*
 * What changes in a group of many is seen: a limit when the group's turn comes, growth at once,
 * since the whole host's count of allocated pages tells which groups may have grown.
 */
static void expect_changes_seen(void)
{
	uint64_t took_ns[SEEN_COUNT];

	for (int i = 0; i < SEEN_COUNT; i++)
		assert_int_equal(group_set_max(&groups[i * SEEN_EACH], 512 * MIB), 0);
	for (int i = 0; i < SEEN_COUNT; i++)
		assert_true(test_until(has_new_limit, &seen[i], LIMIT_MS));
	for (int i = 0; i < SEEN_COUNT; i++)
		took_ns[i] = growth_ns(i);
	qsort(took_ns, SEEN_COUNT, sizeof(took_ns[0]), compare);
	printf("# growth of one in %d seen after %.0f ms (median of %d), at most %.0f ms\n", GROUPS,
	       (double)took_ns[SEEN_COUNT / 2] / 1e6, SEEN_COUNT,
	       (double)took_ns[SEEN_COUNT - 1] / 1e6);
	assert_true(took_ns[SEEN_COUNT / 2] < SOON_NS);
}

static bool all_gone(void *arg)
{
	/* A few are opened once, when they are first needed. */
	return agent_descriptors() <= *(const int *)arg + 4;
}

static void test_thousand_groups(void **state)
{
	/* No hooks: what others do on this machine is not what is counted. */
	static const char *const args[] = { "--no-bpf", NULL };
	uint64_t wakes_one, wakes_many, cpu_one, cpu_many, bare_ns, rss_one;
	struct group root;
	int descriptors, memfd;
	struct page *page;

	if (group_root(&root))
		skip_because("no memory cgroup here");
	if (group_create(&groups[0], &root, "probe"))
		skip_because("no memory cgroup can be made");
	group_destroy(&groups[0]);
	seen = mmap(NULL, SEEN_COUNT * sizeof(*seen), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(seen != MAP_FAILED);
	assert_int_equal(agent_proc_start(&agent, args), 0);
	own_sock = raw_connect(agent.socket_path);
	memfd = raw_page(own_sock);
	assert_true(memfd >= 0);
	page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, memfd, 0);
	close(memfd);
	assert_true(page != MAP_FAILED);
	assert_int_equal(page_open(&view, page, PAGE_BYTES), 0);

	descriptors = agent_descriptors();
	start_engines(0, 1);
	cpu_one = look_cpu_ns(&bare_ns);
	wakes_one = idle_wakeups();
	rss_one = agent_proc_rss_kib(&agent);
	start_engines(1, GROUPS);
	cpu_many = look_cpu_ns(&bare_ns);
	wakes_many = idle_wakeups();
	printf("# %d groups: %.2f us of a look each (%.0f us, %.0f us with one; a bare copy and "
	       "wake "
	       "%.2f us), %llu wake-ups in %d s (%llu with one), %.1f MiB and %d descriptors "
	       "more\n",
	       GROUPS, (double)(cpu_many - cpu_one) / GROUPS / 1000, (double)cpu_many / 1000,
	       (double)cpu_one / 1000, (double)bare_ns / GROUPS / 1000,
	       (unsigned long long)wakes_many, IDLE_S, (unsigned long long)wakes_one,
	       (double)(agent_proc_rss_kib(&agent) - rss_one) / 1024,
	       agent_descriptors() - descriptors);
	/* Where the machine itself is slow, its own copies and wakes are: usually 2.7 of those. */
	assert_true(cpu_many - cpu_one <= 2000ull * GROUPS || cpu_many - cpu_one <= 4 * bare_ns);
	assert_true(wakes_many <= wakes_one + 2);

	expect_changes_seen();

	stop_engines();
	if (!test_until(all_gone, &descriptors, LIMIT_MS))
		fail_msg("%d descriptors, not %d", agent_descriptors(), descriptors);
	munmap(page, PAGE_BYTES);
	munmap(seen, SEEN_COUNT * sizeof(*seen));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_thousand_groups, teardown),
	};

	if (agent_proc_init(&agent))
		return 1;
	return cmocka_run_group_tests_name("many", tests, NULL, NULL);
}
