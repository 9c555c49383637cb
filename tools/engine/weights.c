/* SPDX-License-Identifier: BSD-2-Clause */
/* See weights.h. */
#include "weights.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "sequence.h"

static int fail(struct refusal *ret_refusal, int err, const char *what)
{
	snprintf(ret_refusal->reason, sizeof(ret_refusal->reason), "%s: %s", what, strerror(-err));
	return err;
}

/* A made-up model has equal attention layers: K and V share a layer's f32 bytes. */
static int model_describe(const struct weights_options *options, pn_model *ret,
			  struct refusal *ret_refusal)
{
	const uint32_t head_elems =
		(uint32_t)(options->kv_f32_bytes_per_token / WEIGHTS_MADE_UP_LAYERS / 8);
	const pn_model_geometry made_up = {
		.n_layers = WEIGHTS_MADE_UP_LAYERS,
		.n_kv_heads = 1,
		.k_dim = head_elems,
		.v_dim = head_elems,
		.weights_bytes = options->bytes,
	};
	pn_model_error why;
	int r;

	if (!options->gguf_path) {
		r = pn_model_from_geometry(&made_up, ret);
		return r ? fail(ret_refusal, r, "KV bytes per token") : 0;
	}
	r = pn_model_read_gguf(options->gguf_path, ret, &why);
	return r ? fail(ret_refusal, r, why.what) : 0;
}

static int stages_load(struct weights *weights, const struct guard *guard,
		       struct refusal *ret_refusal)
{
	size_t n_stages = (weights->total_bytes + WEIGHTS_STAGE_BYTES - 1) / WEIGHTS_STAGE_BYTES;

	weights->stage = calloc(n_stages ? n_stages : 1, sizeof(*weights->stage));
	if (!weights->stage)
		return fail(ret_refusal, -ENOMEM, "weights");
	for (; weights->n_stages < n_stages; weights->n_stages++) {
		uint8_t *packed;

		if (!guard_load_stage(guard, ret_refusal))
			return -EAGAIN;
		/* The burst: the bytes read from the file, and beside them the unpacked ones. */
		packed = memory_take(WEIGHTS_STAGE_BYTES);
		weights->stage[weights->n_stages] = memory_take(WEIGHTS_STAGE_BYTES);
		memory_give(packed, WEIGHTS_STAGE_BYTES);
		if (!weights->stage[weights->n_stages])
			return fail(ret_refusal, -ENOMEM, "weights");
	}
	guard_memory_taken(guard);
	return 0;
}

static int die_upload(const struct guard *guard, int die, uint64_t total_bytes,
		      const pn_model_slice *slice, struct refusal *ret_refusal)
{
	uint64_t left_bytes = slice->weights_bytes;
	/* The KV cache and the state are laid out before the weights arrive. */
	uint64_t free_bytes = total_bytes - slice->kv_bytes - slice->state_bytes;

	while (left_bytes) {
		uint64_t stage_bytes =
			left_bytes < WEIGHTS_STAGE_BYTES ? left_bytes : WEIGHTS_STAGE_BYTES;
		uint8_t *staging;

		if (!guard_load_stage(guard, ret_refusal))
			return -EAGAIN;
		staging = memory_take(stage_bytes);
		if (!staging)
			return fail(ret_refusal, -ENOMEM, "staging buffer");
		memory_give(staging, stage_bytes);
		left_bytes -= stage_bytes;
		free_bytes -= stage_bytes;
		guard_die_sampled(guard, die, total_bytes, free_bytes);
	}
	return 0;
}

static uint64_t slice_bytes(const pn_model_slice *slice)
{
	return slice->weights_bytes + slice->kv_bytes + slice->state_bytes;
}

/* All are asked before any is touched: half a model is of no use. */
static int dies_ask(const struct weights_options *options, const pn_model_slice *slices,
		    const struct guard *guard, uint64_t *ret_holds, struct refusal *ret_refusal)
{
	for (int die = 0; die < options->n_dies; die++) {
		if (!guard_hold(guard, die, slice_bytes(&slices[die]), &ret_holds[die],
				ret_refusal) ||
		    !guard_load_die(guard, die, &slices[die], ret_refusal))
			return -EAGAIN;
		if (slice_bytes(&slices[die]) > options->die_bytes[die])
			return fail(ret_refusal, -ENOMEM, "the die is too small");
	}
	return 0;
}

static int dies_load(const struct weights *weights, const struct weights_options *options,
		     const pn_model *model, const struct guard *guard, struct refusal *ret_refusal)
{
	pn_model_slice slices[PN_MEM_MAX_DIES];
	uint64_t holds[PN_MEM_MAX_DIES] = { 0 };
	int r;

	r = pn_model_split(model, weights->kv_q4 ? PN_KV_Q4_0 : PN_KV_F32,
			   (uint64_t)options->ctx_tokens * (uint64_t)options->slots,
			   (uint32_t)options->slots, options->die_bytes, (unsigned)options->n_dies,
			   slices);
	if (r)
		return fail(ret_refusal, r, "split over the dies");
	for (int die = 0; die < options->n_dies; die++)
		guard_die_sampled(guard, die, options->die_bytes[die], options->die_bytes[die]);
	r = dies_ask(options, slices, guard, holds, ret_refusal);
	for (int die = 0; die < options->n_dies && !r; die++)
		r = die_upload(guard, die, options->die_bytes[die], &slices[die], ret_refusal);
	for (int die = 0; die < options->n_dies; die++)
		guard_let_go(guard, holds[die], !r);
	return r;
}

int weights_load(struct weights *weights, const struct weights_options *options,
		 struct guard *guard, struct refusal *ret_refusal)
{
	pn_model model;
	uint64_t hold;
	int r;

	memset(weights, 0, sizeof(*weights));
	*ret_refusal = (struct refusal){ 0 };
	r = model_describe(options, &model, ret_refusal);
	if (r)
		return r;
	weights->total_bytes = pn_model_weights_bytes(&model);
	weights->kv_q4 = guard_kv_q4(guard);
	weights->kv_bytes_per_token =
		pn_model_kv_bytes_per_token(&model, weights->kv_q4 ? PN_KV_Q4_0 : PN_KV_F32);

	/* What pn_admit will ask of the model: the format as allocated, the costs as they are. */
	guard->engine.max_window = options->ctx_tokens;
	guard->engine.kv_q4 = weights->kv_q4;
	guard->engine.kv_bytes_per_token = weights->kv_bytes_per_token;
	guard->engine.lut = &sequence_lut;
	guard->engine.gpu_resident = options->n_dies > 0;
	guard->engine.die_mask = (1u << options->n_dies) - 1;

	if (options->n_dies)
		return dies_load(weights, options, &model, guard, ret_refusal);
	if (!guard_hold(guard, -1, weights->total_bytes, &hold, ret_refusal))
		return -EAGAIN;
	r = stages_load(weights, guard, ret_refusal);
	guard_let_go(guard, hold, !r);
	return r;
}

void weights_free(struct weights *weights)
{
	for (size_t i = 0; i < weights->n_stages; i++)
		memory_give(weights->stage[i], WEIGHTS_STAGE_BYTES);
	free(weights->stage);
	memset(weights, 0, sizeof(*weights));
}
