/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The header of a GGUF file: what pn_model needs of it, read through a callback, with bounded
 * work and no allocation. Opening files and finding the parts of a split model is
 * lib/model_file.c's part.
 */
#ifndef PNMEM_CORE_GGUF_H
#define PNMEM_CORE_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pn_model.h"

/* Read-ahead: the vocabulary's string lengths are walked one by one. */
#define GGUF_WINDOW_BYTES 8192

/* Where the bytes come from. */
struct gguf_source {
	/* Copies len bytes (1..GGUF_WINDOW_BYTES) at offset; 0 or -errno, never fewer bytes. */
	int (*read)(void *ctx, uint64_t offset, void *buf, size_t len);
	void *ctx;
	uint64_t size_bytes; /* of the file; read is never asked past it */
};

/* A value that files give once for all layers or as an array with one element a layer. */
struct gguf_per_layer {
	bool seen;
	uint32_t n; /* elements; 0: one value for all layers, in v[0] */
	uint32_t v[PN_MODEL_MAX_LAYERS];
};

/* A number that may be missing. */
struct gguf_number {
	bool seen;
	uint64_t v;
};

/* Keys with a plain number, in the order of gguf.c's table of names. */
enum gguf_key {
	GGUF_KEY_BLOCK_COUNT,
	GGUF_KEY_CONTEXT_LENGTH,
	GGUF_KEY_EMBEDDING_LENGTH,
	GGUF_KEY_KEY_LENGTH,
	GGUF_KEY_VALUE_LENGTH,
	GGUF_KEY_FULL_ATTENTION_INTERVAL,
	GGUF_KEY_NEXTN_LAYERS,
	GGUF_KEY_SSM_CONV_KERNEL,
	GGUF_KEY_SSM_INNER_SIZE,
	GGUF_KEY_SSM_STATE_SIZE,
	GGUF_KEY_SSM_GROUP_COUNT,
	GGUF_KEY_WKV_HEAD_SIZE,
	GGUF_KEY_SHORTCONV_L_CACHE,
	GGUF_KEY_KDA_HEAD_DIM,
	GGUF_KEY_COUNT,
};

/*
 * What one file, or the files of one split model taken in order, said. 11 KiB; starts zeroed.
 * Weights add up over the files; the split_ and tensor numbers are those of the last one.
 */
struct gguf_info {
	uint32_t version;
	uint64_t n_tensors;
	struct gguf_number split_no;
	struct gguf_number split_count;
	struct gguf_number split_tensors;

	char arch[32];
	struct gguf_number numbers[GGUF_KEY_COUNT];
	struct gguf_per_layer heads;
	struct gguf_per_layer kv_heads;
	struct gguf_per_layer recurrent; /* nonzero: linear attention */

	uint64_t input_weights_bytes;
	uint64_t output_weights_bytes;
	uint64_t layer_weights_bytes[PN_MODEL_MAX_LAYERS];
};

/*
 * Reads one header and adds it to *info. file_no counts from 1; of the second and later files of
 * a split model only the tensors and the split's own keys are looked at.
 * On failure *info is not to be used further and *ret_err says why. Errors: those of
 * pn_model_read_gguf but the file system's, and whatever source->read returns.
 */
int gguf_read(const struct gguf_source *source, unsigned file_no, struct gguf_info *info,
	      pn_model_error *ret_err);

/*
 * Makes the description out of what the files said. Returns 0; -EINVAL if a key is missing or
 * implausible; -ENOTSUP if the model has a state whose size is not known.
 */
int gguf_model(const struct gguf_info *info, pn_model *ret, pn_model_error *ret_err);

#endif
