/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loading the model: where its geometry comes from, and its weights in stages, each behind
 * admission. On the CPU path the weights stay in host memory, touched; on dies a stage is unpacked
 * into a host buffer and booked on the die (a die here is a number that stands for cuMemGetInfo).
 */
#ifndef ENGINE_WEIGHTS_H
#define ENGINE_WEIGHTS_H

#include "guard.h"
#include "pn_mem_state.h"
#include "pn_model.h"

/* Weights unpacked at a time. */
#define WEIGHTS_STAGE_BYTES ((uint64_t)16 << 20)

/* Layers of a made-up model, and its least KV: a Q4 block of 32 elements each for K and V. */
#define WEIGHTS_MADE_UP_LAYERS   8
#define WEIGHTS_KV_F32_MIN_BYTES (WEIGHTS_MADE_UP_LAYERS * 2ull * 32 * 4)

struct weights_options {
	const char *gguf_path; /* NULL: made up from the next two */
	uint64_t bytes;
	uint64_t kv_f32_bytes_per_token; /* a multiple of WEIGHTS_KV_F32_MIN_BYTES, 4 MiB at most */
	int ctx_tokens;
	int slots;
	int n_dies; /* 0: CPU path */
	uint64_t die_bytes[PN_MEM_MAX_DIES];
};

struct weights {
	bool kv_q4;
	uint64_t kv_bytes_per_token; /* in that format */
	uint64_t total_bytes;
	uint8_t **stage; /* CPU path: WEIGHTS_STAGE_BYTES each */
	size_t n_stages;
};

/*
 * Chooses the KV format, fills in guard->engine and loads. Returns 0; -EAGAIN if admission
 * refused (*ret_refusal says why); another -errno, with a reason in ret_refusal as well. End with
 * weights_free in every case.
 */
int weights_load(struct weights *weights, const struct weights_options *options,
		 struct guard *guard, struct refusal *ret_refusal);
void weights_free(struct weights *weights);

#endif
