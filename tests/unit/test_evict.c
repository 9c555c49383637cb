/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * KV row selection against a slow reference (fixed seeds), and by hand where the rule is a
 * choice: ties, NaN, infinities, masks, edges of pooling, caps smaller than a window.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pn_evict.h"

static uint64_t seed;

static unsigned random_below(unsigned n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned)(seed >> 33) % n;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* ---- the slow reference -------------------------------------------------------------------- */

/* Softmax attention of every query, summed, in double. */
static void reference_column(const pn_evict_scores *s, size_t head, double *column)
{
	for (size_t k = 0; k < s->n_keys; k++)
		column[k] = 0.0;
	for (size_t q = 0; q < s->n_queries; q++) {
		const float *row = s->scores + (head * s->n_queries + q) * s->n_keys;
		double sum = 0.0, largest = -INFINITY;

		for (size_t k = 0; k < s->n_keys; k++) {
			if (s->kind == PN_SCORE_WEIGHTS)
				column[k] += (double)row[k];
			else if (k <= s->n_keys - s->n_queries + q)
				largest = fmax(largest, (double)row[k]);
		}
		if (s->kind == PN_SCORE_WEIGHTS)
			continue;
		for (size_t k = 0; k <= s->n_keys - s->n_queries + q; k++)
			sum += exp((double)row[k] - largest);
		for (size_t k = 0; k <= s->n_keys - s->n_queries + q; k++)
			column[k] += exp((double)row[k] - largest) / sum;
	}
}

/* Pooled prefix scores of the group; the steps that round are taken in float, as the code does. */
static void reference_scores(const pn_evict_scores *s, size_t prefix, size_t kernel,
			     pn_evict_pool pool, float *total)
{
	double *column = calloc(s->n_keys, sizeof(*column));
	long half = (long)kernel / 2;

	assert_non_null(column);
	for (size_t k = 0; k < prefix; k++)
		total[k] = 0.0f;
	for (size_t head = 0; head < s->n_heads; head++) {
		reference_column(s, head, column);
		for (long k = 0; k < (long)prefix; k++) {
			double sum = 0.0, largest = -INFINITY;

			for (long i = k - half; i <= k + half; i++) {
				if (i < 0 || i >= (long)prefix || isnan(column[i]))
					continue;
				sum += column[i];
				largest = fmax(largest, column[i]);
			}
			if (isnan(column[k]))
				total[k] = NAN;
			else if (pool == PN_POOL_MAX)
				total[k] += (float)largest;
			else
				total[k] += (float)sum / (float)kernel;
		}
	}
	free(column);
}

static bool ranks_before(const float *total, size_t a, size_t b)
{
	if (isnan(total[a]) || isnan(total[b]))
		return isnan(total[a]) == isnan(total[b]) ? a < b : isnan(total[b]);
	return total[a] == total[b] ? a < b : total[a] > total[b];
}

/* Key k of the prefix belongs to the selection if fewer than `quota` rank before it. */
static size_t reference_select(const float *total, size_t prefix, size_t quota, size_t n_keys,
			       uint32_t *ret)
{
	size_t n = 0;

	for (size_t k = 0; k < n_keys; k++) {
		size_t before = 0;

		for (size_t i = 0; k < prefix && i < prefix; i++)
			before += i != k && ranks_before(total, i, k);
		if (k >= prefix || before < quota)
			ret[n++] = (uint32_t)k;
	}
	return n;
}

/* ---- against the reference ----------------------------------------------------------------- */

/* Buffers of exactly the stated sizes, so that asan sees a step outside. */
struct selection {
	float *scores;
	float *scratch;
	float *total;
	uint32_t *keys;
	uint32_t *expected;
};

static struct selection selection_new(const pn_evict_scores *s, size_t cap)
{
	struct selection sel = {
		.scores = malloc(s->n_heads * s->n_queries * s->n_keys * sizeof(float)),
		.scratch = malloc(PN_EVICT_SCRATCH_FLOATS(s->n_keys) * sizeof(float)),
		.total = malloc(s->n_keys * sizeof(float)),
		.keys = malloc((least(cap, s->n_keys) + 1) * sizeof(uint32_t)),
		.expected = malloc(s->n_keys * sizeof(uint32_t)),
	};

	assert_true(sel.scores && sel.scratch && sel.total && sel.keys && sel.expected);
	sel.keys[least(cap, s->n_keys)] = 0xfeedface;
	return sel;
}

static void selection_free(struct selection *sel)
{
	free(sel->scores);
	free(sel->scratch);
	free(sel->total);
	free(sel->keys);
	free(sel->expected);
}

