/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From a model's geometry to bytes: KV cache, linear-attention state, weights, per-die slices.
 *
 * Sums saturate: a wrong description may then be refused, but cannot wrap round to something
 * that fits. Reading a description from a file is gguf.c's part.
 */
#include "pn_model.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "core/u64.h"

/* Past this a byte total is refused by pn_model_split, which multiplies totals in 128 bits. */
#define MODEL_MAX_SPLIT_BYTES (1ull << 62)

static const struct {
	uint32_t elems; /* per block */
	uint32_t bytes;
} kv_blocks[] = {
	[PN_KV_F32] = { 1, 4 },
	[PN_KV_F16] = { 1, 2 },
	[PN_KV_Q8_0] = { 32, 34 }, /* 32 int8 and an f16 scale */
	[PN_KV_Q4_0] = { 32, 18 }, /* 16 bytes of nibbles and an f16 scale */
};

static bool kv_type_valid(pn_kv_type type)
{
	return (unsigned)type < sizeof(kv_blocks) / sizeof(kv_blocks[0]);
}

static uint64_t layer_kv_bytes_per_token(const pn_model_layer *layer, pn_kv_type type)
{
	uint64_t block = kv_blocks[type].elems;
	uint64_t n_blocks = ((uint64_t)layer->k_elems + block - 1) / block +
			    ((uint64_t)layer->v_elems + block - 1) / block;

	return n_blocks * kv_blocks[type].bytes;
}

uint64_t pn_model_ssm_state_bytes(uint32_t conv_kernel, uint32_t inner_size, uint32_t state_size,
				  uint32_t n_groups)
{
	uint64_t conv, state;

	if (conv_kernel > PN_MODEL_MAX_DIM || inner_size > PN_MODEL_MAX_DIM ||
	    state_size > PN_MODEL_MAX_DIM || n_groups > PN_MODEL_MAX_DIM)
		return UINT64_MAX;
	/* At most 2^61 + 2^41 elements, which four times over still fit. */
	conv = conv_kernel ? conv_kernel - 1 : 0;
	conv *= inner_size + 2 * (uint64_t)n_groups * state_size;
	state = (uint64_t)state_size * inner_size;
	return (conv + state) * sizeof(float);
}

int pn_model_from_geometry(const pn_model_geometry *g, pn_model *ret)
{
	uint64_t state_bytes, rest;

	if (!g->n_layers || g->n_layers > PN_MODEL_MAX_LAYERS)
		return -EINVAL;
	if (g->n_kv_heads > PN_MODEL_MAX_DIM || g->k_dim > PN_MODEL_MAX_DIM ||
	    g->v_dim > PN_MODEL_MAX_DIM)
		return -EINVAL;
	if ((uint64_t)g->n_kv_heads * g->k_dim > UINT32_MAX ||
	    (uint64_t)g->n_kv_heads * g->v_dim > UINT32_MAX)
		return -EINVAL;
	state_bytes = pn_model_ssm_state_bytes(g->ssm_conv_kernel, g->ssm_inner_size,
					       g->ssm_state_size, g->ssm_n_groups);
	if (state_bytes == UINT64_MAX)
		return -EINVAL;

	memset(ret, 0, sizeof(*ret));
	ret->n_layers = g->n_layers;
	rest = g->weights_bytes % g->n_layers;
	for (uint32_t i = 0; i < g->n_layers; i++) {
		pn_model_layer *layer = &ret->layers[i];

		if (g->attention_interval < 2 || (i + 1) % g->attention_interval == 0) {
			layer->k_elems = g->n_kv_heads * g->k_dim;
			layer->v_elems = g->n_kv_heads * g->v_dim;
		} else {
			layer->state_bytes = state_bytes;
		}
		layer->weights_bytes = g->weights_bytes / g->n_layers + (i < rest);
	}
	return 0;
}

uint64_t pn_model_kv_bytes_per_token(const pn_model *model, pn_kv_type type)
{
	uint64_t sum = 0;

	if (!kv_type_valid(type))
		return UINT64_MAX;
	for (uint32_t i = 0; i < model->n_layers; i++)
		sum += layer_kv_bytes_per_token(&model->layers[i], type);
	return sum;
}

uint64_t pn_model_kv_bytes(const pn_model *model, pn_kv_type type, uint64_t n_tokens)
{
	return u64_mul(pn_model_kv_bytes_per_token(model, type), n_tokens);
}

uint64_t pn_model_state_bytes(const pn_model *model)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < model->n_layers; i++)
		sum = u64_add(sum, model->layers[i].state_bytes);
	return sum;
}

