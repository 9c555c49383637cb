/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The watch without an agent: its own poll over a made-up host. Start and stop, reading, waiting,
 * the descriptor, dies, fork, bad settings, a file that cannot be read, and leaks.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "pn_memwatch.h"
#include "watch_tree.h"

static const char *const settings[] = {
	"PN_HOST_RESERVE_BYTES", "PN_PSI_FULL_REJECT", "PN_DIE_RESERVE_BYTES",
	"PN_LEVEL_HOLD_MS",      "PN_CGROUP_LEVEL",
};

#ifdef __SANITIZE_THREAD__
static const bool under_tsan = true;
#else
static const bool under_tsan = false;
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
static const bool under_sanitizer = true;
#else
static const bool under_sanitizer = false;
#endif

static struct host_tree tree;

static int setup(void **unused)
{
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		unsetenv(settings[i]);
	tree_make_host(&tree);
	return 0;
}

static int teardown(void **unused)
{
	pn_memwatch_stop();
	pn_memwatch_log_to(NULL, NULL);
	tree_free(&tree);
	return 0;
}

static void set_avail_and_look(uint64_t avail_bytes)
{
	tree_set_avail(&tree, avail_bytes);
	pn_memwatch_poll_now();
}

static pn_mem_state read_state(void)
{
	pn_mem_state state;

	assert_int_equal(pn_memwatch_read(&state), 0);
	return state;
}

static void test_start_stop(void **unused)
{
	pn_mem_state state;
	pn_mem_ext ext;
	uint64_t last_seq = 0;

	for (int round = 0; round < 3; round++) {
		assert_int_equal(pn_memwatch_start(), 0);
		assert_int_equal(pn_memwatch_read_ext(&state, &ext), 0);
		assert_int_equal(state.host_total_bytes, HOST_TOTAL_BYTES);
		assert_int_equal(state.host_avail_bytes, 40 * GIB);
		assert_int_equal(state.level, PN_MEM_LEVEL_OK);
		assert_true(state.seq > last_seq && state.seq % 2 == 0);
		last_seq = state.seq;
		assert_int_equal(ext.mode, PN_MODE_POLL);
		assert_int_equal(ext.source_state[PN_SRC_PSI], PN_SRC_OK);
		assert_int_equal(ext.source_state[PN_SRC_CGROUP], PN_SRC_ABSENT);
		assert_true(pn_memwatch_running());
		assert_int_equal(pn_memwatch_source(), PN_SOURCE_POLL);
		assert_int_equal(pn_memwatch_hooks(NULL, 0), 0);
		assert_int_equal(pn_memwatch_start(), 0);
		assert_int_equal(pn_memwatch_read(NULL), 0);

		pn_memwatch_stop();
		pn_memwatch_stop();
		assert_false(pn_memwatch_running());
		assert_int_equal(pn_memwatch_source(), PN_SOURCE_NONE);
	}
}

static void test_not_running(void **unused)
{
	pn_mem_state state, untouched;
	pn_hook_status hook;

	memset(&state, 0xa5, sizeof(state));
	untouched = state;
	assert_int_equal(pn_memwatch_read(&state), -ENODATA);
	assert_int_equal(pn_memwatch_wait(PN_WAIT_LEVEL, NULL, 0, &state), -ENODATA);
	assert_int_equal(pn_memwatch_wait(PN_WAIT_LEVEL, &untouched, 0, &state), -ENODATA);
	assert_memory_equal(&state, &untouched, sizeof(state));
	assert_int_equal(pn_memwatch_fd(), -ENODATA);
	assert_int_equal(pn_memwatch_hooks(&hook, 1), -ENODATA);
	pn_memwatch_poll_now();
	pn_memwatch_set_die(0, 1, 2, 3);
	assert_false(pn_memwatch_running());
}

static void test_start_without_proc(void **unused)
{
	struct held before = held_now();

	setenv("PN_PROCFS", "/nowhere/at/all", 1);
	assert_int_equal(pn_memwatch_start(), -ENOENT);
	assert_false(pn_memwatch_running());
	assert_held_no_more(before);
}

