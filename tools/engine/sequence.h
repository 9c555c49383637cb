/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of one request on the CPU path: its KV cache, held until its end, and the activation
 * peak of its prefill, held while that runs. sequence_lut is the cost model of exactly that, for
 * admission. On a die both lie there and a sequence is empty.
 */
#ifndef ENGINE_SEQUENCE_H
#define ENGINE_SEQUENCE_H

#include <stddef.h>
#include <stdint.h>

#include "pn_admission.h"

struct sequence {
	uint8_t *kv; /* [max_rows][row_bytes]; NULL: on a die */
	size_t kv_bytes;
	size_t row_bytes; /* K and V of one token over all layers */
	int rows;         /* in use */
};

extern const pn_admit_lut sequence_lut;

/* Bytes that the prefill of n_tokens touches beside the KV cache. */
uint64_t sequence_activation_bytes(int n_tokens);

/*
 * Takes the KV cache for the prompt and all that will be generated, touched as an engine does that
 * clears it, and runs the prefill. row_bytes 0: on a die. Returns 0 or -ENOMEM.
 */
int sequence_prefill(struct sequence *seq, size_t row_bytes, int prompt_tokens, int max_tokens);

/* Where the next token's K and V go; NULL on a die. */
uint8_t *sequence_next_row(struct sequence *seq);

/* Rows that may gather above the cap before they are evicted: moving the cache for each is dear. */
#define SEQUENCE_EVICT_EVERY 256

/*
 * Evicts down to `cap` rows if there are SEQUENCE_EVICT_EVERY more, keeping room for tokens_left
 * to come; the pages go back to the kernel. Nothing may be in flight on this sequence.
 */
void sequence_evict(struct sequence *seq, int cap, int tokens_left);

void sequence_free(struct sequence *seq);

#endif
