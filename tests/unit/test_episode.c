/* SPDX-License-Identifier: BSD-2-Clause */
/* When a CRITICAL level is written, over minutes of made-up time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "core/episode.h"

#define S_NS  1000000000ull
#define START (1000 * S_NS)

static struct episode e;
static struct episode_ring ring;
static uint64_t now_ns;

static int setup(void **state)
{
	e = (struct episode){ 0 };
	ring = (struct episode_ring){ .bytes = 1000, .tail_pos = 9000, .head_pos = 10000 };
	now_ns = START;
	return 0;
}

static void put(uint64_t bytes)
{
	ring.head_pos += bytes;
	ring.tail_pos += bytes;
}

static void level_at(unsigned s, bool critical)
{
	now_ns = START + s * S_NS;
	episode_level(&e, critical, &ring, now_ns);
}

static void kill_at(unsigned s)
{
	now_ns = START + s * S_NS;
	episode_kill(&e, now_ns);
}

/* The next write is due then, and is made. */
static void expect_write(unsigned s, bool is_new)
{
	now_ns = START + s * S_NS;
	assert_int_equal(episode_due_ns(&e), now_ns);
	assert_int_equal(episode_write(&e, &ring, now_ns), is_new);
}

static void expect_none(void)
{
	assert_int_equal(episode_due_ns(&e), UINT64_MAX);
}

/* The 90 seconds of a load, a kill in the middle of them. */
static void test_middle_and_end(void **state)
{
	expect_none();
	level_at(0, true);
	expect_write(0, true);
	put(100);
	expect_write(5, false);
	expect_none();
	kill_at(40);
	expect_write(40, false);
	expect_none();
	level_at(90, false);
	expect_write(90, false);
	expect_none();
}

static void test_short(void **state)
{
	level_at(0, true);
	expect_write(0, true);
	level_at(1, false);
	expect_write(5, false); /* which has its end */
	expect_none();
	/* Down, up and down again: one story, and no more than a write in 5 s. */
	level_at(6, true);
	level_at(7, false);
	level_at(8, true);
	expect_write(10, false);
	level_at(11, false);
	expect_write(15, false);
	expect_none();
	level_at(59, true);
	expect_write(59, false);
	level_at(61, false);
	level_at(62, true);
	expect_write(62, true); /* a minute later it is another */
}

/* An engine that dies at a CRITICAL level: at once, and further ones at the usual gap. */
static void test_ends(void **state)
{
	level_at(0, true);
	expect_write(0, true);
	level_at(1, false);
	episode_end(&e, now_ns);
	expect_write(1, false);
	expect_none();
	level_at(2, true);
	expect_write(6, false);
	level_at(7, false);
	episode_end(&e, now_ns);
	expect_write(11, false);
	level_at(62, true);
	expect_write(62, true);
	level_at(63, false);
	episode_end(&e, now_ns);
	expect_write(63, false);
	assert_true(episode_is_live(&e, now_ns + 59 * S_NS));
	assert_false(episode_is_live(&e, now_ns + 60 * S_NS));
}

/* One more view is CRITICAL while the first still is: what follows is written too. */
static void test_one_more(void **state)
{
	level_at(0, true);
	expect_write(0, true);
	expect_write(5, false);
	expect_none();
	now_ns = START + 40 * S_NS;
	episode_more(&e, now_ns);
	expect_write(40, false);
	episode_more(&e, now_ns);
	expect_write(45, false);
	expect_none();
}

static void test_many_kills(void **state)
{
	unsigned writes = 0;

	level_at(0, true);
	for (unsigned s = 0; s < 90; s++) {
		kill_at(s);
		if (episode_due_ns(&e) <= now_ns) {
			episode_write(&e, &ring, now_ns);
			writes++;
		}
	}
	assert_in_range(writes, 9, 11);
	assert_true(episode_due_ns(&e) <= now_ns + EPISODE_KILL_GAP_NS); /* the last ones */
	level_at(90, false);
	episode_write(&e, &ring, episode_due_ns(&e));
	kill_at(99); /* of no episode */
	expect_none();
}

static void test_kill_without_an_episode(void **state)
{
	kill_at(3);
	expect_none();
	level_at(5, true);
	expect_write(5, true);
}

/* Another file is being written: it stays due. */
static void test_busy(void **state)
{
	level_at(0, true);
	assert_int_equal(episode_due_ns(&e), START);
	kill_at(2);
	level_at(3, false);
	assert_int_equal(episode_due_ns(&e), START);
	assert_true(episode_write(&e, &ring, now_ns));
	assert_int_equal(episode_due_ns(&e), now_ns + EPISODE_GAP_NS);
}

/* What led to it stays in the first file, and what is in no other in each of the next. */
static void test_wrapped(void **state)
{
	level_at(0, true);
	expect_write(0, true);
	put(700); /* from 9700: a quarter of the ring before the start is there */
	expect_write(5, false);
	put(100);
	kill_at(40);
	expect_write(40, true);
	kill_at(60); /* the new file is the one that goes on */
	expect_write(60, false);
	put(1000); /* over what that one has */
	level_at(90, false);
	expect_write(90, true);
	expect_none();
}

/* However fast the ring turns, the first file is not rotated away by the others. */
static void test_not_all_files(void **state)
{
	unsigned files = 0;

	level_at(0, true);
	for (unsigned s = 0; s < 600; s++) {
		kill_at(s);
		put(1000);
		if (episode_due_ns(&e) <= now_ns)
			files += episode_write(&e, &ring, now_ns);
	}
	assert_int_equal(files, EPISODE_FILES_MAX);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_middle_and_end, setup),
		cmocka_unit_test_setup(test_short, setup),
		cmocka_unit_test_setup(test_ends, setup),
		cmocka_unit_test_setup(test_one_more, setup),
		cmocka_unit_test_setup(test_many_kills, setup),
		cmocka_unit_test_setup(test_kill_without_an_episode, setup),
		cmocka_unit_test_setup(test_busy, setup),
		cmocka_unit_test_setup(test_wrapped, setup),
		cmocka_unit_test_setup(test_not_all_files, setup),
	};

	return cmocka_run_group_tests_name("episode", tests, NULL, NULL);
}
