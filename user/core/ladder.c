/* SPDX-License-Identifier: BSD-2-Clause */
/* The SPEC's "Reactive degradation ladder". See pn_ladder.h. */
#include "pn_ladder.h"

#include <string.h>

static const char *const notes[] = {
	[PN_MEM_LEVEL_OK] = "as configured",
	[PN_MEM_LEVEL_WATCH] = "Q4 for new KV caches",
	[PN_MEM_LEVEL_TIGHT] = "Q4 KV, half the slots, half the prefill window, KV eviction",
	[PN_MEM_LEVEL_CRITICAL] = "Q4 KV, one slot, a quarter of the prefill window, KV eviction",
};

/* Values below 2 cannot be reduced: 1 is the least, and 0 and below mean no ceiling at all. */
static int divided(int configured, int divisor)
{
	if (configured < 2)
		return configured;
	return configured / divisor > 1 ? configured / divisor : 1;
}

pn_ladder_plan pn_ladder_plan_for(pn_mem_level level, const pn_ladder_config *cfg)
{
	int at = (int)level; /* the enum may be unsigned */
	pn_ladder_plan plan;

	if (at < PN_MEM_LEVEL_OK)
		at = PN_MEM_LEVEL_OK;
	if (at > PN_MEM_LEVEL_CRITICAL)
		at = PN_MEM_LEVEL_CRITICAL;

	memset(&plan, 0, sizeof(plan));
	plan.level = (pn_mem_level)at;
	plan.max_slots = cfg->max_slots;
	plan.prefill_window = cfg->prefill_window;
	plan.force_kv_q4 = cfg->kv_q4 || at >= PN_LADDER_KV_Q4_LEVEL;
	plan.kv_evict = cfg->kv_evict || at >= PN_LADDER_KV_EVICT_LEVEL;
	plan.note = notes[at];

	if (at >= PN_MEM_LEVEL_CRITICAL) {
		if (cfg->max_slots > PN_LADDER_SLOTS_CRITICAL)
			plan.max_slots = PN_LADDER_SLOTS_CRITICAL;
		plan.prefill_window = divided(cfg->prefill_window, PN_LADDER_PREFILL_DIV_CRITICAL);
	} else {
		if (at >= PN_LADDER_SLOTS_LEVEL)
			plan.max_slots = divided(cfg->max_slots, PN_LADDER_SLOTS_DIV_TIGHT);
		if (at >= PN_LADDER_PREFILL_LEVEL)
			plan.prefill_window =
				divided(cfg->prefill_window, PN_LADDER_PREFILL_DIV_TIGHT);
	}
	plan.degraded = plan.max_slots != cfg->max_slots ||
			plan.prefill_window != cfg->prefill_window ||
			plan.force_kv_q4 != cfg->kv_q4 || plan.kv_evict != cfg->kv_evict;
	return plan;
}

pn_ladder_plan pn_ladder_plan_from_state(const pn_mem_state *state, const pn_ladder_config *cfg)
{
	return pn_ladder_plan_for(state->level, cfg);
}
