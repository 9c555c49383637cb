/* SPDX-License-Identifier: BSD-2-Clause */
/* pn_engine.h: core/engine.c with the live snapshot, this process's settings and the clock. */
#include "core/engine.h"
#include "host/clock.h"
#include "lib/admit_settings.h"
#include "lib/verdict_log.h"

#define LOG_LINE_BYTES 192

static void log_clamp(pn_engine *model, const struct engine_clamp *clamp, const pn_mem_state *state)
{
	char line[LOG_LINE_BYTES];

	if (!engine_log_due(model, state->level, clock_now_ns()))
		return;
	engine_clamp_line(clamp, state, line, sizeof(line));
	model->log(model->log_arg, line);
}

static pn_admit_status fail_open(int n_tokens, pn_admit_result *out)
{
	*out = (pn_admit_result){
		.fit_tokens = n_tokens > 0 ? n_tokens : 0,
		.die_id = -1,
		.reason = "not judged: no snapshot; is pn_memwatch_start called?",
	};
	return PN_ADMIT_OK;
}

pn_admit_status pn_admit_result_for(pn_engine *model, int n_tokens, pn_admit_result *out)
{
	const struct admit_settings *settings = admit_settings_get();
	struct engine_clamp clamp;
	pn_admit_status status;
	pn_mem_state state;
	pn_mem_ext ext;

	if (!pn_memwatch_running() || pn_memwatch_read_ext(&state, &ext) != 0)
		return fail_open(n_tokens, out);
	status = engine_decide(&settings->admission, model, n_tokens, settings->ladder_off, &state,
			       &ext, out, &clamp);
	verdict_log(TRACE_ASK_REQUEST,
		    (model->kv_q4 ? TRACE_ASK_F_KV_Q4 : 0u) |
			    (model->gpu_resident ? TRACE_ASK_F_GPU_RESIDENT : 0u),
		    n_tokens, clamp.to_tokens ? clamp.to_tokens : model->max_window, out);
	if (clamp.to_tokens && model->log)
		log_clamp(model, &clamp, &state);
	return status;
}

pn_admit_status pn_admit(pn_engine *model, int n_tokens, int *fit_tokens_out)
{
	pn_admit_result result;
	pn_admit_status status = pn_admit_result_for(model, n_tokens, &result);

	if (fit_tokens_out)
		*fit_tokens_out = result.fit_tokens;
	return status;
}
