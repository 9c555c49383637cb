/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ladder takes a pressure level and the operator's configuration, and says which values an
 * engine should run with now. It only plans: it returns absolute values, and the caller applies
 * them.
 *
 *   rung  what                engages at   effect
 *   4a    force Q4 KV         WATCH        force_kv_q4 (acts when a KV cache is allocated)
 *   2     shrink concurrency  TIGHT        max_slots = configured / 2; CRITICAL: 1
 *   3     clamp prefill       TIGHT        prefill_window = configured / 2; CRITICAL: / 4
 *   4b    KV eviction         TIGHT        kv_evict (a policy flag)
 *
 * Rungs only ever reduce, and a higher level never relaxes what a lower one engaged; a halved 1
 * stays 1, because 0 would mean "no clamp". At OK the plan is the configuration, unchanged.
 */
#ifndef PN_LADDER_H
#define PN_LADDER_H

#include <stdbool.h>

#include "pn_mem_state.h"
#include "pn_memwatch.h" /* PN_API */

#ifdef __cplusplus
extern "C" {
#endif

/* Levels at which the rungs engage, and their divisors. */
#define PN_LADDER_KV_Q4_LEVEL          PN_MEM_LEVEL_WATCH
#define PN_LADDER_SLOTS_LEVEL          PN_MEM_LEVEL_TIGHT
#define PN_LADDER_PREFILL_LEVEL        PN_MEM_LEVEL_TIGHT
#define PN_LADDER_KV_EVICT_LEVEL       PN_MEM_LEVEL_TIGHT
#define PN_LADDER_SLOTS_DIV_TIGHT      2
#define PN_LADDER_SLOTS_CRITICAL       1
#define PN_LADDER_PREFILL_DIV_TIGHT    2
#define PN_LADDER_PREFILL_DIV_CRITICAL 4

/* What the operator configured. Values below 1 are passed through: there is nothing to reduce. */
typedef struct {
	int max_slots;
	int prefill_window; /* tokens; 0: no clamp */
	bool kv_q4;         /* Q4 KV anyway */
	bool kv_evict;      /* KV eviction anyway */
} pn_ladder_config;

typedef struct {
	pn_mem_level level;
	int max_slots;      /* rung 2: effective concurrency ceiling (>= 1 if configured so) */
	bool force_kv_q4;   /* rung 4a */
	bool kv_evict;      /* rung 4b */
	int prefill_window; /* rung 3: max prefill tokens (0 = no clamp) */
	bool degraded;      /* some rung reduced a configured value */
	const char *note;   /* one line on what is engaged, static, never NULL */
} pn_ladder_plan;

/*
 * The plan for a level; a level outside the enum counts as the nearest. Unused bytes of the plan
 * are 0. No I/O, no allocation, any thread. cfg must not be NULL.
 */
PN_API pn_ladder_plan pn_ladder_plan_for(pn_mem_level level, const pn_ladder_config *cfg);

/* The same for the level of a snapshot. */
PN_API pn_ladder_plan pn_ladder_plan_from_state(const pn_mem_state *state,
						const pn_ladder_config *cfg);

/*
 * True if the operator switched the ladder off: PN_LADDER_DISABLE set to anything but "" or "0".
 * Read once, with the settings of pn_admission.h and like them.
 * The planners above do not look at it: a caller that applies plans asks first (pn_admit does).
 */
PN_API bool pn_ladder_disabled(void);

#ifdef __cplusplus
}
#endif

#endif
