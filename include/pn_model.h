/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a model costs in memory, before it is loaded: weights, KV cache per token, linear-attention
 * state per sequence, and how these fall on several dies. A description comes from a GGUF file's
 * header (pn_model_read_gguf) or from the few numbers of its geometry (pn_model_from_geometry).
 *
 * Whether it fits is pn_admission.h's question; scratch and activations are in that cost model too.
 *
 * Figures are exact for plain multi-head, grouped-query and hybrid (linear-attention) models and
 * upper bounds otherwise: sliding-window layers are counted at full context, layers that share
 * another's cache as if they had their own, latent attention (MLA) with a V cache that newer
 * engines leave out, and next-token-prediction layers as layers that run.
 *
 * Every function here may be called from any thread; none keeps a pointer.
 */
#ifndef PN_MODEL_H
#define PN_MODEL_H

#include <stdint.h>

#include "pn_memwatch.h" /* PN_API */

#ifdef __cplusplus
extern "C" {
#endif

/* Layers that fit in pn_model: llama.cpp's LLAMA_MAX_LAYERS; published models have up to 160. */
#define PN_MODEL_MAX_LAYERS 512

/* Largest single dimension or head count believed; four times the widest published FFN. */
#define PN_MODEL_MAX_DIM (1u << 20)

/* Element type of a KV cache. Bytes per element as in ggml: 4, 2, 34/32, 18/32. */
typedef enum {
	PN_KV_F32 = 0,
	PN_KV_F16 = 1,
	PN_KV_Q8_0 = 2,
	PN_KV_Q4_0 = 3,
} pn_kv_type;

typedef struct {
	uint32_t k_elems;       /* per token: KV heads x key head dim; 0: no attention here */
	uint32_t v_elems;       /* per token: KV heads x value head dim */
	uint64_t state_bytes;   /* per sequence: linear-attention state, f32 */
	uint64_t weights_bytes; /* the layer's tensors, without padding between them */
} pn_model_layer;

/* A model; 12 KiB, plain data. */
typedef struct {
	char arch[32];                 /* "qwen35moe"; empty if it came from a geometry */
	uint32_t n_layers;             /* 1..PN_MODEL_MAX_LAYERS */
	uint64_t context_tokens;       /* what it was trained for; 0: unknown */
	uint64_t input_weights_bytes;  /* token embeddings */
	uint64_t output_weights_bytes; /* what belongs to no layer and is no embedding */
	pn_model_layer layers[PN_MODEL_MAX_LAYERS];
} pn_model;

/* A model with equal layers, for when there is no file. */
typedef struct {
	uint32_t n_layers;
	uint32_t attention_interval; /* every Nth layer has attention; 0 or 1: all */
	uint32_t n_kv_heads;
	uint32_t k_dim;           /* elements of a key head */
	uint32_t v_dim;           /* elements of a value head */
	uint32_t ssm_conv_kernel; /* linear attention, in the layers without attention; */
	uint32_t ssm_inner_size;  /* value heads x value head dim; all 0 if there is none */
	uint32_t ssm_state_size;  /* key head dim */
	uint32_t ssm_n_groups;    /* key heads */
	uint64_t weights_bytes;   /* spread evenly over the layers */
} pn_model_geometry;

/*
 * The part of a model that one die holds. The layers are first_layer .. first_layer + n_layers - 1.
 */
typedef struct {
	uint32_t first_layer;
	uint32_t n_layers;      /* may be 0 */
	uint64_t weights_bytes; /* with the embeddings or output tensors that go with the slice */
	uint64_t kv_bytes;      /* for the whole context */
	uint64_t state_bytes;   /* for all sequences */
} pn_model_slice;

/* Why a file could not be read. what is a static string, never NULL after a failure. */
typedef struct {
	int err;               /* the -errno that was returned */
	const char *what;      /* "file ends inside its header" */
	uint64_t offset_bytes; /* in the file, where it was noticed */
	unsigned file_no;      /* of a split model, from 1 */
} pn_model_error;

/*
 * Reads a GGUF header (versions 2 and 3, little endian). path may be any file of a split model
 * (NAME-00001-of-000NN.gguf): all of them are read. Tensor data is not touched; a file shorter
 * than its tensors is an error. Reads a few MiB (the vocabulary is in the header) by pread, and
 * allocates some 12 KiB. *ret_err, which may be NULL, is written only on failure.
 * Returns 0; -ENOENT and other errors of open and pread; -EINVAL not a regular file or a key
 * that is missing or implausible; -EBADMSG malformed; -ENODATA truncated; -EFBIG past a limit;
 * -EEXIST a key given twice; -ENOTSUP version, byte order, or a tensor or state type that is not
 * known and whose size cannot be derived; -ENOMEM.
 */
PN_API int pn_model_read_gguf(const char *path, pn_model *ret, pn_model_error *ret_err);

/*
 * Describes a model by its geometry. Returns 0 or -EINVAL (no layers or more than
 * PN_MODEL_MAX_LAYERS, a number above PN_MODEL_MAX_DIM).
 */
PN_API int pn_model_from_geometry(const pn_model_geometry *geometry, pn_model *ret);

/*
 * Linear-attention state of one layer and sequence in bytes, f32: the last conv_kernel - 1 inputs
 * of the convolution and the state matrix. Mamba 1 (n_groups 0), Mamba 2 and gated delta nets
 * have the same form (llama.cpp, llama_hparams::n_embd_r and n_embd_s). Arguments up to
 * PN_MODEL_MAX_DIM; UINT64_MAX if one is larger.
 */
PN_API uint64_t pn_model_ssm_state_bytes(uint32_t conv_kernel, uint32_t inner_size,
					 uint32_t state_size, uint32_t n_groups);

/*
 * Bytes of KV cache per token: over the layers, K and V elements in whole blocks of the type.
 * UINT64_MAX for an unknown type. Prefer this function to the fixed constants of
 * pn_admission.h (5898 there is 2.4 % above the 5760 of the model that it was taken from).
 */
PN_API uint64_t pn_model_kv_bytes_per_token(const pn_model *model, pn_kv_type type);

/* KV cache of n_tokens; saturates at UINT64_MAX, so that an absurd request never looks small. */
PN_API uint64_t pn_model_kv_bytes(const pn_model *model, pn_kv_type type, uint64_t n_tokens);

/* Linear-attention state per sequence, bytes; 0 if the model has none. Saturates. */
PN_API uint64_t pn_model_state_bytes(const pn_model *model);

/* All weights, bytes. Saturates. */
PN_API uint64_t pn_model_weights_bytes(const pn_model *model);

/*
 * Parses "f32", "f16", "q8_0" or "q8", "q4_0" or "q4" into *ret. Returns 0 or -EINVAL.
 */
PN_API int pn_kv_type_parse(const char *name, pn_kv_type *ret);

/*
 * Lays the model over n_dies (1..PN_MEM_MAX_DIES) in contiguous layer ranges, each die's share of
 * all bytes (weights, KV of n_tokens, state of n_sequences) in proportion to
 * die_free_bytes[0..n_dies-1], or even if that is NULL. A die with 0 free gets nothing. The
 * embeddings come before the first layer, the output tensors after the last. The slices sum
 * exactly to the whole; ret[] has n_dies entries. A slice feeds pn_admit_model_load_die with
 * weights_bytes and kv_bytes + state_bytes: this function does not check whether a slice fits,
 * and pn_admit_model_load_die does.
 * Returns 0; -EINVAL for n_dies, type or a model without layers; -ENOSPC if no die has any byte
 * free; -EOVERFLOW if the whole or the free bytes exceed 4 EiB.
 */
PN_API int pn_model_split(const pn_model *model, pn_kv_type type, uint64_t n_tokens,
			  uint32_t n_sequences, const uint64_t *die_free_bytes, unsigned n_dies,
			  pn_model_slice *ret);

#ifdef __cplusplus
}
#endif

#endif