static void test_poll_now(void **unused)
{
	static const struct {
		uint64_t avail_bytes;
		pn_mem_level level;
	} cases[] = {
		{ 39 * GIB, PN_MEM_LEVEL_OK },
		{ 15 * GIB, PN_MEM_LEVEL_WATCH },
		{ 11 * GIB, PN_MEM_LEVEL_TIGHT },
		{ 5 * GIB, PN_MEM_LEVEL_CRITICAL },
	};
	pn_mem_state state;
	uint64_t last_seq = 0;

	assert_int_equal(pn_memwatch_start(), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set_avail_and_look(cases[i].avail_bytes);
		state = read_state();
		assert_int_equal(state.host_avail_bytes, cases[i].avail_bytes);
		assert_int_equal(state.level, cases[i].level);
		assert_true(state.seq > last_seq);
		last_seq = state.seq;
	}
}

/* One thread in pn_memwatch_wait; static, since a failed test leaves it behind. */
struct waiter {
	pthread_t thread;
	pn_mem_state seen, got;
	_Atomic int tid;
	int result;
};

static void *wait_for_level(void *arg)
{
	struct waiter *waiter = arg;

	waiter->tid = (int)syscall(SYS_gettid);
	waiter->result = pn_memwatch_wait(PN_WAIT_LEVEL, &waiter->seen, UINT64_MAX, &waiter->got);
	return NULL;
}

/* Nothing but the wait puts the thread to sleep once it has told its number. */
static bool is_asleep(void *arg)
{
	struct waiter *waiter = arg;
	char path[64], state = 0;
	FILE *file;

	if (!waiter->tid)
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", waiter->tid);
	file = fopen(path, "re");
	if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (file)
		fclose(file);
	return state == 'S';
}

static void waiter_start(struct waiter *waiter)
{
	waiter->tid = 0;
	waiter->seen = read_state();
	assert_int_equal(pthread_create(&waiter->thread, NULL, wait_for_level, waiter), 0);
	assert_true(comes_true(is_asleep, waiter, 5000));
}

static void test_wait_level(void **unused)
{
	static struct waiter waiter;

	assert_int_equal(pn_memwatch_start(), 0);
	waiter_start(&waiter);
	set_avail_and_look(30 * GIB); /* no other level: it sleeps on */
	assert_true(comes_true(is_asleep, &waiter, 5000));
	set_avail_and_look(11 * GIB);
	pthread_join(waiter.thread, NULL);
	assert_int_equal(waiter.result, 0);
	assert_int_equal(waiter.got.level, PN_MEM_LEVEL_TIGHT);
	assert_int_equal(waiter.got.host_avail_bytes, 11 * GIB);
	/* A wait for a state that already differs returns at once, whatever the deadline. */
	assert_int_equal(pn_memwatch_wait(PN_WAIT_LEVEL, &waiter.seen, 0, NULL), 0);
}

static void test_wait_snapshot(void **unused)
{
	pn_mem_state seen, got;

	assert_int_equal(pn_memwatch_start(), 0);
	seen = read_state();
	for (int i = 0; i < 3; i++) {
		assert_int_equal(pn_memwatch_wait(PN_WAIT_SNAPSHOT, i ? &seen : NULL,
						  deadline_in_ms(5000), &got),
				 0);
		assert_true(got.seq > seen.seq);
		seen = got;
	}
}

static void test_wait_deadline(void **unused)
{
	pn_mem_state seen, got, untouched;
	uint64_t begin_ns, took_ms;

	assert_int_equal(pn_memwatch_start(), 0);
	seen = read_state();
	memset(&got, 0xa5, sizeof(got));
	untouched = got;
	begin_ns = clock_now_ns();
	assert_int_equal(pn_memwatch_wait(PN_WAIT_LEVEL, &seen, begin_ns + 400 * MS_NS, &got),
			 -ETIMEDOUT);
	took_ms = (clock_now_ns() - begin_ns) / MS_NS;
	assert_in_range(took_ms, 400, LIMIT_MS(800));
	assert_int_equal(pn_memwatch_wait(PN_WAIT_LEVEL, NULL, 0, &got), -ETIMEDOUT);
	assert_memory_equal(&got, &untouched, sizeof(got));
}

static void test_stop_ends_waits(void **unused)
{
	static struct waiter waiters[8];

	assert_int_equal(pn_memwatch_start(), 0);
	for (int i = 0; i < 8; i++)
		waiter_start(&waiters[i]);
	pn_memwatch_stop();
	for (int i = 0; i < 8; i++) {
		pthread_join(waiters[i].thread, NULL);
		assert_int_equal(waiters[i].result, -ESHUTDOWN);
	}
}

