/* SPDX-License-Identifier: BSD-2-Clause */
/* See completion.h. */
#include "completion.h"

#include <errno.h>

#include "pn_evict.h"
#include "sequence.h"

/*
 * The first part: may it, how much of it, and all of its memory. One prefill turn covers the
 * question and the touching, so that the next to ask sees what this one took.
 */
static int prefill(struct engine *engine, const struct completion_request *request,
		   struct sequence *seq, struct completion *ret, struct refusal *ret_refusal)
{
	size_t row_bytes = engine->on_dies ? 0 : engine->weights.kv_bytes_per_token;
	int max_tokens = request->max_tokens;
	struct admission admission;
	uint64_t ticket;
	int r = -EAGAIN;

	forward_begin(&engine->forward, PN_TURN_PREFILL, &ticket);
	/* The KV cache must hold what will be generated too, so that is asked for as well. */
	if (guard_admit(&engine->guard, request->prompt_tokens + max_tokens, &admission,
			ret_refusal)) {
		/* Capped: the answer may have half of what there is, the prompt the rest. */
		if (admission.capped && max_tokens > admission.fit_tokens / 2)
			max_tokens = admission.fit_tokens / 2;
		ret->prompt_tokens = request->prompt_tokens;
		if (ret->prompt_tokens > admission.fit_tokens - max_tokens)
			ret->prompt_tokens = admission.fit_tokens - max_tokens;
		ret->generated_tokens = max_tokens;
		ret->capped = admission.capped;
		ret->level = admission.level;
		r = sequence_prefill(seq, row_bytes, ret->prompt_tokens, max_tokens);
		guard_memory_taken(&engine->guard);
	}
	forward_end(&engine->forward, ticket);
	if (r == -EAGAIN)
		slots_denied(&engine->slots, ret_refusal->level);
	return r;
}

/* Returns the tokens generated: n_tokens unless the engine ends. */
static int decode(struct engine *engine, int slot, struct sequence *seq, int n_tokens)
{
	uint64_t ticket;
	int left;

	for (left = n_tokens; left > 0 && !engine->cut; left--) {
		forward_begin(&engine->forward, PN_TURN_STEP, &ticket);
		/* Under the turn, before the step: nothing is in flight that reads these rows. */
		if (guard_kv_evict(&engine->guard))
			sequence_evict(seq, PN_SNAPKV_CAP, left);
		forward_step(&engine->forward, ticket, slot, sequence_next_row(seq),
			     seq->row_bytes);
		forward_end(&engine->forward, ticket);
	}
	return n_tokens - left;
}

int completion_run(struct engine *engine, const struct completion_request *request,
		   struct completion *ret, struct refusal *ret_refusal)
{
	struct sequence seq;
	int slot, r;

	*ret = (struct completion){ 0 };
	slot = slots_acquire(&engine->slots, engine->queue_ms, ret_refusal);
	if (slot < 0)
		return -EAGAIN;
	if (slots_bind_check(&engine->slots, slot + 1, ret_refusal))
		r = forward_bind(&engine->forward, slot + 1);
	else
		r = -EAGAIN;
	if (!r)
		r = prefill(engine, request, &seq, ret, ret_refusal);
	if (!r) {
		ret->generated_tokens = decode(engine, slot, &seq, ret->generated_tokens);
		ret->kv_rows = seq.rows;
		sequence_free(&seq);
	}
	slots_release(&engine->slots, slot);
	return r;
}