/* Small whole numbers make many ties and exact sums; some are no numbers at all. */
static void test_weights_random(void **state)
{
	seed = 0x5eed1;
	for (int run = 0; run < 4000; run++) {
		pn_evict_scores s = {
			.kind = PN_SCORE_WEIGHTS,
			.n_heads = 1 + random_below(4),
			.n_queries = 1 + random_below(3),
			.n_keys = 1 + random_below(60),
		};
		size_t cap = random_below(70), window = random_below(20);
		size_t kernel = 1 + 2 * random_below(5);
		pn_evict_pool pool = random_below(2) ? PN_POOL_MAX : PN_POOL_AVG;
		size_t recent = least(window, cap), prefix = s.n_keys - least(recent, s.n_keys);
		struct selection sel = selection_new(&s, cap);
		size_t n;

		for (size_t i = 0; i < s.n_heads * s.n_queries * s.n_keys; i++) {
			sel.scores[i] = (float)random_below(8) - 2.0f;
			if (run % 2 && !random_below(30))
				sel.scores[i] = random_below(2)   ? NAN
						: random_below(2) ? INFINITY
								  : -INFINITY;
		}
		s.scores = sel.scores;
		if (random_below(3)) {
			assert_int_equal(pn_evict_snapkv(&s, cap, window, kernel, pool, sel.scratch,
							 sel.keys),
					 0);
		} else {
			kernel = 1;
			assert_int_equal(pn_evict_h2o(&s, cap, window, sel.scratch, sel.keys), 0);
		}
		reference_scores(&s, prefix, kernel, pool, sel.total);
		n = reference_select(sel.total, prefix, s.n_keys <= cap ? s.n_keys : cap - recent,
				     s.n_keys, sel.expected);
		assert_int_equal(n, least(cap, s.n_keys));
		assert_memory_equal(sel.keys, sel.expected, n * sizeof(*sel.keys));
		assert_int_equal(sel.keys[n], 0xfeedface);
		selection_free(&sel);
	}
}

/* Logits round differently than the double reference: no key left out may clearly beat one kept. */
static void test_logits_random(void **state)
{
	seed = 0x5eed2;
	for (int run = 0; run < 300; run++) {
		pn_evict_scores s = {
			.kind = PN_SCORE_LOGITS,
			.n_heads = 1 + random_below(4),
			.n_keys = 40 + random_below(200),
		};
		size_t window = 1 + random_below(32), cap = window + random_below(100);
		size_t kernel = 1 + 2 * random_below(4), prefix = s.n_keys - window;
		pn_evict_pool pool = random_below(2) ? PN_POOL_MAX : PN_POOL_AVG;
		struct selection sel;
		float worst_kept = INFINITY;
		size_t at = 0;

		s.n_queries = window;
		sel = selection_new(&s, cap);
		for (size_t i = 0; i < s.n_heads * s.n_queries * s.n_keys; i++)
			sel.scores[i] = ((float)random_below(20001) - 10000.0f) / 1000.0f;
		s.scores = sel.scores;
		assert_int_equal(
			pn_evict_snapkv(&s, cap, window, kernel, pool, sel.scratch, sel.keys), 0);
		if (s.n_keys > cap) {
			reference_scores(&s, prefix, kernel, pool, sel.total);
			for (size_t i = 0; i < cap - window; i++)
				worst_kept = fminf(worst_kept, sel.total[sel.keys[i]]);
			for (size_t k = 0; k < prefix; k++) {
				if (at < cap - window && sel.keys[at] == k)
					at++;
				else
					assert_true(sel.total[k] <= worst_kept * 1.00001f + 1e-9f);
			}
			assert_int_equal(at, cap - window);
			for (size_t i = 0; i < window; i++)
				assert_int_equal(sel.keys[at + i], prefix + i);
		}
		selection_free(&sel);
	}
}

