/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why the level is what it is. That the lines are where the level changes is not taken from a
 * second table: a value is put on either side of each, and the level asked.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/explain.h"
#include "core/merge.h"

#define GIB (1ull << 30)

static const struct explain_source *find(const struct explain_source *sources, int n,
					 uint32_t reason)
{
	for (int i = 0; i < n; i++)
		if (sources[i].reason == reason)
			return &sources[i];
	return NULL;
}

/* A snapshot as merge makes it of these numbers. */
struct numbers {
	uint64_t avail_bytes, headroom_bytes, die_free_bytes;
	double some_pct, full_pct;
};

static void publish(const struct numbers *numbers, pn_mem_state *state, pn_mem_ext *ext)
{
	struct merge_state carry = { 0 };
	struct die_table dies = { 0 };
	pn_host_sample sample = {
		.total_bytes = 16 * GIB,
		.avail_bytes = numbers->avail_bytes,
		.psi_some_avg10 = numbers->some_pct,
		.psi_full_avg10 = numbers->full_pct,
		.cgroup_headroom_bytes = numbers->headroom_bytes,
		.cgroup_limit_bytes = 4 * GIB,
	};
	struct merge_input in = {
		.now_ns = 1000,
		.host = &sample,
		.cgroup = &sample,
		.dies = &dies,
	};

	for (int i = 0; i < PN_SRC_DIES; i++) {
		sample.source_ns[i] = 1000;
		sample.source_state[i] = PN_SRC_OK;
	}
	dies.die[2].free_bytes = numbers->die_free_bytes;
	dies.die[2].budget_bytes = 8 * GIB;
	dies.die[2].sample_ns = 1000;
	in.n_dies = die_table_count(&dies);
	memset(ext, 0, sizeof(*ext));
	merge_look(&carry, &level_config_default, &in, state, ext);
}

static const struct numbers calm = {
	.avail_bytes = 15 * GIB,
	.headroom_bytes = 4 * GIB,
	.die_free_bytes = 8 * GIB,
};

static struct explain_source explain_one(const struct numbers *numbers, uint32_t reason)
{
	struct explain_source sources[EXPLAIN_MAX];
	const struct explain_source *found;
	pn_mem_state state;
	pn_mem_ext ext;
	int n;

	publish(numbers, &state, &ext);
	n = explain(&state, &ext, &level_config_default, sources);
	assert_int_equal(n, 5);
	found = find(sources, n, reason);
	assert_non_null(found);
	assert_int_equal(found->decides,
			 found->level != PN_MEM_LEVEL_OK && found->level == state.level);
	return *found;
}

/* A value that is this far beyond a line of the source has the level that the line promises. */
static void expect_line(const struct explain_source *source, const struct explain_line *line,
			void (*set)(struct numbers *numbers, double value), double step)
{
	struct numbers numbers = calm;

	set(&numbers, line->at + step);
	assert_int_equal(explain_one(&numbers, source->reason).level, line->level);
	set(&numbers, line->at - step);
	assert_int_not_equal(explain_one(&numbers, source->reason).level, line->level);
	assert_true(fabs(fabs(source->value - line->at) - line->distance) < 1e-6);
}

static void set_avail(struct numbers *numbers, double value)
{
	numbers->avail_bytes = value > 0 ? (uint64_t)value : 0;
}

static void set_headroom(struct numbers *numbers, double value)
{
	numbers->headroom_bytes = value > 0 ? (uint64_t)value : 0;
}

static void set_die(struct numbers *numbers, double value)
{
	numbers->die_free_bytes = value > 0 ? (uint64_t)value : 0;
}

static void set_some(struct numbers *numbers, double value)
{
	numbers->some_pct = fmax(value, 0);
}

static void set_full(struct numbers *numbers, double value)
{
	numbers->full_pct = fmax(value, 0);
}