static void assert_readable(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	uint64_t count;

	assert_int_equal(poll(&ready, 1, 5000), 1);
	assert_int_equal(read(fd, &count, sizeof(count)), sizeof(count));
	assert_int_equal(read(fd, &count, sizeof(count)), -1);
	assert_int_equal(errno, EAGAIN);
}

static void test_fd(void **unused)
{
	struct pollfd ready = { .events = POLLIN };
	int fd;

	assert_int_equal(pn_memwatch_start(), 0);
	fd = pn_memwatch_fd();
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	ready.fd = fd;
	assert_int_equal(poll(&ready, 1, 0), 0);
	set_avail_and_look(15 * GIB);
	assert_readable(fd);
	assert_int_equal(pn_memwatch_fd(), fd);
	set_avail_and_look(5 * GIB);
	assert_readable(fd);
	pn_memwatch_stop();
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(errno, EBADF);
}

/* A change right after the first call, before the thread behind the descriptor has run. */
static void test_fd_misses_no_change(void **unused)
{
	for (int i = 0; i < 10; i++) {
		int fd;

		tree_set_avail(&tree, 40 * GIB);
		assert_int_equal(pn_memwatch_start(), 0);
		/* A tick has just been: the next one does not see the change before the call. */
		assert_int_equal(
			pn_memwatch_wait(PN_WAIT_SNAPSHOT, NULL, deadline_in_ms(5000), NULL), 0);
		tree_set_avail(&tree, 5 * GIB);
		fd = pn_memwatch_fd();
		assert_true(fd >= 0);
		pn_memwatch_poll_now();
		assert_readable(fd);
		pn_memwatch_stop();
	}
}

static void test_dies(void **unused)
{
	static const struct {
		int die_id;
		uint64_t free_bytes;
		pn_mem_level level;
	} cases[] = {
		/* Rising levels: a fall would be held. */
		{ 2, 70 * GIB, PN_MEM_LEVEL_OK },
		{ 2, 9 * GIB, PN_MEM_LEVEL_WATCH },
		{ 15, 4 * GIB, PN_MEM_LEVEL_TIGHT },
		{ 0, 0, PN_MEM_LEVEL_CRITICAL },
	};
	pn_mem_state state, before;

	assert_int_equal(pn_memwatch_start(), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int die = cases[i].die_id;

		pn_memwatch_set_die(die, cases[i].free_bytes, 79 * GIB, 3 * GIB + i);
		state = read_state();
		assert_int_equal(state.per_die_free[die], cases[i].free_bytes);
		assert_int_equal(state.per_die_budget[die], 79 * GIB);
		assert_int_equal(state.per_die_used[die], 3 * GIB + i);
		assert_true(state.n_dies > die);
		assert_int_equal(state.level, cases[i].level);
	}
	before = state;
	pn_memwatch_set_die(-1, 1, 2, 3);
	pn_memwatch_set_die(PN_MEM_MAX_DIES, 1, 2, 3);
	state = read_state();
	assert_int_equal(state.n_dies, before.n_dies);
	assert_memory_equal(state.per_die_free, before.per_die_free, sizeof(state.per_die_free));
	assert_memory_equal(state.per_die_budget, before.per_die_budget,
			    sizeof(state.per_die_budget));
	/* No more than budget and reserve. */
	pn_memwatch_set_die(1, 500 * GIB, 79 * GIB, 500 * GIB);
	state = read_state();
	assert_int_equal(state.per_die_free[1], 80 * GIB);
	assert_int_equal(state.per_die_used[1], 80 * GIB);
}

static void test_die_budget(void **unused)
{
	assert_int_equal(pn_memwatch_die_budget(80 * GIB), 79 * GIB);
	assert_int_equal(pn_memwatch_die_budget(GIB / 2), 0);
	setenv("PN_DIE_RESERVE_BYTES", "2G", 1);
	assert_int_equal(pn_memwatch_die_budget(80 * GIB), 78 * GIB);
}

