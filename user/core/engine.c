/* SPDX-License-Identifier: BSD-2-Clause */
/* The SPEC's "Engine-level wrapper". See engine.h. */
#include "core/engine.h"

#include <stdio.h>

#include "pn_ladder.h"

#define LOG_PERIOD_NS 1000000000ull

int engine_worst_die(uint32_t die_mask, const pn_mem_state *state)
{
	int worst = -1;

	for (int die = 0; die < PN_MEM_MAX_DIES; die++)
		if ((die_mask >> die & 1) && admission_die_known(state, die) &&
		    (worst < 0 || state->per_die_free[die] < state->per_die_free[worst]))
			worst = die;
	return worst;
}

/* Rung 3: the window that is left of max_window. */
static int clamp_window(int max_window, pn_mem_level level, struct engine_clamp *ret_clamp)
{
	pn_ladder_config operator_config = { .prefill_window = max_window };
	pn_ladder_plan plan = pn_ladder_plan_for(level, &operator_config);

	if (plan.prefill_window <= 0 || plan.prefill_window >= max_window)
		return max_window;
	*ret_clamp = (struct engine_clamp){ max_window, plan.prefill_window };
	return plan.prefill_window;
}

pn_admit_status engine_decide(const struct admission_config *config, const pn_engine *model,
			      int n_tokens, bool ladder_off, const pn_mem_state *state,
			      const pn_mem_ext *ext, pn_admit_result *out,
			      struct engine_clamp *ret_clamp)
{
	struct admission_config own;
	int max_window = model->max_window;

	*ret_clamp = (struct engine_clamp){ 0, 0 };
	if (!ladder_off)
		max_window = clamp_window(max_window, state->level, ret_clamp);

	if (model->kv_bytes_per_token || (model->lut && !config->lut_set)) {
		own = *config;
		if (model->kv_bytes_per_token)
			own.kv_q4_bytes_per_token = own.kv_fp32_bytes_per_token =
				model->kv_bytes_per_token;
		if (model->lut && !config->lut_set)
			own.lut = *model->lut;
		config = &own;
	}
	admission_request(config, n_tokens, model->kv_q4, model->gpu_resident,
			  engine_worst_die(model->die_mask, state), max_window, state, ext, out);
	switch (out->verdict) {
	case PN_VERDICT_ADMIT:
		return PN_ADMIT_OK;
	case PN_VERDICT_CAP:
		return PN_ADMIT_CAPPED;
	default:
		return PN_ADMIT_DENIED;
	}
}

bool engine_log_due(pn_engine *model, pn_mem_level level, uint64_t now_ns)
{
	uint64_t *next_ns = &model->log_next_ns[(unsigned)level % 4];
	uint64_t next = __atomic_load_n(next_ns, __ATOMIC_RELAXED);

	return now_ns >= next &&
	       __atomic_compare_exchange_n(next_ns, &next, now_ns + LOG_PERIOD_NS, false,
					   __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void engine_clamp_line(const struct engine_clamp *clamp, const pn_mem_state *state, char *buf,
		       size_t buf_bytes)
{
	snprintf(buf, buf_bytes,
		 "[ladder] %s -> prefill window clamped %d -> %d (host %s available, PSI some %.2f "
		 "%% full %.2f %%)",
		 pn_mem_level_name(state->level), clamp->from_tokens, clamp->to_tokens,
		 admission_bytes_text(state->host_avail_bytes).text, state->host_psi_some_avg10,
		 state->host_psi_full_avg10);
}
