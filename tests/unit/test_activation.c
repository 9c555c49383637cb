/* SPDX-License-Identifier: BSD-2-Clause */
/* The cost model: the activation table, its parsing, and the total host cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/activation.h"
#include "admission_fixture.h"

/* Worked by hand from the formula in activation.c: 64 N^2 + 1009664 N. */
static void activation_default_anchors(void **unused)
{
	static const pn_admit_anchor rows[] = {
		{ 1024, 1101004800 },  { 2048, 2336227328 },   { 4096, 5209325568 },
		{ 8192, 12566134784 }, { 16384, 33722204160 }, { 32768, 101804146688 },
	};

	assert_int_equal(ARRAY_LENGTH(rows), PN_ADMIT_LUT_ANCHORS);
	for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
		assert_int_equal(activation_peak_bytes(&activation_lut_default, rows[i].n_tokens),
				 rows[i].peak_bytes);
}

/*
 * Straight between anchors, from the origin below them, quadratic beyond; one with an anchor at 0.
 */
static void activation_lines(void **unused)
{
	static const pn_admit_lut plain = {
		{ { 10, 100 }, { 20, 300 }, { 30, 300 }, { 40, 301 }, { 50, 311 }, { 100, 400 } }
	};
	static const pn_admit_lut fixed_part = {
		{ { 0, 70 }, { 10, 80 }, { 20, 90 }, { 30, 100 }, { 40, 110 }, { 50, 120 } }
	};
	static const struct {
		const pn_admit_lut *lut;
		int n;
		uint64_t bytes;
	} rows[] = {
		{ &plain, INT_MIN, 0 }, { &plain, -1, 0 },        { &plain, 0, 0 },
		{ &plain, 1, 10 },      { &plain, 10, 100 },      { &plain, 11, 120 },
		{ &plain, 15, 200 },    { &plain, 25, 300 },      { &plain, 39, 300 },
		{ &plain, 41, 302 },    { &plain, 75, 355 }, /* 311 + 89 / 2, rounded down */
		{ &plain, 100, 400 },   { &plain, 200, 1600 },    { &plain, 1000, 40000 },
		{ &fixed_part, 0, 0 }, /* no work needs nothing */
		{ &fixed_part, 1, 71 }, { &fixed_part, 50, 120 },
	};

	for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
		assert_int_equal(activation_peak_bytes(rows[i].lut, rows[i].n), rows[i].bytes);
}

/* SPEC: the anchors are conservative. Never below the formula; 12.5 % over its quadratic part. */
static void activation_conservative(void **unused)
{
	for (int n = 1; n <= 40000; n++) {
		uint64_t scores = 64ull * n * n, linear = 1009664ull * n;
		uint64_t peak = activation_peak_bytes(&activation_lut_default, n);

		assert_true(peak + 1 >= scores + linear);
		if (n >= 1024 && n <= 32768)
			assert_true(peak <= scores + scores / 8 + linear);
	}
}

static void activation_monotonic_to_int_max(void **unused)
{
	static const pn_admit_lut huge = { { { 1, 1 },
					     { 2, UINT64_MAX / 2 + 3 },
					     { INT_MAX - 9, UINT64_MAX - 5 },
					     { INT_MAX - 8, UINT64_MAX - 4 },
					     { INT_MAX - 7, UINT64_MAX - 3 },
					     { INT_MAX - 6, UINT64_MAX - 1 } } };
	const pn_admit_lut *luts[] = { &activation_lut_default, &huge };

	for (size_t l = 0; l < ARRAY_LENGTH(luts); l++) {
		uint64_t before = 0;

		for (int64_t n = 1; n <= INT_MAX; n += 1 + n / 50) {
			uint64_t peak = activation_peak_bytes(luts[l], (int)n);

			assert_true(peak >= before);
			before = peak;
		}
		assert_true(activation_peak_bytes(luts[l], INT_MAX) >= before);
	}
	assert_true(activation_peak_bytes(&huge, INT_MAX) == UINT64_MAX);
}

static void lut_parsing(void **unused)
{
	static const struct {
		const char *text;
		int error;
	} rows[] = {
		{ "1:2,3:4,5:6,7:8,9:10,11:12", 0 },
		{ "0:64M,1K:128M,2048:256M,4096:1G,8192:4G,16384:16G", 0 },
		{ "1:5,2:5,3:5,4:5,5:5,6:5", 0 },
		{ "", -EINVAL },
		{ "1:2,3:4,5:6,7:8,9:10", -EINVAL },
		{ "1:2,3:4,5:6,7:8,9:10,", -EINVAL },
		{ "1:2,3:4,5:6,7:8,9:10,11:12,", -EINVAL },
		{ "1:2,3:4,5:6,7:8,9:10,11:12,13:14", -EINVAL },
		{ "1:2,3:4,5:6,7:8,9:10,11:12:13", -EINVAL },
		{ "1:2,3:4,5:6,7:8,9:10,11", -EINVAL },
		{ "1:2,1:4,5:6,7:8,9:10,11:12", -EINVAL }, /* tokens do not rise */
		{ "1:2,3:4,5:3,7:8,9:10,11:12", -EINVAL }, /* bytes fall */
		{ "1:2,3:4,5:6,7:8,9:10,2147483648:12", -EINVAL },
		{ "1:2,3:4,5:6,7:8,9:10,11:99999999999999999999", -EINVAL },
		{ "1:2,3:4,5:6,7:8,9:10,11:000000000000000000000000000000000000012", -EINVAL },
		{ "-1:2,3:4,5:6,7:8,9:10,11:12", -EINVAL },
		{ "1 :2,3:4,5:6,7:8,9:10,11:12", -EINVAL },
		{ "a:b,c:d,e:f,g:h,i:j,k:l", -EINVAL },
		{ ":,:,:,:,:,:", -EINVAL },
	};
	pn_admit_lut lut, untouched;

	for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
		memset(&lut, 0x5a, sizeof(lut));
		untouched = lut;
		assert_int_equal(activation_lut_parse(rows[i].text, &lut), rows[i].error);
		if (rows[i].error)
			assert_memory_equal(&lut, &untouched, sizeof(lut));
	}
	assert_int_equal(activation_lut_parse(rows[1].text, &lut), 0);
	assert_int_equal(lut.anchor[1].n_tokens, 1024);
	assert_true(lut.anchor[5].peak_bytes == 16 * GIB);
}

/* SPEC "Total host cost": kv_per_tok * n_prompt + lut_activation_peak(n_prompt). */
static void spec_total_host_cost(void **unused)
{
	struct admission_config config = default_config();
	uint64_t peak = activation_peak_bytes(&config.lut, 3000);

	assert_int_equal(admission_host_cost_bytes(&config, 3000, true), 5898 * 3000 + peak);
	assert_int_equal(admission_host_cost_bytes(&config, 3000, false), 40960 * 3000 + peak);
	assert_int_equal(admission_host_cost_bytes(&config, 0, false), 0);
	assert_int_equal(admission_host_cost_bytes(&config, INT_MIN, false), 0);
	config.kv_q4_bytes_per_token = UINT64_MAX;
	assert_true(admission_host_cost_bytes(&config, 2, true) == UINT64_MAX);
	assert_true(admission_host_cost_bytes(&config, 1, true) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(activation_default_anchors),
		cmocka_unit_test(activation_lines),
		cmocka_unit_test(activation_conservative),
		cmocka_unit_test(activation_monotonic_to_int_max),
		cmocka_unit_test(lut_parsing),
		cmocka_unit_test(spec_total_host_cost),
	};

	return cmocka_run_group_tests_name("activation", tests, NULL, NULL);
}