/* What a child does; its exit status names the step that failed. */
static int run_child(void)
{
	pn_mem_state state, next;

	alarm(20);
	if (pn_memwatch_running() || pn_memwatch_source() != PN_SOURCE_NONE)
		return 1;
	if (pn_memwatch_read(&state) != -ENODATA)
		return 2;
	/* Its runtime ends a child of several threads that starts one itself. */
	if (under_tsan)
		return 0;
	if (pn_memwatch_start())
		return 3;
	if (pn_memwatch_read(&state) || state.host_total_bytes != HOST_TOTAL_BYTES)
		return 4;
	if (pn_memwatch_wait(PN_WAIT_SNAPSHOT, &state, deadline_in_ms(5000), &next))
		return 5;
	pn_memwatch_stop();
	return pn_memwatch_running() ? 6 : 0;
}

static void assert_child_is_well(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_fork(void **unused)
{
	struct held before;
	static struct waiter waiter;
	pn_mem_state seen;
	int fd;
	pid_t pid;

	assert_int_equal(pn_memwatch_start(), 0);
	fd = pn_memwatch_fd();
	assert_true(fd >= 0);
	waiter_start(&waiter);
	before = held_now();
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(fcntl(fd, F_GETFD) >= 0 ? 7 : run_child());
	assert_child_is_well(pid);

	assert_true(pn_memwatch_running());
	assert_held_no_more(before);
	seen = read_state();
	assert_int_equal(pn_memwatch_wait(PN_WAIT_SNAPSHOT, &seen, deadline_in_ms(5000), &seen), 0);
	set_avail_and_look(5 * GIB);
	pthread_join(waiter.thread, NULL);
	assert_int_equal(waiter.result, 0);
	assert_readable(fd);
}

static void *start_and_stop(void *arg)
{
	_Atomic bool *end = arg;

	while (!*end) {
		pn_memwatch_start();
		pn_memwatch_stop();
	}
	return NULL;
}

/*
 * Wherever in a start or a stop the fork comes, the child can start its own. Under a sanitizer it
 * does not: the runtime's own locks may be held by the other thread at the fork, and then the
 * child's first thread waits for them for ever.
 */
static void test_fork_during_start_and_stop(void **unused)
{
	static _Atomic bool end;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, start_and_stop, &end), 0);
	for (int i = 0; i < 10; i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (!pid)
			_exit(under_sanitizer ? pn_memwatch_running() : run_child());
		assert_child_is_well(pid);
	}
	end = true;
	pthread_join(thread, NULL);
}

struct lines {
	char text[16][256];
	int n;
};

static void keep_line(void *arg, const char *line)
{
	struct lines *lines = arg;

	if (lines->n < 16)
		snprintf(lines->text[lines->n++], sizeof(lines->text[0]), "%s", line);
}

static bool told_of(const struct lines *lines, const char *what)
{
	for (int i = 0; i < lines->n; i++)
		if (strstr(lines->text[i], what) && !strchr(lines->text[i], '\n'))
			return true;
	return false;
}

static void test_bad_settings(void **unused)
{
	static const char *const bad[] = { "lots", "200", "1X", "-5", "2" };
	struct lines lines = { .n = 0 };
	char long_path[200];
	pn_mem_ext ext;

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		setenv(settings[i], bad[i], 1);
	memset(long_path, 'x', sizeof(long_path) - 1);
	long_path[0] = '/';
	long_path[sizeof(long_path) - 1] = '\0';
	setenv("PN_SOCKET", long_path, 1);
	pn_memwatch_log_to(keep_line, &lines);
	assert_int_equal(pn_memwatch_start(), 0);
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		assert_true(told_of(&lines, settings[i]));
	assert_true(told_of(&lines, "PN_SOCKET"));
	assert_int_equal(pn_memwatch_read_ext(NULL, &ext), 0);
	assert_int_equal(ext.host_reserve_bytes, HOST_TOTAL_BYTES * 15 / 100);
	pn_memwatch_stop();

	/* A good one is in force, and nobody is told of it. */
	setenv("PN_HOST_RESERVE_BYTES", "20G", 1);
	lines.n = 0;
	assert_int_equal(pn_memwatch_start(), 0);
	assert_false(told_of(&lines, "PN_HOST_RESERVE_BYTES"));
	assert_int_equal(pn_memwatch_read_ext(NULL, &ext), 0);
	assert_int_equal(ext.host_reserve_bytes, 20 * GIB);
	pn_memwatch_stop();
	pn_memwatch_log_to(NULL, NULL);
	lines.n = 0;
	assert_int_equal(pn_memwatch_start(), 0);
	assert_int_equal(lines.n, 0);
}