/* A key that a query cannot see (causal corner) cannot change the result, not even with NaN. */
static void test_logits_causal(void **state)
{
	enum { N = 12, W = 4 };
	static const float poison[] = { 1e30f, INFINITY, NAN, -INFINITY };
	float logits[W][N], scratch[PN_EVICT_SCRATCH_FLOATS(N)], sums[N], plain_sums[N] = { 0 };
	pn_evict_scores s = { &logits[0][0], PN_SCORE_LOGITS, 1, W, N };
	uint32_t keys[7], plain_keys[7];

	seed = 0x5eed3;
	for (size_t q = 0; q < W; q++) {
		for (size_t k = 0; k < N; k++)
			logits[q][k] = (float)random_below(100) / 25.0f;
	}
	assert_int_equal(pn_evict_snapkv(&s, 7, W, 5, PN_POOL_AVG, scratch, plain_keys), 0);
	assert_int_equal(pn_evict_accumulate(&s, plain_sums), 0);
	for (size_t p = 0; p < sizeof(poison) / sizeof(poison[0]); p++) {
		for (size_t q = 0; q < W; q++) {
			for (size_t k = N - W + q + 1; k < N; k++)
				logits[q][k] = poison[p];
		}
		memset(sums, 0, sizeof(sums));
		assert_int_equal(pn_evict_snapkv(&s, 7, W, 5, PN_POOL_AVG, scratch, keys), 0);
		assert_int_equal(pn_evict_accumulate(&s, sums), 0);
		assert_memory_equal(keys, plain_keys, sizeof(keys));
		assert_memory_equal(sums, plain_sums, sizeof(sums));
	}
	/* The corner itself counts: the last query alone sees the last key. */
	assert_true(sums[N - 1] > 0.0f && sums[N - 1] < 1.0f);
}

static void test_softmax_values(void **state)
{
	static const struct {
		float logits[4];
		float weights[4];
	} cases[] = {
		{ { 0, 0, 0, 0 }, { 0.25f, 0.25f, 0.25f, 0.25f } },
		{ { 1000, 1000, -1000, 0 }, { 0.5f, 0.5f, 0, 0 } },
		{ { 0, NAN, 0, -INFINITY }, { 0.5f, 0, 0.5f, 0 } },
		{ { INFINITY, 3, INFINITY, NAN }, { 0.5f, 0, 0.5f, 0 } },
		{ { -INFINITY, -INFINITY, NAN, -INFINITY }, { 0, 0, 0, 0 } },
		{ { -3e38f, 3e38f, 0, 0 }, { 0, 1, 0, 0 } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pn_evict_scores s = { cases[i].logits, PN_SCORE_LOGITS, 1, 1, 4 };
		float sums[4] = { 0 };

		assert_int_equal(pn_evict_accumulate(&s, sums), 0);
		for (int k = 0; k < 4; k++)
			assert_true(sums[k] == cases[i].weights[k]);
	}
}

/* ---- by hand ------------------------------------------------------------------------------- */

static void test_ranking(void **state)
{
	static const struct {
		float scores[6];
		uint32_t keys[3];
	} cases[] = {
		{ { 1, 2, 3, 4, 5, 6 }, { 3, 4, 5 } },
		{ { 6, 5, 4, 3, 2, 1 }, { 0, 1, 2 } },
		{ { 1, 1, 1, 1, 1, 1 }, { 0, 1, 2 } },
		{ { 1, 2, 1, 2, 1, 1 }, { 0, 1, 3 } },
		{ { 0.0f, -0.0f, 0.0f, -0.0f, 0.0f, 0.0f }, { 0, 1, 2 } },
		{ { -0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f }, { 0, 1, 2 } },
		{ { -3, -1, -2, -4, -5, -6 }, { 0, 1, 2 } },
		{ { NAN, 1, NAN, 2, -INFINITY, NAN }, { 1, 3, 4 } },
		{ { NAN, -NAN, NAN, NAN, NAN, 1 }, { 0, 1, 5 } },
		{ { 3e38f, INFINITY, NAN, 5, INFINITY, 4 }, { 0, 1, 4 } },
		{ { 1e-45f, 0, -1e-45f, 1e-38f, 2e-38f, -1 }, { 0, 3, 4 } },
	};
	float scratch[PN_EVICT_SCRATCH_FLOATS(6)];
	uint32_t keys[3];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pn_evict_scores s = { cases[i].scores, PN_SCORE_WEIGHTS, 1, 1, 6 };

		assert_int_equal(pn_evict_h2o(&s, 3, 0, scratch, keys), 0);
		assert_memory_equal(keys, cases[i].keys, sizeof(keys));
	}
}

