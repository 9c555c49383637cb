/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pn_admit: the one call that an engine makes before a prefill. It reads the live snapshot, applies
 * the ladder's prefill rung and asks admission, with the description of the engine in pn_engine.
 */
#ifndef PN_ENGINE_H
#define PN_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "pn_admission.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
	PN_ADMIT_OK = 0,     /* prefill all of it */
	PN_ADMIT_CAPPED = 1, /* prefill fit_tokens at most */
	PN_ADMIT_DENIED = 2, /* do not begin; tell the queue with bs_notify_pressure */
} pn_admit_status;

/*
 * What admission must know about a loaded model. This is plain data that the engine owns. The
 * engine zeroes and fills it before the first pn_admit, does not change it during a call, and keeps
 * it until the last call has returned. Zero is a sensible value for every field: no window limit,
 * f32 KV, host only, the SPEC's costs, no log.
 */
typedef struct {
	int max_window;    /* largest prefill the operator allows, tokens; <= 0: no limit */
	bool kv_q4;        /* format in which the KV cache was allocated */
	bool gpu_resident; /* prefill runs on the dies: the host cost is nothing */
	uint32_t die_mask; /* the snapshot's dies that it uses, bit n for die n; 0: none */

	uint64_t kv_bytes_per_token; /* from its geometry; 0: the SPEC's constant of kv_q4 */
	/* Activation peaks that it measured; NULL: the default. PN_ADMIT_LUT, if set, wins. */
	const pn_admit_lut *lut;

	/*
	 * Takes one line, without a newline, each time the ladder clamps a window, but no more than
	 * one a second for each level; from the thread that called pn_admit. NULL: none.
	 */
	void (*log)(void *arg, const char *line);
	void *log_arg;

	uint64_t log_next_ns[4]; /* private, leave 0 */
} pn_engine;

/*
 * May n_tokens be prefilled now? In this order:
 *   1. pn_memwatch is not running, or its snapshot cannot be had: PN_ADMIT_OK (fail open).
 *   2. Reads the live snapshot with its extension.
 *   3. Takes kv_q4, gpu_resident and max_window from *model; the die is the one of die_mask with
 *      the fewest free bytes.
 *   4. Unless pn_ladder_disabled: rung 3 may lower max_window, and says so through log:
 *      "[ladder] TIGHT -> prefill window clamped 16384 -> 8192 (...)".
 *   5. pn_admit_request_ext decides.
 * *fit_tokens_out: tokens to prefill, n_tokens for OK, less for CAPPED, 0 for DENIED; may be NULL.
 * Threads: any, at the same time, on the same model.
 */
PN_API pn_admit_status pn_admit(pn_engine *model, int n_tokens, int *fit_tokens_out);

/*
 * The same with the whole result: the numbers and reason for an error reply, and the level for
 * bs_notify_pressure. out must not be NULL.
 */
PN_API pn_admit_status pn_admit_result_for(pn_engine *model, int n_tokens, pn_admit_result *out);

#ifdef __cplusplus
}
#endif

#endif
