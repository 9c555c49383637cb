/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A page on which very many sleep delays nobody: the sleepers of other pages are woken before its
 * last one, each turn of the loop wakes a bounded number, clients are served in between, and those
 * who lie down again for ever use up a budget.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "agent/views/views.h"
#include "host/clock.h"
#include "host/page_wake.h"
#include "support/uring_sleepers.h"

#define MANY    50000
#define SOME    1000
#define TURN_NS 1000000000ull

/* Two views, the greedy one first, and a client that always has a request. */
static struct agent agent;
static struct agent_view greedy, honest;
static struct uring_sleepers greedy_sleepers, honest_sleepers;
static unsigned n_served;
static int client_fd;

static int on_client(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	n_served++;
	return 0;
}

static struct page *make_page(void)
{
	struct page *page =
		mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(page != MAP_FAILED);
	page_init(page);
	return page;
}

static int setup(void **state)
{
	sd_event_source *client = NULL;

	memset(&agent, 0, sizeof(agent));
	memset(&greedy, 0, sizeof(greedy));
	memset(&honest, 0, sizeof(honest));
	n_served = 0;
	greedy.view.page = make_page();
	honest.view.page = make_page();
	greedy.next = &honest;
	agent.views = &greedy;
	client_fd = eventfd(1, EFD_CLOEXEC);
	if (sd_event_new(&agent.event) < 0 || sleepers_open(&agent) < 0 ||
	    sd_event_add_io(agent.event, &client, client_fd, EPOLLIN, on_client, NULL) < 0 ||
	    sd_event_source_set_priority(client, SD_EVENT_PRIORITY_IDLE) < 0 ||
	    sd_event_source_set_floating(client, true) < 0)
		return -1;
	sd_event_source_unref(client);
	return 0;
}

static int teardown(void **state)
{
	sleepers_close(&agent);
	sd_event_unref(agent.event);
	close(client_fd);
	munmap(greedy.view.page, PAGE_BYTES);
	munmap(honest.view.page, PAGE_BYTES);
	return 0;
}

/* Sleepers for the test, which skips where this kernel has none. */
static void open_sleepers(void)
{
	int r = uring_sleepers_open(&greedy_sleepers);

	if (r == -EOPNOTSUPP)
		skip_because("no io_uring that waits for futexes (Linux 6.7)");
	assert_int_equal(r, 0);
	assert_int_equal(uring_sleepers_open(&honest_sleepers), 0);
}

static void close_sleepers(void)
{
	uring_sleepers_close(&greedy_sleepers);
	uring_sleepers_close(&honest_sleepers);
}

static void publish(struct agent_view *av, pn_mem_level before, pn_mem_level now)
{
	av->view.wake_words |= page_bump(av->view.page, before, now);
}

/* One turn of the loop. */
static void turn(void)
{
	assert_true(sd_event_run(agent.event, TURN_NS / 1000) > 0);
}

static void test_others_first(void **state)
{
	unsigned woken, in_turn, n_turns = 0;

	open_sleepers();
	assert_int_equal(
		uring_sleepers_add(&greedy_sleepers, &greedy.view.page->publish_word, MANY), 0);
	assert_int_equal(uring_sleepers_add(&honest_sleepers, &honest.view.page->publish_word, 1),
			 0);
	publish(&greedy, PN_MEM_LEVEL_OK, PN_MEM_LEVEL_OK);
	publish(&honest, PN_MEM_LEVEL_OK, PN_MEM_LEVEL_OK);
	sleepers_wake(&agent);
	woken = uring_sleepers_woken(&greedy_sleepers);
	assert_int_equal(woken, SLEEPERS_BATCH);
	assert_int_equal(uring_sleepers_woken(&honest_sleepers), 1);

	/* A look in the middle wakes the other page's at once, too. */
	assert_int_equal(uring_sleepers_add(&honest_sleepers, &honest.view.page->level_word, 1), 0);
	publish(&greedy, PN_MEM_LEVEL_OK, PN_MEM_LEVEL_TIGHT);
	publish(&honest, PN_MEM_LEVEL_OK, PN_MEM_LEVEL_TIGHT);
	sleepers_wake(&agent);
	assert_int_equal(uring_sleepers_woken(&greedy_sleepers), 0);
	assert_int_equal(uring_sleepers_woken(&honest_sleepers), 1);

	while (woken < MANY) {
		turn();
		in_turn = uring_sleepers_woken(&greedy_sleepers);
		assert_in_range(in_turn, 0, SLEEPERS_BATCH);
		woken += in_turn;
		n_turns += in_turn > 0;
	}
	print_message("# %u sleepers in %u turns, a client served %u times in between\n", woken,
		      n_turns, n_served);
	assert_int_equal(woken, MANY);
	assert_true(n_turns >= MANY / SLEEPERS_BATCH);
	assert_true(n_served + 1 >= n_turns);
	close_sleepers();
}

