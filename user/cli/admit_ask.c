/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Puts the questions of pnmem admit to the library, and finds the parts of each need. Reads the
 * model file, whose numbers are part of the question.
 */
#include "cli/admit_ask.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/admit.h"
#include "cli/cli.h"
#include "pn_memwatch.h"

static uint64_t add_ceil(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static int read_model(const char *path, pn_model *ret)
{
	pn_model_error error;
	int r = pn_model_read_gguf(path, ret, &error);

	if (!r)
		return CLI_OK;
	fprintf(stderr, "pnmem: no model in %s: %s: %s (file %u, at byte %llu)\n", path, error.what,
		strerror(-r), error.file_no, (unsigned long long)error.offset_bytes);
	return CLI_FAILED;
}

/* The context of --ctx, and else the model's. */
static int context_tokens(const struct admit_question *q, const pn_model *model, int *ret)
{
	if (q->n_tokens >= 0) {
		*ret = q->n_tokens;
		return CLI_OK;
	}
	if (model->context_tokens && model->context_tokens <= INT_MAX) {
		*ret = (int)model->context_tokens;
		return CLI_OK;
	}
	fprintf(stderr,
		"pnmem admit %s: the model file does not tell its context: --ctx N is "
		"needed\n",
		q->name);
	return CLI_USAGE;
}

/* Without a model file: the numbers of the model in pn_admission.h. */
static uint64_t reference_kv_bytes_per_token(pn_kv_type type)
{
	switch (type) {
	case PN_KV_Q4_0:
		return PN_ADMIT_KV_BYTES_PER_TOKEN_Q4;
	case PN_KV_Q8_0: /* blocks of 32 elements in 34 bytes */
		return PN_ADMIT_KV_BYTES_PER_TOKEN_FP32 / 4 / 32 * 34;
	case PN_KV_F16:
		return PN_ADMIT_KV_BYTES_PER_TOKEN_FP32 / 2;
	default:
		return PN_ADMIT_KV_BYTES_PER_TOKEN_FP32;
	}
}

static void ask_request(const struct admit_question *q, const pn_mem_state *state,
			const pn_mem_ext *ext, struct admit_answer *ret)
{
	struct admit_verdict *v = &ret->verdicts[0];
	bool kv_q4 = q->kv == PN_KV_Q4_0;
	int window = q->max_window > 0 && q->max_window < q->n_tokens ? q->max_window : q->n_tokens;

	ret->n_tokens = q->n_tokens;
	pn_admit_request_ext(q->n_tokens, kv_q4, q->gpu_resident, q->die_id, q->max_window, state,
			     ext, &v->result);
	if (q->gpu_resident)
		return;
	v->parts[0] =
		(struct admit_part){ "kv", (uint64_t)window * reference_kv_bytes_per_token(q->kv) };
	v->parts[1] = (struct admit_part){ "activation", pn_admit_activation_bytes(window) };
}

static int ask_load(const struct admit_question *q, const pn_mem_state *state,
		    const pn_mem_ext *ext, pn_model *model, struct admit_answer *ret)
{
	struct admit_verdict *v = &ret->verdicts[0];
	uint64_t weights_bytes = q->weights_bytes, state_bytes = 0;
	uint64_t per_token_bytes = reference_kv_bytes_per_token(q->kv), kv_bytes;
	int r;

	ret->n_tokens = q->n_tokens;
	if (q->gguf_path) {
		r = read_model(q->gguf_path, model);
		if (!r)
			r = context_tokens(q, model, &ret->n_tokens);
		if (r)
			return r;
		ret->arch = model->arch;
		weights_bytes = pn_model_weights_bytes(model);
		state_bytes = pn_model_state_bytes(model);
		per_token_bytes = pn_model_kv_bytes_per_token(model, q->kv);
	}
	if (__builtin_mul_overflow(per_token_bytes, (uint64_t)ret->n_tokens, &kv_bytes))
		kv_bytes = UINT64_MAX;
	pn_admit_model_load_ext(add_ceil(weights_bytes, state_bytes), ret->n_tokens,
				per_token_bytes, q->activation_bytes, q->die_id < 0 ? 0 : q->die_id,
				state, ext, &v->result);
	v->parts[0] = (struct admit_part){ "weights", weights_bytes };
	v->parts[1] = (struct admit_part){ "kv", kv_bytes };
	v->parts[2] = (struct admit_part){ "activation", q->activation_bytes };
	if (state_bytes)
		v->parts[3] = (struct admit_part){ "state", state_bytes };
	return CLI_OK;
}

static void ask_load_die(const pn_model_slice *slice, int die_id, const pn_mem_state *state,
			 const pn_mem_ext *ext, struct admit_answer *ret)
{
	struct admit_verdict *v = &ret->verdicts[ret->n_verdicts++];

	v->slice = *slice;
	pn_admit_model_load_die_ext(slice->weights_bytes,
				    add_ceil(slice->kv_bytes, slice->state_bytes), die_id, state,
				    ext, &v->result);
	v->parts[0] = (struct admit_part){ "weights", slice->weights_bytes };
	v->parts[1] = (struct admit_part){ "kv", slice->kv_bytes };
	v->parts[2] = (struct admit_part){ "scratch", PN_ADMIT_DIE_SCRATCH_BYTES };
	if (slice->state_bytes)
		v->parts[3] = (struct admit_part){ "state", slice->state_bytes };
}

/*
 * Each known die's share is in proportion to what it has beside the scratch that every die with a
 * slice needs; a byte at least, so that a model is refused with each die's numbers.
 */
static int ask_split(const struct admit_question *q, const pn_mem_state *state,
		     const pn_mem_ext *ext, pn_model *model, struct admit_answer *ret)
{
	pn_model_slice slices[PN_MEM_MAX_DIES];
	uint64_t shares[PN_MEM_MAX_DIES] = { 0 }, taken_bytes;
	bool known = false;
	int r;

	r = read_model(q->gguf_path, model);
	if (!r)
		r = context_tokens(q, model, &ret->n_tokens);
	if (r)
		return r;
	ret->arch = model->arch;
	for (int i = 0; i < state->n_dies; i++) {
		if (!state->per_die_budget[i])
			continue;
		known = true;
		taken_bytes = add_ceil(PN_ADMIT_DIE_SCRATCH_BYTES, ext->die_reserved_bytes[i]);
		shares[i] = state->per_die_free[i] > taken_bytes
				    ? state->per_die_free[i] - taken_bytes
				    : 1;
	}
	if (!known) {
		ask_load_die(&(pn_model_slice){ 0 }, 0, state, ext, ret);
		return CLI_OK;
	}
	r = pn_model_split(model, q->kv, (uint64_t)ret->n_tokens, 1, shares,
			   (unsigned)state->n_dies, slices);
	if (r) {
		fprintf(stderr, "pnmem: cannot split %s: %s\n", q->gguf_path, strerror(-r));
		return CLI_FAILED;
	}
	for (int i = 0; i < state->n_dies; i++)
		if (slices[i].weights_bytes || slices[i].kv_bytes || slices[i].state_bytes)
			ask_load_die(&slices[i], i, state, ext, ret);
	return CLI_OK;
}

int admit_ask(const struct admit_question *q, const pn_mem_state *state, const pn_mem_ext *ext,
	      pn_model *model, struct admit_answer *ret)
{
	int r = CLI_OK;

	memset(ret, 0, sizeof(*ret));
	switch (q->kind) {
	case ASK_REQUEST:
		ask_request(q, state, ext, ret);
		break;
	case ASK_LOAD:
		r = ask_load(q, state, ext, model, ret);
		break;
	case ASK_LOAD_DIE:
		if (q->split)
			r = ask_split(q, state, ext, model, ret);
		else
			ask_load_die(&(pn_model_slice){ .weights_bytes = q->weights_bytes,
							.kv_bytes = q->kv_bytes },
				     q->die_id < 0 ? 0 : q->die_id, state, ext, ret);
		break;
	case ASK_SPIKE:
		pn_admit_load_spike_ext(state, ext, &ret->verdicts[0].result);
		break;
	}
	if (r)
		return r;
	if (!ret->n_verdicts)
		ret->n_verdicts = 1;
	for (int i = 0; i < ret->n_verdicts; i++)
		if (ret->verdicts[i].result.verdict > ret->verdict)
			ret->verdict = ret->verdicts[i].result.verdict;
	return CLI_OK;
}
