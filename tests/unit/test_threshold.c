/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for a line to be crossed: what is true already does not sleep, a waiter and a descriptor
 * sleep through changes on either side of their line, and on the page nothing but the lines that
 * were crossed is touched.
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
#include <unistd.h>
#include <cmocka.h>

#include "host/page_wake.h"
#include "pn_memwatch.h"
#include "watch_tree.h"

static struct host_tree tree;

static int setup(void **unused)
{
	tree_make_host(&tree);
	setenv("PN_LEVEL_HOLD_MS", "0", 1);
	return pn_memwatch_start();
}

static int teardown(void **unused)
{
	pn_memwatch_stop();
	tree_free(&tree);
	return 0;
}

static void set_level(pn_mem_level level)
{
	static const unsigned avail_gib[] = { 40, 15, 11, 5 };
	pn_mem_state state;

	tree_set_avail(&tree, avail_gib[level] * GIB);
	pn_memwatch_poll_now();
	assert_int_equal(pn_memwatch_read(&state), 0);
	assert_int_equal(state.level, level);
}

/* Each word moves when its line is crossed, in either direction, once a publish. */
static void test_words(void **unused)
{
	static struct page page;

	for (int before = 0; before <= PN_MEM_LEVEL_CRITICAL; before++) {
		for (int now = 0; now <= PN_MEM_LEVEL_CRITICAL; now++) {
			memset(&page, 0, sizeof(page));
			page_bump(&page, (pn_mem_level)before, (pn_mem_level)now);
			assert_int_equal(page.publish_word, 1);
			assert_int_equal(page.level_word, before != now);
			for (int line = 1; line <= PAGE_THRESHOLDS; line++)
				assert_int_equal(page.threshold_word[line - 1],
						 (before >= line) != (now >= line));
		}
	}
}

static void test_already_there(void **unused)
{
	for (int level = 0; level <= PN_MEM_LEVEL_CRITICAL; level++) {
		set_level((pn_mem_level)level);
		for (int at = 0; at <= PN_MEM_LEVEL_CRITICAL; at++) {
			pn_mem_state state = { .seq = 1 };

			assert_int_equal(
				pn_memwatch_wait_at(PN_AT_LEAST, (pn_mem_level)at, 0, &state),
				level >= at ? 0 : -ETIMEDOUT);
			assert_int_equal(state.seq > 1, level >= at);
			assert_int_equal(pn_memwatch_wait_at(PN_AT_MOST, (pn_mem_level)at, 0, NULL),
					 level <= at ? 0 : -ETIMEDOUT);
		}
	}
	assert_int_equal(pn_memwatch_wait_at(PN_AT_MOST, (pn_mem_level)4, 0, NULL), -EINVAL);
	assert_int_equal(pn_memwatch_wait_at(PN_AT_LEAST, (pn_mem_level)-1, 0, NULL), -EINVAL);
	assert_int_equal(pn_memwatch_wait_at((pn_memwatch_at_t)2, 0, 0, NULL), -EINVAL);
	pn_memwatch_stop();
	assert_int_equal(pn_memwatch_wait_at(PN_AT_LEAST, PN_MEM_LEVEL_OK, 0, NULL), -ENODATA);
}

struct waiter {
	pthread_t thread;
	pn_memwatch_at_t at;
	pn_mem_level level;
	pn_mem_state got;
	int result;
	_Atomic int tid;
	_Atomic bool done;
};

static void *wait_at(void *arg)
{
	struct waiter *w = arg;

	w->tid = (int)syscall(SYS_gettid);
	w->result = pn_memwatch_wait_at(w->at, w->level, UINT64_MAX, &w->got);
	w->done = true;
	return NULL;
}

static void waiter_start(struct waiter *w, pn_memwatch_at_t at, pn_mem_level level)
{
	*w = (struct waiter){ .at = at, .level = level };
	assert_int_equal(pthread_create(&w->thread, NULL, wait_at, w), 0);
}

/* How often the thread has gone to sleep; 0: it is awake. */
static long sleeps_of(const struct waiter *w)
{
	char path[64], line[128], state = 0;
	long n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", w->tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, "State: %c", &state);
		sscanf(line, "voluntary_ctxt_switches: %ld", &n);
	}
	if (f)
		fclose(f);
	return state == 'S' ? n : 0;
}

static bool is_asleep(void *arg)
{
	const struct waiter *w = arg;

	return w->tid && sleeps_of(w);
}

static bool is_done(void *arg)
{
	return ((struct waiter *)arg)->done;
}

static void expect_done(struct waiter *w, pn_mem_level level)
{
	if (!comes_true(is_done, w, LIMIT_MS(5000)))
		fail_msg("at %d %d: still asleep at level %d", w->at, w->level, level);
	pthread_join(w->thread, NULL);
	assert_int_equal(w->result, 0);
	assert_int_equal(w->got.level, level);
}

