/* SPDX-License-Identifier: BSD-2-Clause */
/* See sequence.h. */
#include "sequence.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "pn_evict.h"

/*
 * A made-up model's prefill, in f32: the scores of 4 heads over the whole prompt, and a residual
 * stream with its output of 2048 elements each. 1024 tokens: 32 MiB.
 */
#define SCORES_BYTES (4ull * 4)
#define HIDDEN_BYTES (2ull * 2048 * 4)

#define PEAK_BYTES(n) (SCORES_BYTES * (n) * (n) + HIDDEN_BYTES * (n))
#define ANCHOR(n)                                                                                  \
	{                                                                                          \
		(n), PEAK_BYTES((uint64_t)(n))                                                     \
	}

/* Straight lines between points of a convex curve lie above it: admission never counts too low. */
const pn_admit_lut sequence_lut = {
	{ ANCHOR(512), ANCHOR(1024), ANCHOR(2048), ANCHOR(4096), ANCHOR(8192), ANCHOR(16384) },
};

uint64_t sequence_activation_bytes(int n_tokens)
{
	return PEAK_BYTES((uint64_t)n_tokens);
}

int sequence_prefill(struct sequence *seq, size_t row_bytes, int prompt_tokens, int max_tokens)
{
	size_t burst_bytes = sequence_activation_bytes(prompt_tokens);
	uint8_t *burst;

	*seq = (struct sequence){ .row_bytes = row_bytes, .rows = prompt_tokens };
	if (!row_bytes)
		return 0;
	seq->kv_bytes = (size_t)(prompt_tokens + max_tokens) * row_bytes;
	seq->kv = memory_take(seq->kv_bytes);
	if (!seq->kv)
		return -ENOMEM;
	burst = memory_take(burst_bytes);
	if (!burst) {
		sequence_free(seq);
		return -ENOMEM;
	}
	memory_give(burst, burst_bytes);
	return 0;
}

uint8_t *sequence_next_row(struct sequence *seq)
{
	int row = seq->rows++;

	return seq->kv ? seq->kv + (size_t)row * seq->row_bytes : NULL;
}

void sequence_evict(struct sequence *seq, int cap, int tokens_left)
{
	uint32_t *keep;

	if (!seq->kv || seq->rows < cap + SEQUENCE_EVICT_EVERY)
		return;
	keep = calloc((size_t)cap, sizeof(*keep));
	/* Nothing to keep a list in: this step goes on with the longer cache. */
	if (!keep)
		return;
	if (!pn_evict_streaming((size_t)seq->rows, (size_t)cap, PN_STREAMING_SINKS, keep)) {
		/* Ascending indices: a row only ever moves down, over one that is not needed. */
		for (int i = 0; i < cap; i++)
			memmove(seq->kv + (size_t)i * seq->row_bytes,
				seq->kv + (size_t)keep[i] * seq->row_bytes, seq->row_bytes);
		seq->rows = cap;
		memory_trim(seq->kv, (size_t)(cap + tokens_left) * seq->row_bytes, seq->kv_bytes);
	}
	free(keep);
}

void sequence_free(struct sequence *seq)
{
	memory_give(seq->kv, seq->kv_bytes);
	seq->kv = NULL;
}