static void test_garbled_file(void **unused)
{
	pn_mem_state state;
	pn_mem_ext ext;

	assert_int_equal(pn_memwatch_start(), 0);
	tree_replace(&tree, "meminfo", "not what it was\n");
	pn_memwatch_poll_now();
	assert_int_equal(pn_memwatch_read_ext(&state, &ext), 0);
	assert_int_equal(state.host_avail_bytes, 40 * GIB);
	assert_int_equal(ext.source_state[PN_SRC_MEMINFO], PN_SRC_STALE);
	assert_true(ext.reasons & PN_REASON_STALE);
	set_avail_and_look(39 * GIB);
	assert_int_equal(pn_memwatch_read_ext(&state, &ext), 0);
	assert_int_equal(state.host_avail_bytes, 39 * GIB);
	assert_int_equal(ext.source_state[PN_SRC_MEMINFO], PN_SRC_OK);
	assert_false(ext.reasons & PN_REASON_STALE);
}

/* The poll alone takes a level down, not before the lower one has held. */
static void test_level_falls(void **unused)
{
	setenv("PN_LEVEL_HOLD_MS", "300", 1);
	for (int by_pressure = 0; by_pressure < 2; by_pressure++) {
		pn_mem_state seen, got;
		uint64_t begin_ns;

		tree_set_some(&tree, by_pressure ? 25 : 0);
		tree_set_avail(&tree, by_pressure ? 40 * GIB : 11 * GIB);
		assert_int_equal(pn_memwatch_start(), 0);
		seen = read_state();
		assert_int_equal(seen.level, PN_MEM_LEVEL_TIGHT);
		begin_ns = clock_now_ns();
		tree_set_some(&tree, 0);
		tree_set_avail(&tree, 40 * GIB);
		assert_int_equal(
			pn_memwatch_wait(PN_WAIT_LEVEL, &seen, deadline_in_ms(10000), &got), 0);
		assert_int_equal(got.level, PN_MEM_LEVEL_OK);
		assert_true(clock_now_ns() - begin_ns >= 300 * MS_NS);
		pn_memwatch_stop();
	}
}

static void test_no_leak(void **unused)
{
	struct held before = held_now();

	for (int i = 0; i < 50; i++) {
		assert_int_equal(pn_memwatch_start(), 0);
		if (i % 2)
			assert_true(pn_memwatch_fd() >= 0);
		pn_memwatch_poll_now();
		pn_memwatch_stop();
	}
	assert_held_no_more(before);
}

static void *use_everything(void *arg)
{
	pn_mem_state state = { 0 };
	pn_mem_ext ext;
	pn_hook_status hook;
	long bad = 0;
	int r;

	for (int i = 0; i < 300; i++) {
		pn_memwatch_set_die(i % 16, 70 * GIB, 79 * GIB, (uint64_t)i);
		pn_memwatch_poll_now();
		bad += pn_memwatch_read_ext(&state, &ext) != 0;
		bad += state.host_total_bytes != HOST_TOTAL_BYTES;
		bad += pn_memwatch_fd() < 0 || pn_memwatch_hooks(&hook, 1) != 0;
		r = pn_memwatch_wait(PN_WAIT_SNAPSHOT, &state, deadline_in_ms(1), NULL);
		bad += r != 0 && r != -ETIMEDOUT;
	}
	return (void *)bad;
}

static void test_many_threads(void **unused)
{
	pthread_t threads[4];
	void *bad;

	assert_int_equal(pn_memwatch_start(), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use_everything, NULL), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &bad);
		assert_null(bad);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_start_stop, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_running, setup, teardown),
		cmocka_unit_test_setup_teardown(test_start_without_proc, setup, teardown),
		cmocka_unit_test_setup_teardown(test_poll_now, setup, teardown),
		cmocka_unit_test_setup_teardown(test_wait_level, setup, teardown),
		cmocka_unit_test_setup_teardown(test_wait_snapshot, setup, teardown),
		cmocka_unit_test_setup_teardown(test_wait_deadline, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stop_ends_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fd, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fd_misses_no_change, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dies, setup, teardown),
		cmocka_unit_test_setup_teardown(test_die_budget, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fork, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fork_during_start_and_stop, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_settings, setup, teardown),
		cmocka_unit_test_setup_teardown(test_garbled_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_level_falls, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_leak, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_threads, setup, teardown),
	};

	return cmocka_run_group_tests_name("memwatch", tests, NULL, NULL);
}