static void test_lines(void **state)
{
	static const struct {
		uint32_t reason;
		void (*set)(struct numbers *numbers, double value);
		double values[5];
		pn_mem_level levels[5]; /* of each */
		double ease;            /* the way in which it gets better, by so little */
	} cases[] = {
		{ PN_REASON_HOST_BYTES,
		  set_avail,
		  { 15.0 * GIB, 4.0 * GIB, 2.9 * GIB, 2.0 * GIB, 0 },
		  { 0, 1, 2, 3, 3 },
		  1024 },
		{ PN_REASON_CGROUP,
		  set_headroom,
		  { 4.0 * GIB, 1.0 * GIB, 0.7 * GIB, 0.3 * GIB, 0 },
		  { 0, 1, 2, 3, 3 },
		  1024 },
		{ PN_REASON_DIE0 << 2,
		  set_die,
		  { 8.0 * GIB, 0.9 * GIB, 0.3 * GIB, 1, 0 },
		  { 0, 1, 2, 2, 3 },
		  1024 },
		{ PN_REASON_PSI_SOME,
		  set_some,
		  { 0, 0.01, 9.99, 10, 90 },
		  { 0, 1, 1, 2, 2 },
		  -0.01 },
		{ PN_REASON_PSI_FULL,
		  set_full,
		  { 0, 0.01, 14.99, 15, 90 },
		  { 0, 2, 2, 3, 3 },
		  -0.01 },
	};

	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		for (int i = 0; i < 5; i++) {
			struct numbers numbers = calm;
			struct explain_source source;

			cases[c].set(&numbers, cases[c].values[i]);
			source = explain_one(&numbers, cases[c].reason);
			assert_int_equal(source.level, cases[c].levels[i]);
			assert_int_equal(source.better.exists, source.level != PN_MEM_LEVEL_OK);
			if (source.worse.exists)
				assert_true(source.worse.level > source.level);
			if (source.better.exists) {
				assert_true(source.better.level < source.level);
				/* At a percentage of 0 there is no value below. */
				if (source.better.at > 0 || !source.percent)
					expect_line(&source, &source.better, cases[c].set,
						    cases[c].ease);
			}
			if (source.worse.exists && (source.worse.at > 0 || source.percent))
				expect_line(&source, &source.worse, cases[c].set, -cases[c].ease);
		}
	}
}

/* From 10 % to below 1.5 times that, and to nothing: the decay of a 10 s average. */
static void test_decay(void **state)
{
	struct numbers numbers = calm;
	struct explain_source source;

	numbers.full_pct = 30;
	source = explain_one(&numbers, PN_REASON_PSI_FULL);
	assert_int_equal(source.level, PN_MEM_LEVEL_CRITICAL);
	assert_true(fabs(source.better.seconds - 10 * log(2)) < 1e-9);
	numbers.full_pct = 1;
	source = explain_one(&numbers, PN_REASON_PSI_FULL);
	assert_int_equal(source.better.level, PN_MEM_LEVEL_OK);
	assert_true(source.better.seconds > 45 && source.better.seconds < 60);
}

/* A missing source is not explained, and neither is a cgroup that does not count. */
static void test_absent(void **state)
{
	struct explain_source sources[EXPLAIN_MAX];
	struct level_config config = level_config_default;
	pn_mem_state s;
	pn_mem_ext e;

	publish(&calm, &s, &e);
	config.cgroup_level = false;
	assert_int_equal(explain(&s, &e, &config, sources), 4);
	assert_null(find(sources, 4, PN_REASON_CGROUP));
	e.source_state[PN_SRC_PSI] = PN_SRC_UNSUPPORTED;
	e.n_more_dies = 1;
	e.more_die[0].budget_bytes = GIB;
	assert_int_equal(explain(&s, &e, &config, sources), 3);
	assert_int_equal(sources[2].reason, PN_REASON_MORE_DIES);
	assert_int_equal(sources[2].die, PN_MEM_MAX_DIES);
	assert_int_equal(sources[2].level, PN_MEM_LEVEL_CRITICAL); /* 0 bytes free */
	memset(&e, 0, sizeof(e));
	memset(&s, 0, sizeof(s));
	s.n_dies = 1000;
	assert_int_equal(explain(&s, &e, &config, sources), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_decay),
		cmocka_unit_test(test_absent),
	};

	return cmocka_run_group_tests_name("explain", tests, NULL, NULL);
}