static void test_waiters(void **unused)
{
	static struct waiter critical, not_critical, ok, watch;

	waiter_start(&critical, PN_AT_LEAST, PN_MEM_LEVEL_CRITICAL);
	waiter_start(&watch, PN_AT_LEAST, PN_MEM_LEVEL_WATCH);
	set_level(PN_MEM_LEVEL_WATCH);
	expect_done(&watch, PN_MEM_LEVEL_WATCH);
	waiter_start(&ok, PN_AT_MOST, PN_MEM_LEVEL_OK);
	set_level(PN_MEM_LEVEL_TIGHT);
	assert_false(critical.done || ok.done);
	set_level(PN_MEM_LEVEL_CRITICAL);
	expect_done(&critical, PN_MEM_LEVEL_CRITICAL);
	waiter_start(&not_critical, PN_AT_MOST, PN_MEM_LEVEL_TIGHT);
	set_level(PN_MEM_LEVEL_WATCH);
	expect_done(&not_critical, PN_MEM_LEVEL_WATCH);
	assert_false(ok.done);
	set_level(PN_MEM_LEVEL_OK);
	expect_done(&ok, PN_MEM_LEVEL_OK);

	waiter_start(&critical, PN_AT_LEAST, PN_MEM_LEVEL_CRITICAL);
	assert_true(comes_true(is_asleep, &critical, 5000)); /* or there would be nothing to end */
	pn_memwatch_stop();
	pthread_join(critical.thread, NULL);
	/* -ENODATA: it was not asleep yet, and found nothing to wait for. */
	assert_true(critical.result == -ESHUTDOWN || critical.result == -ENODATA);
}

/* Changes on the other side of its line do not even wake the thread. */
static void test_sleeps_through(void **unused)
{
	static struct waiter critical, any;
	long before;

	waiter_start(&critical, PN_AT_LEAST, PN_MEM_LEVEL_CRITICAL);
	assert_true(comes_true(is_asleep, &critical, 5000));
	/* It is in its wait, past whatever a sanitizer's runtime does to a new thread. */
	waiter_start(&any, PN_AT_LEAST, PN_MEM_LEVEL_WATCH);
	set_level(PN_MEM_LEVEL_WATCH);
	expect_done(&any, PN_MEM_LEVEL_WATCH);
	before = sleeps_of(&critical);
	assert_true(before > 0);
	for (int i = 0; i < 50; i++)
		set_level(i % 3 ? PN_MEM_LEVEL_TIGHT : PN_MEM_LEVEL_OK);
	assert_int_equal(sleeps_of(&critical), before);
	set_level(PN_MEM_LEVEL_CRITICAL);
	expect_done(&critical, PN_MEM_LEVEL_CRITICAL);
}

/* A crossing that comes while the sleeper is on its way to sleep is not missed. */
static void test_no_crossing_is_missed(void **unused)
{
	static struct waiter w;

	for (int i = 0; i < 200; i++) {
		waiter_start(&w, i % 2 ? PN_AT_MOST : PN_AT_LEAST,
			     i % 2 ? PN_MEM_LEVEL_WATCH : PN_MEM_LEVEL_TIGHT);
		set_level(i % 2 ? PN_MEM_LEVEL_OK : PN_MEM_LEVEL_CRITICAL);
		expect_done(&w, i % 2 ? PN_MEM_LEVEL_OK : PN_MEM_LEVEL_CRITICAL);
	}
}

static bool is_readable(int fd, int limit_ms)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	uint64_t count;

	return poll(&ready, 1, limit_ms) == 1 && read(fd, &count, sizeof(count)) == sizeof(count);
}

static void test_descriptors(void **unused)
{
	static const pn_mem_level steps[] = { PN_MEM_LEVEL_WATCH, PN_MEM_LEVEL_TIGHT,
					      PN_MEM_LEVEL_CRITICAL, PN_MEM_LEVEL_WATCH,
					      PN_MEM_LEVEL_OK };
	struct held before = held_now();
	pn_mem_level last = PN_MEM_LEVEL_OK;
	int fds[PN_MEM_LEVEL_CRITICAL + 1];

	assert_int_equal(pn_memwatch_fd_at(PN_MEM_LEVEL_OK), -EINVAL);
	assert_int_equal(pn_memwatch_fd_at((pn_mem_level)4), -EINVAL);
	fds[0] = pn_memwatch_fd();
	for (int at = PN_MEM_LEVEL_WATCH; at <= PN_MEM_LEVEL_CRITICAL; at++) {
		fds[at] = pn_memwatch_fd_at((pn_mem_level)at);
		assert_true(fds[at] >= 0);
		assert_int_equal(pn_memwatch_fd_at((pn_mem_level)at), fds[at]);
	}
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		set_level(steps[i]);
		/* What comes too late to be seen here is found at the next step. */
		for (int at = PN_MEM_LEVEL_CRITICAL; at >= 0; at--) {
			bool crossed = !at || ((int)last >= at) != ((int)steps[i] >= at);

			assert_int_equal(is_readable(fds[at], crossed ? LIMIT_MS(5000) : 0),
					 crossed);
		}
		last = steps[i];
	}
	for (int at = PN_MEM_LEVEL_WATCH; at <= PN_MEM_LEVEL_CRITICAL; at++)
		assert_false(is_readable(fds[at], 0));
	pn_memwatch_stop();
	assert_int_equal(fcntl(fds[2], F_GETFD), -1);
	assert_held_no_more(before);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test_setup_teardown(test_already_there, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waiters, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sleeps_through, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_crossing_is_missed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_descriptors, setup, teardown),
	};

	return cmocka_run_group_tests_name("threshold", tests, NULL, NULL);
}