/* Engines, not an attack: all of them in turns that follow one another. */
static void test_ten_thousand(void **state)
{
	unsigned woken = 0, n_turns = 0;

	open_sleepers();
	assert_int_equal(uring_sleepers_add(&greedy_sleepers, &greedy.view.page->level_word, 10000),
			 0);
	publish(&greedy, PN_MEM_LEVEL_OK, PN_MEM_LEVEL_WATCH);
	sleepers_wake(&agent);
	for (; greedy.sleepers_queue; n_turns++) {
		assert_ptr_equal(greedy.sleepers_queue, &agent.sleepers.soon);
		turn();
	}
	woken = uring_sleepers_woken(&greedy_sleepers);
	assert_int_equal(woken, 10000);
	/* A turn for a batch, and one for the client beside it. */
	assert_in_range(n_turns, 10000 / SLEEPERS_BATCH, 2 * (10000 / SLEEPERS_BATCH + 2));
	close_sleepers();
}

/* Who lies down again each time: so many batches, and no more than time gives back. */
static void test_for_ever(void **state)
{
	uint64_t begin_ns, took_ms;
	unsigned woken, batches = 0;

	open_sleepers();
	assert_int_equal(
		uring_sleepers_add(&greedy_sleepers, &greedy.view.page->publish_word, SOME), 0);
	publish(&greedy, PN_MEM_LEVEL_OK, PN_MEM_LEVEL_OK);
	begin_ns = clock_now_ns();
	sleepers_wake(&agent);
	while (batches < 1000) {
		woken = uring_sleepers_woken(&greedy_sleepers);
		assert_in_range(woken, 0, SLEEPERS_BATCH);
		batches += woken > 0;
		assert_int_equal(uring_sleepers_add(&greedy_sleepers,
						    &greedy.view.page->publish_word, woken),
				 0);
		turn();
	}
	took_ms = (clock_now_ns() - begin_ns) / 1000000;
	print_message("# %u batches in %lu ms\n", batches, (unsigned long)took_ms);
	/* The budget and what it got back, one each millisecond, and the first. */
	assert_in_range(batches, 1, 130 + (took_ms + 1) * 1512 / 1000 + 1);
	sleepers_forget(&greedy);
	assert_true(TAILQ_EMPTY(&agent.sleepers.soon) && TAILQ_EMPTY(&agent.sleepers.greedy));
	close_sleepers();
}

/* The client has gone, and left sleepers on the page that is to be freed. */
static void test_retired(void **state)
{
	open_sleepers();
	assert_int_equal(
		uring_sleepers_add(&greedy_sleepers, &greedy.view.page->publish_word, MANY), 0);
	view_retire(&greedy.view);
	assert_int_equal(uring_sleepers_woken(&greedy_sleepers), VIEW_RETIRE_WAKES);
	close_sleepers();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_others_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ten_thousand, setup, teardown),
		cmocka_unit_test_setup_teardown(test_for_ever, setup, teardown),
		cmocka_unit_test_setup_teardown(test_retired, setup, teardown),
	};

	return cmocka_run_group_tests_name("sleepers", tests, NULL, NULL);
}