uint64_t pn_model_weights_bytes(const pn_model *model)
{
	uint64_t sum = u64_add(model->input_weights_bytes, model->output_weights_bytes);

	for (uint32_t i = 0; i < model->n_layers; i++)
		sum = u64_add(sum, model->layers[i].weights_bytes);
	return sum;
}

int pn_kv_type_parse(const char *name, pn_kv_type *ret)
{
	static const struct {
		const char *name;
		pn_kv_type type;
	} names[] = {
		{ "f32", PN_KV_F32 }, { "f16", PN_KV_F16 },   { "q8_0", PN_KV_Q8_0 },
		{ "q8", PN_KV_Q8_0 }, { "q4_0", PN_KV_Q4_0 }, { "q4", PN_KV_Q4_0 },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(name, names[i].name)) {
			*ret = names[i].type;
			return 0;
		}
	}
	return -EINVAL;
}

/*
 * The parts that are laid over the dies, in order: the embeddings, each layer, the output tensors.
 */
static pn_model_slice split_item(const pn_model *model, uint32_t item, pn_kv_type type,
				 uint64_t n_tokens, uint32_t n_sequences)
{
	pn_model_slice cost = { 0 };

	if (item == 0) {
		cost.weights_bytes = model->input_weights_bytes;
	} else if (item == model->n_layers + 1) {
		cost.weights_bytes = model->output_weights_bytes;
	} else {
		const pn_model_layer *layer = &model->layers[item - 1];

		cost.n_layers = 1;
		cost.weights_bytes = layer->weights_bytes;
		cost.kv_bytes = u64_mul(layer_kv_bytes_per_token(layer, type), n_tokens);
		cost.state_bytes = u64_mul(layer->state_bytes, n_sequences);
	}
	return cost;
}

static uint64_t slice_bytes(const pn_model_slice *slice)
{
	return u64_add(u64_add(slice->weights_bytes, slice->kv_bytes), slice->state_bytes);
}

int pn_model_split(const pn_model *model, pn_kv_type type, uint64_t n_tokens, uint32_t n_sequences,
		   const uint64_t *die_free_bytes, unsigned n_dies, pn_model_slice *ret)
{
	uint64_t reach[PN_MEM_MAX_DIES]; /* free bytes of the dies up to and with this one */
	uint64_t free_total = 0, total = 0, before = 0;
	uint32_t layer = 0;
	unsigned die = 0;

	if (!n_dies || n_dies > PN_MEM_MAX_DIES || !kv_type_valid(type) || !model->n_layers ||
	    model->n_layers > PN_MODEL_MAX_LAYERS)
		return -EINVAL;
	for (unsigned d = 0; d < n_dies; d++) {
		free_total = u64_add(free_total, die_free_bytes ? die_free_bytes[d] : 1);
		reach[d] = free_total;
	}
	if (!free_total)
		return -ENOSPC;
	for (uint32_t i = 0; i < model->n_layers + 2; i++) {
		pn_model_slice item = split_item(model, i, type, n_tokens, n_sequences);

		total = u64_add(total, slice_bytes(&item));
	}
	if (total > MODEL_MAX_SPLIT_BYTES || free_total > MODEL_MAX_SPLIT_BYTES)
		return -EOVERFLOW;

	/*
	 * An item goes where its middle falls when the model is stretched over the free bytes of
	 * all dies: middle / total against reach / free_total, both sides doubled and cross
	 * multiplied. The middle only moves on, so the ranges are contiguous.
	 */
	while (die < n_dies - 1 && !reach[die])
		die++;
	memset(ret, 0, n_dies * sizeof(*ret));
	for (uint32_t i = 0; i < model->n_layers + 2; i++) {
		pn_model_slice item = split_item(model, i, type, n_tokens, n_sequences);
		uint64_t bytes = slice_bytes(&item);
		unsigned __int128 middle = (unsigned __int128)(2 * before + bytes) * free_total;

		while (die < n_dies - 1 && middle > (unsigned __int128)(2 * total) * reach[die])
			ret[++die].first_layer = layer;
		ret[die].n_layers += item.n_layers;
		ret[die].weights_bytes += item.weights_bytes;
		ret[die].kv_bytes += item.kv_bytes;
		ret[die].state_bytes += item.state_bytes;
		layer += item.n_layers;
		before += bytes;
	}
	/* Dies past the last one used. */
	while (++die < n_dies)
		ret[die].first_layer = layer;
	return 0;
}
