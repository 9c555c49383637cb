/* SPDX-License-Identifier: BSD-2-Clause */
/* pn_admission.h: the pure decisions of core/admission.c with this process's settings. */
#include "core/activation.h"
#include "core/admission.h"
#include "lib/admit_settings.h"
#include "lib/verdict_log.h"

static const struct admission_config *config(void)
{
	return &admit_settings_get()->admission;
}

static uint32_t request_flags(bool kv_q4, bool gpu_resident)
{
	return (kv_q4 ? TRACE_ASK_F_KV_Q4 : 0u) | (gpu_resident ? TRACE_ASK_F_GPU_RESIDENT : 0u);
}

void pn_admit_request(int n_prompt, bool kv_q4, bool gpu_resident, int die_id, int max_window,
		      const pn_mem_state *state, pn_admit_result *out)
{
	pn_admit_request_ext(n_prompt, kv_q4, gpu_resident, die_id, max_window, state, NULL, out);
}

void pn_admit_request_ext(int n_prompt, bool kv_q4, bool gpu_resident, int die_id, int max_window,
			  const pn_mem_state *state, const pn_mem_ext *ext, pn_admit_result *out)
{
	admission_request(config(), n_prompt, kv_q4, gpu_resident, die_id, max_window, state, ext,
			  out);
	verdict_log(TRACE_ASK_REQUEST, request_flags(kv_q4, gpu_resident), n_prompt, max_window,
		    out);
}

void pn_admit_model_load(uint64_t weights_bytes, int max_ctx, uint64_t kv_bytes_per_token,
			 uint64_t activation_bytes, int die_id, const pn_mem_state *state,
			 pn_admit_result *out)
{
	admission_model_load(config(), weights_bytes, max_ctx, kv_bytes_per_token, activation_bytes,
			     die_id, state, NULL, out);
	verdict_log(TRACE_ASK_LOAD, 0, max_ctx, 0, out);
}

void pn_admit_model_load_ext(uint64_t weights_bytes, int max_ctx, uint64_t kv_bytes_per_token,
			     uint64_t activation_bytes, int die_id, const pn_mem_state *state,
			     const pn_mem_ext *ext, pn_admit_result *out)
{
	admission_model_load(config(), weights_bytes, max_ctx, kv_bytes_per_token, activation_bytes,
			     die_id, state, ext, out);
	verdict_log(TRACE_ASK_LOAD, 0, max_ctx, 0, out);
}

void pn_admit_model_load_die(uint64_t weights_slice_bytes, uint64_t kv_slice_bytes, int die_id,
			     const pn_mem_state *state, pn_admit_result *out)
{
	admission_model_load_die(config(), weights_slice_bytes, kv_slice_bytes, die_id, state, NULL,
				 out);
	verdict_log(TRACE_ASK_LOAD_DIE, 0, 0, 0, out);
}

void pn_admit_model_load_die_ext(uint64_t weights_slice_bytes, uint64_t kv_slice_bytes, int die_id,
				 const pn_mem_state *state, const pn_mem_ext *ext,
				 pn_admit_result *out)
{
	admission_model_load_die(config(), weights_slice_bytes, kv_slice_bytes, die_id, state, ext,
				 out);
	verdict_log(TRACE_ASK_LOAD_DIE, 0, 0, 0, out);
}

void pn_admit_load_spike(const pn_mem_state *state, pn_admit_result *out)
{
	pn_admit_load_spike_ext(state, NULL, out);
}

void pn_admit_load_spike_ext(const pn_mem_state *state, const pn_mem_ext *ext, pn_admit_result *out)
{
	admission_load_spike(config(), state, ext, out);
	verdict_log(TRACE_ASK_SPIKE, 0, 0, 0, out);
}

uint64_t pn_admit_activation_bytes(int n_tokens)
{
	return activation_peak_bytes(&config()->lut, n_tokens);
}

uint64_t pn_admit_host_cost_bytes(int n_tokens, bool kv_q4)
{
	return admission_host_cost_bytes(config(), n_tokens, kv_q4);
}