static void test_pooling(void **state)
{
	static const struct {
		float scores[9];
		size_t kernel;
		pn_evict_pool pool;
		uint32_t keys[4]; /* two of the prefix of 7 and the window of 2 */
	} cases[] = {
		/* A high neighbourhood beats a lone peak. */
		{ { 0, 5, 0, 0, 4, 4, 4, 9, 9 }, 1, PN_POOL_AVG, { 1, 4, 7, 8 } },
		{ { 0, 5, 0, 0, 4, 4, 4, 9, 9 }, 3, PN_POOL_AVG, { 4, 5, 7, 8 } },
		/* The window's own scores do not leak into the prefix: 6 has 8/3 as 4 has. */
		{ { 0, 0, 0, 3, 1, 4, 4, 9, 9 }, 3, PN_POOL_AVG, { 4, 5, 7, 8 } },
		{ { 0, 7, 0, 0, 0, 0, 0, 0, 0 }, 3, PN_POOL_MAX, { 0, 1, 7, 8 } },
		{ { 0, 0, 0, 0, 0, 7, 0, 0, 0 }, 5, PN_POOL_MAX, { 3, 4, 7, 8 } },
		/* Beyond an end there are zeros in an average: the edge loses to the middle. */
		{ { 3, 3, 1, 2, 2.5f, 2.5f, 0, 0, 0 }, 3, PN_POOL_AVG, { 1, 4, 7, 8 } },
		/* A NaN is lost alone; its neighbours read it as 0. */
		{ { 0, 0, NAN, 6, 0, 0, 1, 0, 0 }, 3, PN_POOL_AVG, { 3, 4, 7, 8 } },
		{ { -2, NAN, -1, -3, -3, -3, -3, 0, 0 }, 3, PN_POOL_MAX, { 2, 3, 7, 8 } },
		/* A kernel wider than everything. */
		{ { 1, 2, 3, 4, 5, 6, 7, 0, 0 }, 101, PN_POOL_AVG, { 0, 1, 7, 8 } },
	};
	float scratch[PN_EVICT_SCRATCH_FLOATS(9)];
	uint32_t keys[4];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pn_evict_scores s = { cases[i].scores, PN_SCORE_WEIGHTS, 1, 1, 9 };

		assert_int_equal(
			pn_evict_snapkv(&s, 4, 2, cases[i].kernel, cases[i].pool, scratch, keys),
			0);
		if (memcmp(keys, cases[i].keys, sizeof(keys)))
			fail_msg("case %zu: %u %u %u %u", i, keys[0], keys[1], keys[2], keys[3]);
	}
}

/* The group decides together: a key that no head puts first can have the highest sum. */
static void test_group(void **state)
{
	static const float scores[3][1][6] = {
		{ { 9, 0, 6, 0, 0, 0 } },
		{ { 0, 9, 6, 0, 0, 0 } },
		{ { 0, 0, 6, 0, 9, NAN } },
	};
	pn_evict_scores s = { &scores[0][0][0], PN_SCORE_WEIGHTS, 3, 1, 6 };
	float scratch[PN_EVICT_SCRATCH_FLOATS(6)], sums[6] = { 0 };
	uint32_t keys[2];

	assert_int_equal(pn_evict_h2o(&s, 1, 0, scratch, keys), 0);
	assert_int_equal(keys[0], 2);
	assert_int_equal(pn_evict_h2o(&s, 2, 1, scratch, keys), 0);
	assert_int_equal(keys[0], 2);
	assert_int_equal(keys[1], 5); /* the recent window, whatever its score */
	assert_int_equal(pn_evict_accumulate(&s, sums), 0);
	assert_true(sums[2] == 18.0f && sums[4] == 9.0f && isnan(sums[5]));
}

/* Accumulated step by step, H2O decides as it does over all rows at once. */
static void test_h2o_steps(void **state)
{
	enum { N = 30, CAP = 12, RECENT = 5 };
	float logits[N][N], total[N] = { 0 }, scratch[PN_EVICT_SCRATCH_FLOATS(N)];
	pn_evict_scores all = { &logits[0][0], PN_SCORE_LOGITS, 1, N, N };
	pn_evict_scores summed = { total, PN_SCORE_WEIGHTS, 1, 1, N };
	uint32_t keys[CAP], step_keys[CAP];

	seed = 0x5eed4;
	for (size_t q = 0; q < N; q++) {
		for (size_t k = 0; k < N; k++)
			logits[q][k] = (float)random_below(1000) / 200.0f;
	}
	for (size_t q = 0; q < N; q++) {
		pn_evict_scores step = { logits[q], PN_SCORE_LOGITS, 1, 1, q + 1 };

		assert_int_equal(pn_evict_accumulate(&step, total), 0);
	}
	assert_int_equal(pn_evict_h2o(&all, CAP, RECENT, scratch, keys), 0);
	assert_int_equal(pn_evict_h2o(&summed, CAP, RECENT, scratch, step_keys), 0);
	assert_memory_equal(keys, step_keys, sizeof(keys));
	assert_int_equal(keys[CAP - RECENT], N - RECENT);
}

