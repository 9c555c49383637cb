/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rung 4b of the ladder: which rows of a KV cache to keep when the plan says kv_evict. Pure
 * selection over the caller's attention scores, one call per layer and KV head; moving the rows is
 * the engine's part.
 *
 *   SnapKV        attention of the last queries, pooled; the best columns plus a recent window
 *                 (FasterDecoding/SnapKV: window 32, cap 2048, average pooling of 5)
 *   H2O           attention summed over all queries so far; the heaviest plus a recent window
 *   StreamingLLM  the first 4 rows and a recent window; needs no scores
 *
 * Every selection: exactly min(cap, n_keys) indices, ascending, each once. Ties go to the lower
 * index. The same input gives the same output on every call, whatever the scores.
 *
 * Values that are not numbers: a key whose score is NaN (some head or query gave NaN) ranks below
 * every other, also below -inf, and counts as 0 in its neighbours' pooling; +inf ranks highest;
 * -0 equals 0. +inf and -inf in one sum make NaN. In logits NaN is read as -inf, which is "masked".
 *
 * Nothing here allocates, blocks or keeps a pointer; calls on different outputs and scratch may
 * run on any threads.
 */
#ifndef PN_EVICT_H
#define PN_EVICT_H

#include <stddef.h>
#include <stdint.h>

#include "pn_memwatch.h" /* PN_API */

#ifdef __cplusplus
extern "C" {
#endif

/* SnapKV's published settings. */
#define PN_SNAPKV_WINDOW 32
#define PN_SNAPKV_CAP    2048
#define PN_SNAPKV_KERNEL 5

/* StreamingLLM's number of attention sinks. */
#define PN_STREAMING_SINKS 4

/* Floats of scratch for n_keys keys. */
#define PN_EVICT_SCRATCH_FLOATS(n_keys) (2 * (size_t)(n_keys))

typedef enum {
	/*
	 * q.k / sqrt(d) before the softmax. Row r is the query at position n_keys - n_queries + r
	 * and is masked here past that position: causal in the n_queries x n_queries corner. The
	 * softmax is taken here, in f32.
	 */
	PN_SCORE_LOGITS = 0,
	/*
	 * After the softmax; or, with n_queries 1, already summed over queries. Read as they are.
	 */
	PN_SCORE_WEIGHTS = 1,
} pn_score_kind;

typedef enum {
	PN_POOL_AVG = 0, /* zeros beyond the ends, always divided by the kernel */
	PN_POOL_MAX = 1, /* nothing beyond the ends */
} pn_evict_pool;

/*
 * The attention that one KV head received: the query heads of its group one after the other, each
 * row-major over queries and keys. Scores of a group are summed; a mean would give the same order.
 */
typedef struct {
	const float *scores; /* [n_heads][n_queries][n_keys] */
	pn_score_kind kind;
	size_t n_heads;   /* query heads that share this KV head, at least 1 */
	size_t n_queries; /* rows per head, at least 1; of logits at most n_keys */
	size_t n_keys;    /* 1..UINT32_MAX - 1 */
} pn_evict_scores;

/*
 * SnapKV: keeps the last min(window, cap) keys, and of those before them the rest of cap with the
 * highest scores after pooling over kernel neighbours (odd; 1: no pooling). Pooling is per query
 * head, over the prefix alone. If n_keys <= cap all are kept and no score is looked at. As
 * published, scores are logits with n_queries == window.
 * scratch: PN_EVICT_SCRATCH_FLOATS(n_keys) floats. ret_keys: min(cap, n_keys) entries.
 * Time: n_heads * n_keys * (n_queries + kernel); logits cost two expf each.
 * Returns 0, or -EINVAL for a shape or kind outside the above, an even kernel or an unknown pool.
 */
PN_API int pn_evict_snapkv(const pn_evict_scores *scores, size_t cap, size_t window, size_t kernel,
			   pn_evict_pool pool, float *scratch, uint32_t *ret_keys);

/*
 * H2O: keeps the last min(recent, cap) keys and the heaviest of the others. Scores are the
 * attention summed over all queries: either rows of them all, or an accumulator per head kept with
 * pn_evict_accumulate (kind WEIGHTS, n_queries 1).
 * scratch, ret_keys, result: as for pn_evict_snapkv.
 */
PN_API int pn_evict_h2o(const pn_evict_scores *scores, size_t cap, size_t recent, float *scratch,
			uint32_t *ret_keys);

/*
 * Adds to accumulator[0..n_keys-1] what each key got in these rows, over all queries and heads
 * given: one call per head and step keeps H2O's accumulators per head, one per group keeps them
 * summed. New keys start at 0; after an eviction the caller moves the accumulators with the rows.
 * Returns 0 or -EINVAL as above; then nothing was added.
 */
PN_API int pn_evict_accumulate(const pn_evict_scores *scores, float *accumulator);

/*
 * StreamingLLM: the first min(sinks, cap) keys and the most recent ones up to cap.
 * ret_keys: min(cap, n_keys) entries. Returns 0, or -EINVAL for n_keys 0 or above UINT32_MAX - 1.
 */
PN_API int pn_evict_streaming(size_t n_keys, size_t cap, size_t sinks, uint32_t *ret_keys);

#ifdef __cplusplus
}
#endif

#endif
