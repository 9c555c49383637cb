/* SPDX-License-Identifier: BSD-2-Clause */
/* One request from its slot to its answer: the order of the calls is what there is to copy. */
#ifndef ENGINE_COMPLETION_H
#define ENGINE_COMPLETION_H

#include <stdbool.h>
#include <stdint.h>

#include "forward.h"
#include "guard.h"
#include "slots.h"
#include "weights.h"

struct engine {
	struct guard guard;
	struct slots slots;
	struct forward forward;
	struct weights weights;
	int ctx_tokens;
	unsigned queue_ms;
	bool on_dies;

	_Atomic bool loaded, stopping;
	_Atomic bool cut; /* what still runs is to end after its step */
	_Atomic uint64_t finished, shortened, refused,
		failed; /* requests; shortened also finished */
};

/* Both at least 1, their sum at most ctx_tokens. */
struct completion_request {
	int prompt_tokens;
	int max_tokens;
};

struct completion {
	int prompt_tokens; /* prefilled */
	int generated_tokens;
	int kv_rows; /* at the end */
	bool capped;
	pn_mem_level level; /* at admission */
};

/*
 * Runs it in the calling thread. Returns 0 with *ret; -EAGAIN shed, with *ret_refusal; -ENOMEM.
 * Threads: any, at the same time.
 */
int completion_run(struct engine *engine, const struct completion_request *request,
		   struct completion *ret, struct refusal *ret_refusal);

#endif
