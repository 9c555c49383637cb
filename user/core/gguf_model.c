/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Derives the memory use from the keys of a GGUF header: which layers have attention, which have a
 * linear-attention state, and how large both are. The rules are those by which llama.cpp, whose
 * format it is, lays out its own caches.
 */
#include <errno.h>
#include <string.h>

#include "core/gguf.h"

static int model_fail(pn_model_error *ret_err, int err, const char *what)
{
	*ret_err = (pn_model_error){ .err = err, .what = what, .file_no = 1 };
	return err;
}

/* A missing key counts as 0. */
static uint32_t number(const struct gguf_info *info, enum gguf_key key)
{
	return info->numbers[key].seen ? (uint32_t)info->numbers[key].v : 0;
}

static uint32_t per_layer(const struct gguf_per_layer *list, uint32_t layer)
{
	return list->n ? list->v[layer] : list->v[0];
}

/* Query heads of the first layer that has any: the divisor behind a head's default width. */
static uint32_t first_heads(const struct gguf_info *info)
{
	uint32_t i = 0;

	while (i + 1 < info->heads.n && !info->heads.v[i])
		i++;
	return info->heads.v[i];
}

static uint32_t head_dim(const struct gguf_info *info, enum gguf_key key)
{
	uint32_t heads = first_heads(info);

	if (info->numbers[key].seen)
		return number(info, key);
	return heads ? number(info, GGUF_KEY_EMBEDDING_LENGTH) / heads : 0;
}

/*
 * State of one layer without attention, bytes. RWKV keeps two token shifts and a matrix of the
 * head's size per embedding element; short convolutions (LFM2) their last inputs; the others have
 * the ssm form. From llama.cpp's llama_hparams::n_embd_r and n_embd_s.
 */
static uint64_t layer_state_bytes(const struct gguf_info *info)
{
	uint64_t embedding = number(info, GGUF_KEY_EMBEDDING_LENGTH);
	uint32_t wkv_head = number(info, GGUF_KEY_WKV_HEAD_SIZE);
	uint32_t l_cache = number(info, GGUF_KEY_SHORTCONV_L_CACHE);

	if (wkv_head)
		return embedding * (2 + (uint64_t)wkv_head) * sizeof(float);
	if (l_cache)
		return embedding * (l_cache - 1) * sizeof(float);
	return pn_model_ssm_state_bytes(
		number(info, GGUF_KEY_SSM_CONV_KERNEL), number(info, GGUF_KEY_SSM_INNER_SIZE),
		number(info, GGUF_KEY_SSM_STATE_SIZE), number(info, GGUF_KEY_SSM_GROUP_COUNT));
}

/*
 * Every Nth layer has attention, counted over the layers before the next-token-prediction ones,
 * which always have it. The qwen3next family's first files leave N, 4, unsaid. 0: no such rule.
 */
static uint32_t attention_interval(const struct gguf_info *info)
{
	if (info->numbers[GGUF_KEY_FULL_ATTENTION_INTERVAL].seen)
		return number(info, GGUF_KEY_FULL_ATTENTION_INTERVAL);
	if (!strcmp(info->arch, "qwen3next") || !strncmp(info->arch, "qwen35", 6))
		return 4;
	return 0;
}

static bool layer_is_recurrent(const struct gguf_info *info, uint32_t layer)
{
	uint32_t n_layers = number(info, GGUF_KEY_BLOCK_COUNT);
	uint32_t interval = attention_interval(info);

	if (info->recurrent.seen)
		return per_layer(&info->recurrent, layer);
	return interval > 1 && layer < n_layers - number(info, GGUF_KEY_NEXTN_LAYERS) &&
	       (layer + 1) % interval != 0;
}

static int check_keys(const struct gguf_info *info, pn_model_error *ret_err)
{
	const struct gguf_per_layer *lists[] = { &info->heads, &info->kv_heads, &info->recurrent };
	uint32_t n_layers;

	if (!info->arch[0])
		return model_fail(ret_err, -EINVAL, "no general.architecture");
	for (unsigned i = 0; i < GGUF_KEY_COUNT; i++) {
		if (i != GGUF_KEY_CONTEXT_LENGTH && info->numbers[i].v > PN_MODEL_MAX_DIM)
			return model_fail(ret_err, -EINVAL, "implausibly large number in a key");
	}
	n_layers = number(info, GGUF_KEY_BLOCK_COUNT);
	if (!n_layers || n_layers > PN_MODEL_MAX_LAYERS)
		return model_fail(ret_err, -EINVAL, "block_count missing, 0 or over 512");
	if (number(info, GGUF_KEY_NEXTN_LAYERS) > n_layers)
		return model_fail(ret_err, -EINVAL, "more nextn_predict_layers than layers");
	for (unsigned i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		if (lists[i]->n && lists[i]->n != n_layers)
			return model_fail(ret_err, -EINVAL,
					  "per-layer array is not block_count long");
	}
	if (!info->heads.seen && !info->kv_heads.seen)
		return model_fail(ret_err, -EINVAL, "no attention.head_count");
	if (info->numbers[GGUF_KEY_KDA_HEAD_DIM].seen)
		return model_fail(ret_err, -ENOTSUP,
				  "size of Kimi delta attention state not known");
	return 0;
}

int gguf_model(const struct gguf_info *info, pn_model *ret, pn_model_error *ret_err)
{
	const struct gguf_per_layer *kv = info->kv_heads.seen ? &info->kv_heads : &info->heads;
	uint32_t k_dim = head_dim(info, GGUF_KEY_KEY_LENGTH);
	uint32_t v_dim = head_dim(info, GGUF_KEY_VALUE_LENGTH);
	uint64_t state_bytes;
	uint32_t n_layers;
	bool hybrid = false;
	int r = check_keys(info, ret_err);

	if (r)
		return r;
	n_layers = number(info, GGUF_KEY_BLOCK_COUNT);
	for (uint32_t i = 0; i < n_layers; i++) {
		uint64_t heads = layer_is_recurrent(info, i) ? 0 : per_layer(kv, i);

		hybrid |= !heads;
		if (heads && (!k_dim || !v_dim))
			return model_fail(ret_err, -EINVAL,
					  "no key_length and no embedding_length");
		if (heads * k_dim > UINT32_MAX || heads * v_dim > UINT32_MAX)
			return model_fail(ret_err, -EINVAL, "implausibly wide attention");
	}

	memset(ret, 0, sizeof(*ret));
	memcpy(ret->arch, info->arch, sizeof(ret->arch));
	ret->n_layers = n_layers;
	ret->context_tokens = info->numbers[GGUF_KEY_CONTEXT_LENGTH].v;
	ret->input_weights_bytes = info->input_weights_bytes;
	ret->output_weights_bytes = info->output_weights_bytes;
	state_bytes = layer_state_bytes(info);
	for (uint32_t i = 0; i < PN_MODEL_MAX_LAYERS; i++) {
		uint32_t heads;

		if (i >= n_layers) {
			ret->output_weights_bytes += info->layer_weights_bytes[i];
			continue;
		}
		heads = layer_is_recurrent(info, i) ? 0 : per_layer(kv, i);
		ret->layers[i].k_elems = heads * k_dim;
		ret->layers[i].v_elems = heads * v_dim;
		/* With attention everywhere and a state, every layer has both (Falcon-H1). */
		if (!heads || !hybrid)
			ret->layers[i].state_bytes = state_bytes;
		ret->layers[i].weights_bytes = info->layer_weights_bytes[i];
	}
	return 0;
}
