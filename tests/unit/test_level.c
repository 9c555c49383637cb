/* SPDX-License-Identifier: BSD-2-Clause */
/* Every row of the SPEC's level tables at, just under and just over its boundary; and the hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "core/level.h"
#include "pn_memwatch.h"

#define GIB      (1ull << 30)
#define OK       PN_MEM_LEVEL_OK
#define WATCH    PN_MEM_LEVEL_WATCH
#define TIGHT    PN_MEM_LEVEL_TIGHT
#define CRITICAL PN_MEM_LEVEL_CRITICAL

static void test_reserve(void **state)
{
	static const struct {
		uint64_t total, override, want;
	} cases[] = {
		{ 8 * GIB, 0, 8 * GIB * 15 / 100 },  /* 15 % above the minimum */
		{ 4 * GIB, 0, GIB },                 /* 15 % is 0.6 GiB: the minimum */
		{ GIB * 100 / 15, 0, GIB },          /* just under 1 GiB by rounding */
		{ GIB * 100 / 15 + 20, 0, GIB + 2 }, /* just over */
		{ 0, 0, GIB },
		{ 8 * GIB, 123, 123 },
		{ UINT64_MAX, 0, UINT64_MAX / 20 * 3 + 2 }, /* no overflow */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(level_reserve_bytes(cases[i].total, cases[i].override),
				 cases[i].want);
	assert_int_equal(level_cgroup_reserve_bytes(20 * GIB), GIB);
	assert_int_equal(level_cgroup_reserve_bytes(100), 15);
}

static void test_host_bytes(void **state)
{
	const uint64_t r = GIB; /* the reserve */
	const struct {
		uint64_t avail;
		pn_mem_level want;
	} cases[] = {
		{ 0, CRITICAL },          { r - 1, CRITICAL },      { r, CRITICAL },
		{ r + 1, TIGHT },         { r + r / 4 - 1, TIGHT }, { r + r / 4, WATCH },
		{ r + r / 4 + 1, WATCH }, { 2 * r - 1, WATCH },     { 2 * r, OK },
		{ 2 * r + 1, OK },        { UINT64_MAX, OK },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(level_from_bytes(cases[i].avail, r), cases[i].want);
	/* Without a reserve only nothing at all is critical. */
	assert_int_equal(level_from_bytes(0, 0), CRITICAL);
	assert_int_equal(level_from_bytes(1, 0), OK);
}

static void test_psi(void **state)
{
	static const struct {
		double some, full;
		pn_mem_level want_some, want_full;
	} cases[] = {
		{ 0, 0, OK, OK },
		{ 0.01, 0.01, WATCH, TIGHT },
		{ 9.99, 14.99, WATCH, TIGHT },
		{ 10, 15, TIGHT, CRITICAL },
		{ 10.01, 15.01, TIGHT, CRITICAL },
		{ 44, 100, TIGHT, CRITICAL }, /* field.md case 10: some alone is never CRITICAL */
		{ 100, 0, TIGHT, OK },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(level_from_psi_some(cases[i].some), cases[i].want_some);
		assert_int_equal(level_from_psi_full(cases[i].full, PN_PSI_FULL_REJECT_DEFAULT),
				 cases[i].want_full);
	}
	assert_int_equal(level_from_psi_full(5, 5), CRITICAL);
	assert_int_equal(level_from_psi_full(4.99, 5), TIGHT);
}

static void test_die(void **state)
{
	const uint64_t b = 16 * GIB; /* the budget */
	const struct {
		uint64_t free, budget;
		pn_mem_level want;
	} cases[] = {
		{ 0, b, CRITICAL },   { 1, b, TIGHT },          { b / 16 - 1, b, TIGHT },
		{ b / 16, b, WATCH }, { b / 16 + 1, b, WATCH }, { b / 8 - 1, b, WATCH },
		{ b / 8, b, OK },     { b / 8 + 1, b, OK },     { b, b, OK },
		{ 0, 0, OK }, /* budget 0: no such die, skipped */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(level_from_die(cases[i].free, cases[i].budget), cases[i].want);
}

static void test_slack(void **state)
{
	const uint64_t r = GIB;

	assert_int_equal(level_slack_to_next_line_bytes(2 * r + 5, r), 5);
	assert_int_equal(level_slack_to_next_line_bytes(2 * r, r), 0);
	assert_int_equal(level_slack_to_next_line_bytes(2 * r - 1, r), r - 1 - r / 4);
	assert_int_equal(level_slack_to_next_line_bytes(r + r / 4 - 1, r), r / 4 - 1);
	assert_int_equal(level_slack_to_next_line_bytes(r, r), UINT64_MAX);
}

static void test_hold(void **state)
{
	static const struct {
		uint64_t at_ms;
		pn_mem_level wanted, in_force;
	} steps[] = {
		{ 0, OK, OK },
		{ 10, CRITICAL, CRITICAL }, /* up at once */
		{ 20, OK, CRITICAL },       /* down: begins to hold */
		{ 200, WATCH, CRITICAL },
		{ 269, OK, CRITICAL },
		{ 270, OK, WATCH }, /* WATCH or less has held 250 ms, OK has not */
		{ 519, OK, WATCH },
		{ 520, OK, OK },
		{ 530, TIGHT, TIGHT },
		{ 540, OK, TIGHT },
		{ 700, TIGHT, TIGHT }, /* back up: the waiting is over */
		{ 800, OK, TIGHT },
		{ 1049, OK, TIGHT },
		{ 1050, OK, OK },
	};
	struct level_hold hold = { 0 };

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		assert_int_equal(level_hold_apply(&hold, steps[i].wanted, steps[i].at_ms * 1000000,
						  250000000),
				 steps[i].in_force);
	assert_int_equal(level_hold_deadline_ns(&hold, 250000000), UINT64_MAX);
	level_hold_apply(&hold, WATCH, 2000000000, 250000000);
	level_hold_apply(&hold, OK, 2000000001, 250000000);
	assert_int_equal(level_hold_deadline_ns(&hold, 250000000), 2250000001);
	/* Without a hold it is the numbers' level. */
	assert_int_equal(level_hold_apply(&hold, CRITICAL, 3, 0), CRITICAL);
	assert_int_equal(level_hold_apply(&hold, OK, 4, 0), OK);
}

static void test_names(void **state)
{
	assert_string_equal(pn_mem_level_name(OK), "OK");
	assert_string_equal(pn_mem_level_name(WATCH), "WATCH");
	assert_string_equal(pn_mem_level_name(TIGHT), "TIGHT");
	assert_string_equal(pn_mem_level_name(CRITICAL), "CRITICAL");
	assert_string_equal(pn_mem_level_name((pn_mem_level)4), "?");
	assert_string_equal(pn_mem_level_name((pn_mem_level)-1), "?");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reserve), cmocka_unit_test(test_host_bytes),
		cmocka_unit_test(test_psi),     cmocka_unit_test(test_die),
		cmocka_unit_test(test_slack),   cmocka_unit_test(test_hold),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests_name("level", tests, NULL, NULL);
}
