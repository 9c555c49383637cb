/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Levels replayed: what merge.c gives for made-up numbers is recorded, and replayed with the
 * settings of the record and with others, whole, thinned as a recorder does and from the middle on.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "replay_fixture.h"

/* Records a run with one setting, and the levels that the same numbers give with another. */
static struct recorded *record(const struct level_config *config, const struct level_config *other,
			       pn_mem_level *ret_other)
{
	struct recorded *ret = test_calloc(LOOKS, sizeof(*ret));
	static struct run run, second;
	struct trace_look look;

	memset(&run, 0, sizeof(run));
	memset(&second, 0, sizeof(second));
	run.now_ns = 1000 * MS_NS;
	random_state = 42;
	for (int i = 0; i < LOOKS; i++) {
		step(&run);
		run.dies = run.next_dies;
		look_at(&run, config, &ret[i].look);
		record_dies(&run, &ret[i]);
		/* Published a little later than looked. */
		ret[i].ts_ns = run.now_ns + random_below(1000) * 1000;
		second.now_ns = run.now_ns;
		second.sample = run.sample;
		second.dies = run.next_dies;
		for (int die = 0; die < 2; die++)
			if (second.dies.die[die].budget_bytes)
				second.dies.die[die].budget_bytes +=
					config->die_reserve_bytes - other->die_reserve_bytes;
		look_at(&second, other, &look);
		ret_other[i] = (pn_mem_level)look.level;
	}
	return ret;
}

/* Every look again: the level, what the numbers want, and why. */
static void test_same_settings(void **state)
{
	static pn_mem_level unused[LOOKS];
	struct recorded *r = record(&level_config_default, &other_config, unused);
	struct replay_policy policy = { level_config_default, level_config_default, 0 };
	static struct replay_view view;
	struct replay_level level;
	unsigned seen = 0;

	memset(&view, 0, sizeof(view));
	for (int i = 0; i < LOOKS; i++) {
		replay_one(&view, &policy, &r[i], &level);
		assert_true(level.replayed);
		assert_int_equal(level.level, r[i].look.level);
		assert_int_equal(level.reasons, r[i].look.reasons);
		seen |= 1u << level.level | (level.reasons & PN_REASON_HELD);
	}
	assert_int_equal(seen, 0xf | PN_REASON_HELD); /* there was something to get wrong */
	test_free(r);
}

/* All settings at once, and each by itself: as if it had been run with them. */
static void test_other_settings(void **state)
{
	static const uint32_t given[] = { REPLAY_HOST_RESERVE,    REPLAY_DIE_RESERVE,
					  REPLAY_PSI_FULL_REJECT, REPLAY_LEVEL_HOLD,
					  REPLAY_CGROUP_LEVEL,    0x1f };
	static pn_mem_level want[LOOKS];

	for (unsigned g = 0; g < 6; g++) {
		struct replay_policy policy = { .recorded = level_config_default,
						.given = given[g] };
		struct recorded *r;
		static struct replay_view view;
		struct replay_level level;
		unsigned differ = 0;

		memset(&view, 0, sizeof(view));
		replay_policy_apply(&policy, &other_config);
		r = record(&level_config_default, &policy.with, want);
		for (int i = 0; i < LOOKS; i++) {
			replay_one(&view, &policy, &r[i], &level);
			assert_int_equal(level.level, want[i]);
			differ += level.level != (pn_mem_level)r[i].look.level;
		}
		assert_true(differ > 20);
		test_free(r);
	}
}

/* A recorder leaves out what changes nothing for 20 ms. */
static void test_thinned(void **state)
{
	static pn_mem_level unused[LOOKS];
	struct recorded *r = record(&level_config_default, &other_config, unused), *last = NULL;
	struct replay_policy policy = { level_config_default, level_config_default, 0 };
	static struct replay_view view;
	struct replay_level level;
	unsigned left_out = 0;

	memset(&view, 0, sizeof(view));
	for (int i = 0; i < LOOKS; i++) {
		if (last && r[i].look.level == last->look.level &&
		    r[i].look.wanted_level == last->look.wanted_level &&
		    r[i].look.reasons == last->look.reasons &&
		    r[i].ts_ns - last->ts_ns < 20 * MS_NS) {
			left_out++;
			continue;
		}
		last = &r[i];
		replay_one(&view, &policy, &r[i], &level);
		assert_int_equal(level.level, r[i].look.level);
	}
	assert_true(left_out > 50);
	test_free(r);
}

/* What was held when the trace began falls when it did. */
static void test_from_the_middle(void **state)
{
	static pn_mem_level unused[LOOKS];
	struct recorded *r = record(&level_config_default, &other_config, unused);
	struct replay_policy policy = { level_config_default, level_config_default, 0 };
	static struct replay_view view;
	struct replay_level level;
	unsigned held = 0;

	for (int first = 1; first < LOOKS - 40; first++) {
		memset(&view, 0, sizeof(view));
		held += r[first].look.level > r[first].look.wanted_level;
		for (int i = first; i < first + 40; i++) {
			replay_one(&view, &policy, &r[i], &level);
			assert_int_equal(level.level, r[i].look.level);
		}
	}
	assert_true(held > 100);
	test_free(r);
}

/* A die whose record was overwritten: as recorded until it is known. */
static void test_unknown_die(void **state)
{
	struct replay_policy policy = { level_config_default, level_config_default, 0 };
	struct replay_view view = { 0 };
	struct trace_die die = { .free_bytes = GIB, .budget_bytes = 23 * GIB, .state = PN_SRC_OK };
	struct trace_look look = { .level = PN_MEM_LEVEL_TIGHT,
				   .wanted_level = PN_MEM_LEVEL_TIGHT,
				   .reasons = PN_REASON_DIE0,
				   .n_dies = 1 };
	struct replay_level level;
	pn_admit_result result;
	struct trace_verdict verdict = { .ask = TRACE_ASK_SPIKE };

	replay_look(&view, &policy, 1000, &look, &level);
	assert_false(level.replayed);
	assert_int_equal(level.level, PN_MEM_LEVEL_TIGHT);
	assert_int_equal(replay_verdict(&view, &policy, &verdict, &result), -ENODATA);
	replay_die(&view, &policy, &die);
	replay_look(&view, &policy, 2000, &look, &level);
	assert_true(level.replayed);
	assert_int_equal(level.level, PN_MEM_LEVEL_TIGHT);
	die.index = DIE_TABLE_MAX; /* nor beyond the table */
	replay_die(&view, &policy, &die);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_settings), cmocka_unit_test(test_other_settings),
		cmocka_unit_test(test_thinned),       cmocka_unit_test(test_from_the_middle),
		cmocka_unit_test(test_unknown_die),
	};

	return cmocka_run_group_tests_name("replay", tests, NULL, NULL);
}
