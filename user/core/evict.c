/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * KV row selection: column sums of attention, pooling, and the top of a column, each a pass of
 * its own over caller's memory.
 *
 * The selection finds the value of the k-th score by counting bytes from the highest down (four
 * passes of a 256-entry histogram), then emits in index order: linear, no order of evaluation for
 * a tie to depend on, and sorted as it comes. What to do with the rows is left to the engine.
 */
#include "pn_evict.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static int check_scores(const pn_evict_scores *s)
{
	if (s->kind != PN_SCORE_LOGITS && s->kind != PN_SCORE_WEIGHTS)
		return -EINVAL;
	if (!s->n_heads || !s->n_queries || !s->n_keys || s->n_keys >= UINT32_MAX)
		return -EINVAL;
	if (s->kind == PN_SCORE_LOGITS && s->n_queries > s->n_keys)
		return -EINVAL;
	return 0;
}

/* The weight of one logit relative to its row's largest; a row's +inf share it all. */
static float logit_weight(float logit, float largest)
{
	if (largest == INFINITY)
		return logit == INFINITY ? 1.0f : 0.0f;
	return isnan(logit) ? 0.0f : expf(logit - largest);
}

/*
 * Adds a row's softmax, over its n_visible keys, to the first n_cols of column. A row with nothing
 * but masked keys adds nothing. The divisor is summed in double: a long row of small weights
 * would lose its tail in f32.
 */
static void add_softmax_row(const float *row, size_t n_visible, size_t n_cols, float *column)
{
	float largest = -INFINITY;
	double sum = 0.0;

	for (size_t i = 0; i < n_visible; i++) {
		if (row[i] > largest)
			largest = row[i];
	}
	if (largest == -INFINITY)
		return;
	for (size_t i = 0; i < n_visible; i++)
		sum += (double)logit_weight(row[i], largest);
	if (n_cols > n_visible)
		n_cols = n_visible;
	for (size_t i = 0; i < n_cols; i++)
		column[i] += logit_weight(row[i], largest) / (float)sum;
}

/* Adds what one head's queries gave to the first n_cols keys. */
static void add_head(const pn_evict_scores *s, size_t head, size_t n_cols, float *column)
{
	const float *row = s->scores + head * s->n_queries * s->n_keys;

	for (size_t q = 0; q < s->n_queries; q++, row += s->n_keys) {
		if (s->kind == PN_SCORE_LOGITS) {
			add_softmax_row(row, s->n_keys - s->n_queries + q + 1, n_cols, column);
			continue;
		}
		for (size_t i = 0; i < n_cols; i++)
			column[i] += row[i];
	}
}

/* The pooled value at `at`. A NaN stays with its own key and does not spread. */
static float pool_at(const float *column, size_t n, size_t at, size_t kernel, pn_evict_pool pool)
{
	size_t half = kernel / 2;
	size_t from = at < half ? 0 : at - half;
	size_t to = half < n - at ? at + half + 1 : n;
	float sum = 0.0f, largest = -INFINITY;

	if (isnan(column[at]))
		return column[at];
	for (size_t i = from; i < to; i++) {
		if (isnan(column[i]))
			continue;
		sum += column[i];
		if (column[i] > largest)
			largest = column[i];
	}
	return pool == PN_POOL_MAX ? largest : sum / (float)kernel;
}

/* A float's rank as an integer: NaN 0, then -inf up to +inf. Sums that began at 0 are never -0. */
static uint32_t rank_of(float score)
{
	uint32_t bits;

	if (isnan(score))
		return 0;
	memcpy(&bits, &score, sizeof(bits));
	return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/*
 * The rank of the k-th highest of n scores, 1 <= k <= n; *ret_ties: how many of that rank belong.
 */
static uint32_t kth_rank(const float *scores, size_t n, size_t k, size_t *ret_ties)
{
	uint32_t prefix = 0, mask = 0;

	for (int shift = 24; shift >= 0; shift -= 8) {
		uint32_t counts[256] = { 0 };
		unsigned digit = 255;

		for (size_t i = 0; i < n; i++) {
			uint32_t rank = rank_of(scores[i]);

			if ((rank & mask) == prefix)
				counts[rank >> shift & 255]++;
		}
		while (counts[digit] < k)
			k -= counts[digit--];
		prefix |= (uint32_t)digit << shift;
		mask |= 255u << shift;
	}
	*ret_ties = k;
	return prefix;
}

/* Writes the indices of the k highest of n scores, ascending. Returns where it stopped writing. */
static uint32_t *select_top(const float *scores, size_t n, size_t k, uint32_t *ret)
{
	size_t ties;
	uint32_t least;

	if (!k)
		return ret;
	least = kth_rank(scores, n, k, &ties);
	for (size_t i = 0; i < n; i++) {
		uint32_t rank = rank_of(scores[i]);

		if (rank < least || (rank == least && !ties))
			continue;
		ties -= rank == least;
		*ret++ = (uint32_t)i;
	}
	return ret;
}

/* Writes from .. to - 1. */
static void select_range(size_t from, size_t to, uint32_t *ret)
{
	for (size_t i = from; i < to; i++)
		*ret++ = (uint32_t)i;
}

int pn_evict_snapkv(const pn_evict_scores *s, size_t cap, size_t window, size_t kernel,
		    pn_evict_pool pool, float *scratch, uint32_t *ret_keys)
{
	size_t recent = window < cap ? window : cap;
	float *total = scratch, *column;
	size_t prefix;
	int r = check_scores(s);

	if (r)
		return r;
	if (kernel % 2 == 0 || (pool != PN_POOL_AVG && pool != PN_POOL_MAX))
		return -EINVAL;
	if (s->n_keys <= cap) {
		select_range(0, s->n_keys, ret_keys);
		return 0;
	}
	prefix = s->n_keys - recent;
	column = scratch + prefix;
	memset(total, 0, prefix * sizeof(*total));
	for (size_t head = 0; cap > recent && head < s->n_heads; head++) {
		memset(column, 0, prefix * sizeof(*column));
		add_head(s, head, prefix, column);
		for (size_t i = 0; i < prefix; i++)
			total[i] +=
				kernel == 1 ? column[i] : pool_at(column, prefix, i, kernel, pool);
	}
	select_range(prefix, s->n_keys, select_top(total, prefix, cap - recent, ret_keys));
	return 0;
}

int pn_evict_h2o(const pn_evict_scores *s, size_t cap, size_t recent, float *scratch,
		 uint32_t *ret_keys)
{
	return pn_evict_snapkv(s, cap, recent, 1, PN_POOL_AVG, scratch, ret_keys);
}

int pn_evict_accumulate(const pn_evict_scores *s, float *accumulator)
{
	int r = check_scores(s);

	for (size_t head = 0; !r && head < s->n_heads; head++)
		add_head(s, head, s->n_keys, accumulator);
	return r;
}

int pn_evict_streaming(size_t n_keys, size_t cap, size_t sinks, uint32_t *ret_keys)
{
	size_t kept, first;

	if (!n_keys || n_keys >= UINT32_MAX)
		return -EINVAL;
	kept = cap < n_keys ? cap : n_keys;
	first = sinks < kept ? sinks : kept;
	select_range(0, first, ret_keys);
	select_range(n_keys - (kept - first), n_keys, ret_keys + first);
	return 0;
}
