/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every question that this engine asks pnmem about memory, one function per call site of the
 * SPEC's tables. Off (--no-guard), none of them calls pnmem and all answer "go ahead, as
 * configured". Slots and the queue are slots.h, the GPU turn is forward.h.
 */
#ifndef ENGINE_GUARD_H
#define ENGINE_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "pn_engine.h"
#include "pn_ladder.h"
#include "pn_model.h"

struct guard {
	bool on;
	pn_ladder_config configured; /* what the operator asked for */
	pn_engine engine;            /* what admission must know of the model */
};

/* Why something was not begun. */
struct refusal {
	uint32_t retry_after_ms; /* 0: waiting does not help */
	int level;               /* pn_mem_level at that moment */
	char reason[320];
};

struct admission {
	int fit_tokens;
	bool capped;
	pn_mem_level level;
};

/* Starts the watch if on. Returns 0 or -errno. End with guard_stop, after all other calls. */
int guard_start(struct guard *guard);
void guard_stop(struct guard *guard);

/* "not guarded", or where the snapshots come from at this moment. */
const char *guard_name(const struct guard *guard);

/* Rung 4a, asked once, where the KV cache's format is chosen. */
bool guard_kv_q4(const struct guard *guard);

/* Rung 4b, asked before each decode step. */
bool guard_kv_evict(const struct guard *guard);

/* Rung 2: decode slots for a level. */
int guard_slot_ceiling(const struct guard *guard, pn_mem_level level);

/* The level now; OK if off or unknown. */
pn_mem_level guard_level(const struct guard *guard);

/* The memory of a die at this moment, from the engine's cuMemGetInfo. */
void guard_die_sampled(const struct guard *guard, int die, uint64_t total_bytes,
		       uint64_t free_bytes);

/*
 * Before a load: keeps bytes of a die, or of the host with die -1, from being promised to another
 * engine meanwhile. *ret_hold is for guard_let_go, 0 if nothing had to be held. False: they are not
 * there, *ret_refusal says why.
 */
bool guard_hold(const struct guard *guard, int die, uint64_t bytes, uint64_t *ret_hold,
		struct refusal *ret_refusal);

/* After it: they have been taken and touched, or are not needed. */
void guard_let_go(const struct guard *guard, uint64_t hold, bool taken);

/* May this slice be uploaded to this die? False: *ret_refusal says why. */
bool guard_load_die(const struct guard *guard, int die, const pn_model_slice *slice,
		    struct refusal *ret_refusal);

/* May the next stage of the weights be unpacked? False: *ret_refusal says why. */
bool guard_load_stage(const struct guard *guard, struct refusal *ret_refusal);

/*
 * May n_tokens be prefilled now? True with *ret, or false with *ret_refusal. The caller holds
 * the prefill turn from this question until what it allocates has been touched and
 * guard_memory_taken told, so that no two requests are promised the same bytes.
 */
bool guard_admit(struct guard *guard, int n_tokens, struct admission *ret,
		 struct refusal *ret_refusal);

/* Much memory has just been touched: the next admission must see it. */
void guard_memory_taken(const struct guard *guard);

#endif
