/* SPDX-License-Identifier: BSD-2-Clause */
/* When to look next, and the pace of reads of the pressure file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "core/schedule.h"

#define S   1000000000ull
#define MS  1000000ull
#define GIB (1ull << 30)

/* Long after boot, all quiet. */
static const struct psi_pace quiet = { .read_ns = 99 * S };

static uint64_t next_ms(pn_mem_level level, uint64_t slack_bytes, uint64_t hold_ns,
			const struct psi_pace *pace)
{
	struct schedule_input in = {
		.now_ns = 100 * S,
		.level = level,
		.slack_bytes = slack_bytes,
		.hold_deadline_ns = hold_ns,
		.pace = pace,
	};

	return (schedule_next_look_ns(&in) - 100 * S) / MS;
}

static void test_next_look(void **state)
{
	const uint64_t none = UINT64_MAX;
	struct psi_pace pace = quiet;

	/* Idle and far from every line: the heartbeat alone. */
	assert_int_equal(next_ms(PN_MEM_LEVEL_OK, 100 * GIB, none, &quiet), 2000);
	assert_int_equal(next_ms(PN_MEM_LEVEL_OK, none, none, &quiet), 2000);
	/* Near a line: as soon as the fastest fill could cross it, but never in a busy loop. */
	assert_int_equal(next_ms(PN_MEM_LEVEL_OK, GIB, none, &quiet), 125);
	assert_int_equal(next_ms(PN_MEM_LEVEL_OK, 0, none, &quiet), 10);
	/* Raised: as often as the SPEC's poll, until it falls. */
	assert_int_equal(next_ms(PN_MEM_LEVEL_WATCH, none, none, &quiet), 250);
	/* The hold ends on time; one that is over does not spin. */
	assert_int_equal(next_ms(PN_MEM_LEVEL_TIGHT, none, 100 * S + 30 * MS, &quiet), 30);
	assert_int_equal(next_ms(PN_MEM_LEVEL_TIGHT, none, 99 * S, &quiet), 1);
	/* A stall just now: the next read of the pressure file is due. */
	psi_pace_stall(&pace, 100 * S - MS);
	pace.read_ns = 100 * S;
	assert_int_equal(next_ms(PN_MEM_LEVEL_OK, none, none, &pace), 2);
	pace.onset_ns = 99 * S; /* it goes on */
	assert_int_equal(next_ms(PN_MEM_LEVEL_OK, none, none, &pace), 100);
	pace.stall_ns = 99 * S; /* long over */
	assert_int_equal(next_ms(PN_MEM_LEVEL_OK, none, none, &pace), 2000);
}

static void test_pace(void **state)
{
	struct psi_pace pace = quiet;
	uint64_t now = 99 * S + 50 * MS, first = now, reads = 0, last_read = 0;

	/* 50 ms after a heartbeat's read it may not be read again... */
	assert_false(psi_pace_allows(&pace, now));
	/* ...but on the first stall after quiet at once. */
	psi_pace_stall(&pace, now);
	assert_true(psi_pace_allows(&pace, now));
	/* While it is young: often, to see its duration; then every 100 ms at most. */
	for (; now < first + 10 * S; now += MS / 2) {
		psi_pace_stall(&pace, now);
		if (!psi_pace_allows(&pace, now))
			continue;
		if (reads && now < first + 50 * MS)
			assert_int_equal(now - last_read, 2 * MS);
		if (now >= first + S)
			assert_true(now - last_read >= 100 * MS);
		pace.read_ns = now;
		last_read = now;
		reads++;
	}
	assert_in_range(reads, 120, 140);
	/* A pause shorter than a second is no new onset. */
	now += 500 * MS;
	pace.read_ns = now;
	psi_pace_stall(&pace, now + MS);
	assert_false(psi_pace_allows(&pace, now + MS));
	/* The same news again changes nothing. */
	psi_pace_stall(&pace, now + MS);
	psi_pace_stall(&pace, 0);
	assert_int_equal(pace.stall_ns, now + MS);
}

static void test_fill(void **state)
{
	assert_int_equal(schedule_fill_ns(8 * GIB, 8 * GIB), S);
	assert_int_equal(schedule_fill_ns(UINT64_MAX, 8 * GIB), UINT64_MAX);
	assert_int_equal(schedule_fill_ns(0, 8 * GIB), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_next_look),
		cmocka_unit_test(test_pace),
		cmocka_unit_test(test_fill),
	};

	return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
