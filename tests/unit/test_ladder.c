/* SPDX-License-Identifier: BSD-2-Clause */
/* The ladder: the SPEC's rung table, and its properties over many configurations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pn_ladder.h"

#define RANDOM_ROUNDS 200000

static uint64_t random_state = 88172645463325252ull;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* SPEC "Rung thresholds": a server of 8 slots and a window of 16384, f32, no eviction. */
static void spec_rung_table(void **unused)
{
	static const pn_ladder_config config = { .max_slots = 8, .prefill_window = 16384 };
	static const struct {
		pn_mem_level level;
		int slots, window;
		bool q4, evict, degraded;
	} rows[] = {
		{ PN_MEM_LEVEL_OK, 8, 16384, false, false, false },
		{ PN_MEM_LEVEL_WATCH, 8, 16384, true, false, true },
		{ PN_MEM_LEVEL_TIGHT, 4, 8192, true, true, true },
		{ PN_MEM_LEVEL_CRITICAL, 1, 4096, true, true, true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		pn_ladder_plan plan = pn_ladder_plan_for(rows[i].level, &config);

		assert_int_equal(plan.level, rows[i].level);
		assert_int_equal(plan.max_slots, rows[i].slots);
		assert_int_equal(plan.prefill_window, rows[i].window);
		assert_int_equal(plan.force_kv_q4, rows[i].q4);
		assert_int_equal(plan.kv_evict, rows[i].evict);
		assert_int_equal(plan.degraded, rows[i].degraded);
		assert_true(strlen(plan.note) > 0);
	}
}

/* The thresholds and divisors are named in the header, so that callers can say them. */
static void spec_constants(void **unused)
{
	assert_int_equal(PN_LADDER_KV_Q4_LEVEL, PN_MEM_LEVEL_WATCH);
	assert_int_equal(PN_LADDER_SLOTS_LEVEL, PN_MEM_LEVEL_TIGHT);
	assert_int_equal(PN_LADDER_PREFILL_LEVEL, PN_MEM_LEVEL_TIGHT);
	assert_int_equal(PN_LADDER_KV_EVICT_LEVEL, PN_MEM_LEVEL_TIGHT);
	assert_int_equal(PN_LADDER_SLOTS_DIV_TIGHT, 2);
	assert_int_equal(PN_LADDER_SLOTS_CRITICAL, 1);
	assert_int_equal(PN_LADDER_PREFILL_DIV_TIGHT, 2);
	assert_int_equal(PN_LADDER_PREFILL_DIV_CRITICAL, 4);
}

/* What would break if 0 ("no clamp") came out of a division, or a value below 1 were "fixed". */
static void small_and_odd_values(void **unused)
{
	static const struct {
		int configured, slots_tight, slots_critical, window_tight, window_critical;
	} rows[] = {
		{ INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN },
		{ -1, -1, -1, -1, -1 },
		{ 0, 0, 0, 0, 0 },
		{ 1, 1, 1, 1, 1 },
		{ 2, 1, 1, 1, 1 },
		{ 3, 1, 1, 1, 1 },
		{ 5, 2, 1, 2, 1 },
		{ 7, 3, 1, 3, 1 },
		{ 9, 4, 1, 4, 2 },
		{ INT_MAX, INT_MAX / 2, 1, INT_MAX / 2, INT_MAX / 4 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		pn_ladder_config config = { .max_slots = rows[i].configured,
					    .prefill_window = rows[i].configured };
		pn_ladder_plan tight = pn_ladder_plan_for(PN_MEM_LEVEL_TIGHT, &config);
		pn_ladder_plan critical = pn_ladder_plan_for(PN_MEM_LEVEL_CRITICAL, &config);

		assert_int_equal(tight.max_slots, rows[i].slots_tight);
		assert_int_equal(critical.max_slots, rows[i].slots_critical);
		assert_int_equal(tight.prefill_window, rows[i].window_tight);
		assert_int_equal(critical.prefill_window, rows[i].window_critical);
	}
}

/* degraded says "a configured value was reduced": not that a rung engaged on nothing. */
static void degraded_only_if_reduced(void **unused)
{
	static const pn_ladder_config all_low = {
		.max_slots = 1, .prefill_window = 0, .kv_q4 = true, .kv_evict = true
	};
	static const pn_ladder_config q4 = { .max_slots = 4, .prefill_window = 64, .kv_q4 = true };

	for (int level = PN_MEM_LEVEL_OK; level <= PN_MEM_LEVEL_CRITICAL; level++)
		assert_false(pn_ladder_plan_for((pn_mem_level)level, &all_low).degraded);
	assert_false(pn_ladder_plan_for(PN_MEM_LEVEL_WATCH, &q4).degraded);
	assert_true(pn_ladder_plan_for(PN_MEM_LEVEL_TIGHT, &q4).degraded);
}

static void level_out_of_range_is_the_nearest(void **unused)
{
	static const pn_ladder_config config = { .max_slots = 8, .prefill_window = 4096 };

	assert_int_equal(pn_ladder_plan_for((pn_mem_level)-5, &config).level, PN_MEM_LEVEL_OK);
	assert_int_equal(pn_ladder_plan_for((pn_mem_level)-5, &config).max_slots, 8);
	assert_int_equal(pn_ladder_plan_for((pn_mem_level)77, &config).level,
			 PN_MEM_LEVEL_CRITICAL);
	assert_int_equal(pn_ladder_plan_for((pn_mem_level)77, &config).max_slots, 1);
}

/* A window or slot count where values below 1 mean "no limit" for windows, by either reading. */
static bool no_more_than(int lower, int higher)
{
	return lower <= higher && (higher < 1) == (lower < 1);
}

static void check_properties(const pn_ladder_config *config)
{
	pn_ladder_plan expected, before;

	memset(&expected, 0, sizeof(expected));
	expected.max_slots = config->max_slots;
	expected.prefill_window = config->prefill_window;
	expected.force_kv_q4 = config->kv_q4;
	expected.kv_evict = config->kv_evict;
	before = pn_ladder_plan_for(PN_MEM_LEVEL_OK, config);
	expected.note = before.note;
	/* SPEC: at OK byte-identical to the operator's configuration. */
	assert_memory_equal(&before, &expected, sizeof(before));

	/* SPEC: reduce-only and monotonic. */
	for (int level = PN_MEM_LEVEL_WATCH; level <= PN_MEM_LEVEL_CRITICAL; level++) {
		pn_ladder_plan plan = pn_ladder_plan_for((pn_mem_level)level, config);

		assert_true(no_more_than(plan.max_slots, before.max_slots));
		assert_true(no_more_than(plan.prefill_window, before.prefill_window));
		assert_true(plan.force_kv_q4 >= before.force_kv_q4);
		assert_true(plan.kv_evict >= before.kv_evict);
		assert_true(plan.degraded >= before.degraded);
		before = plan;
	}
}

static void properties_small_exhaustive(void **unused)
{
	for (int slots = -2; slots <= 40; slots++)
		for (int window = -2; window <= 70; window++)
			for (int bits = 0; bits < 4; bits++) {
				pn_ladder_config config = { slots, window, bits & 1, bits >> 1 };

				check_properties(&config);
			}
}

static void properties_large_random(void **unused)
{
	for (int i = 0; i < RANDOM_ROUNDS; i++) {
		uint64_t bits = random_next();
		pn_ladder_config config = { (int)(uint32_t)bits, (int)(uint32_t)(bits >> 32),
					    random_next() & 1, random_next() & 1 };

		check_properties(&config);
	}
}

static void from_state_uses_its_level(void **unused)
{
	static const pn_ladder_config config = { .max_slots = 6, .prefill_window = 1000 };
	pn_mem_state state = { .level = PN_MEM_LEVEL_TIGHT };
	pn_ladder_plan plan = pn_ladder_plan_from_state(&state, &config);
	pn_ladder_plan expected = pn_ladder_plan_for(PN_MEM_LEVEL_TIGHT, &config);

	assert_memory_equal(&plan, &expected, sizeof(plan));
}

/* SPEC: PN_LADDER_DISABLE. Read once per process, so each value gets one of its own. */
static void disabled_by_environment(void **unused)
{
	static const struct {
		const char *value;
		bool disabled;
	} rows[] = {
		{ NULL, false }, { "", false }, { "0", false }, { "1", true }, { "yes", true }
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int status;
		pid_t child = fork();

		assert_true(child >= 0);
		if (child == 0) {
			bool first;

			unsetenv("PN_LADDER_DISABLE");
			if (rows[i].value)
				setenv("PN_LADDER_DISABLE", rows[i].value, 1);
			first = pn_ladder_disabled();
			setenv("PN_LADDER_DISABLE", first ? "0" : "1", 1);
			_exit(first * 2 + pn_ladder_disabled());
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), rows[i].disabled ? 3 : 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spec_rung_table),
		cmocka_unit_test(spec_constants),
		cmocka_unit_test(small_and_odd_values),
		cmocka_unit_test(degraded_only_if_reduced),
		cmocka_unit_test(level_out_of_range_is_the_nearest),
		cmocka_unit_test(properties_small_exhaustive),
		cmocka_unit_test(properties_large_random),
		cmocka_unit_test(from_state_uses_its_level),
		cmocka_unit_test(disabled_by_environment),
	};

	return cmocka_run_group_tests_name("ladder", tests, NULL, NULL);
}