static void test_streaming(void **state)
{
	static const struct {
		size_t n_keys, cap, sinks;
		uint32_t keys[6];
	} cases[] = {
		{ 10, 6, 4, { 0, 1, 2, 3, 8, 9 } },
		{ 10, 6, 0, { 4, 5, 6, 7, 8, 9 } },
		{ 10, 6, 6, { 0, 1, 2, 3, 4, 5 } },
		{ 10, 6, 99, { 0, 1, 2, 3, 4, 5 } },
		{ 6, 6, 4, { 0, 1, 2, 3, 4, 5 } },
		{ 3, 6, 4, { 0, 1, 2 } },
		{ 5, 6, 2, { 0, 1, 2, 3, 4 } },
		{ 10, 1, 0, { 9 } },
		{ 10, 1, 4, { 0 } },
		{ 10, 0, 4, { 0 } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t n = least(cases[i].cap, cases[i].n_keys);
		uint32_t keys[7];

		memset(keys, 0xff, sizeof(keys));
		assert_int_equal(
			pn_evict_streaming(cases[i].n_keys, cases[i].cap, cases[i].sinks, keys), 0);
		assert_memory_equal(keys, cases[i].keys, n * sizeof(keys[0]));
		assert_int_equal(keys[n], UINT32_MAX);
	}
}

/* With room for all, and with a cap that the window fills, no score is needed. */
static void test_no_scores_needed(void **state)
{
	pn_evict_scores s = { NULL, PN_SCORE_LOGITS, 8, 2, 5 };
	float scratch[PN_EVICT_SCRATCH_FLOATS(5)];
	uint32_t keys[5];

	assert_int_equal(pn_evict_snapkv(&s, 5, 2, 5, PN_POOL_AVG, NULL, keys), 0);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(keys[i], i);
	assert_int_equal(pn_evict_snapkv(&s, SIZE_MAX, SIZE_MAX, 5, PN_POOL_AVG, NULL, keys), 0);
	assert_int_equal(pn_evict_snapkv(&s, 3, 3, 5, PN_POOL_AVG, scratch, keys), 0);
	assert_int_equal(keys[0], 2);
	assert_int_equal(pn_evict_h2o(&s, 2, 4, scratch, keys), 0);
	assert_int_equal(keys[0], 3);
	assert_int_equal(keys[1], 4);
	assert_int_equal(pn_evict_h2o(&s, 0, 4, scratch, keys), 0);
	assert_int_equal(keys[0], 3);
}

static void test_errors(void **state)
{
	static const float scores[8] = { 0 };
	static const pn_evict_scores bad[] = {
		{ scores, (pn_score_kind)2, 1, 1, 8 },
		{ scores, PN_SCORE_WEIGHTS, 0, 1, 8 },
		{ scores, PN_SCORE_WEIGHTS, 1, 0, 8 },
		{ scores, PN_SCORE_WEIGHTS, 1, 1, 0 },
		{ scores, PN_SCORE_WEIGHTS, 1, 1, UINT32_MAX },
		{ scores, PN_SCORE_LOGITS, 1, 3, 2 },
	};
	const pn_evict_scores good = { scores, PN_SCORE_WEIGHTS, 1, 1, 8 };
	float scratch[PN_EVICT_SCRATCH_FLOATS(8)], sums[8] = { 0 };
	uint32_t keys[8] = { 7, 7, 7, 7, 7, 7, 7, 7 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(pn_evict_snapkv(&bad[i], 4, 1, 5, PN_POOL_AVG, scratch, keys),
				 -EINVAL);
		assert_int_equal(pn_evict_h2o(&bad[i], 4, 1, scratch, keys), -EINVAL);
		assert_int_equal(pn_evict_accumulate(&bad[i], sums), -EINVAL);
	}
	for (size_t kernel = 0; kernel <= 6; kernel += 2)
		assert_int_equal(pn_evict_snapkv(&good, 4, 1, kernel, PN_POOL_AVG, scratch, keys),
				 -EINVAL);
	assert_int_equal(pn_evict_snapkv(&good, 4, 1, 5, (pn_evict_pool)2, scratch, keys), -EINVAL);
	assert_int_equal(pn_evict_streaming(0, 4, 1, keys), -EINVAL);
	assert_int_equal(pn_evict_streaming(UINT32_MAX, 4, 1, keys), -EINVAL);
	for (size_t i = 0; i < 8; i++) {
		assert_int_equal(keys[i], 7);
		assert_true(sums[i] == 0.0f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_weights_random), cmocka_unit_test(test_logits_random),
		cmocka_unit_test(test_logits_causal),  cmocka_unit_test(test_softmax_values),
		cmocka_unit_test(test_ranking),        cmocka_unit_test(test_pooling),
		cmocka_unit_test(test_group),          cmocka_unit_test(test_h2o_steps),
		cmocka_unit_test(test_streaming),      cmocka_unit_test(test_no_scores_needed),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
