/* SPDX-License-Identifier: BSD-2-Clause */
/* pn_admission.h: the pure decisions of core/admission.c with this process's settings. */
#include "core/activation.h"
#include "core/admission.h"
#include "lib/admit_settings.h"

static const struct admission_config *config(void)
{
	return &admit_settings_get()->admission;
}

void pn_admit_request(int n_prompt, bool kv_q4, bool gpu_resident, int die_id, int max_window,
		      const pn_mem_state *state, pn_admit_result *out)
{
	admission_request(config(), n_prompt, kv_q4, gpu_resident, die_id, max_window, state, NULL,
			  out);
}

void pn_admit_request_ext(int n_prompt, bool kv_q4, bool gpu_resident, int die_id, int max_window,
			  const pn_mem_state *state, const pn_mem_ext *ext, pn_admit_result *out)
{
	admission_request(config(), n_prompt, kv_q4, gpu_resident, die_id, max_window, state, ext,
			  out);
}

void pn_admit_model_load(uint64_t weights_bytes, int max_ctx, uint64_t kv_bytes_per_token,
			 uint64_t activation_bytes, int die_id, const pn_mem_state *state,
			 pn_admit_result *out)
{
	admission_model_load(config(), weights_bytes, max_ctx, kv_bytes_per_token, activation_bytes,
			     die_id, state, NULL, out);
}

void pn_admit_model_load_ext(uint64_t weights_bytes, int max_ctx, uint64_t kv_bytes_per_token,
			     uint64_t activation_bytes, int die_id, const pn_mem_state *state,
			     const pn_mem_ext *ext, pn_admit_result *out)
{
	admission_model_load(config(), weights_bytes, max_ctx, kv_bytes_per_token, activation_bytes,
			     die_id, state, ext, out);
}

void pn_admit_model_load_die(uint64_t weights_slice_bytes, uint64_t kv_slice_bytes, int die_id,
			     const pn_mem_state *state, pn_admit_result *out)
{
	admission_model_load_die(config(), weights_slice_bytes, kv_slice_bytes, die_id, state, NULL,
				 out);
}

void pn_admit_model_load_die_ext(uint64_t weights_slice_bytes, uint64_t kv_slice_bytes, int die_id,
				 const pn_mem_state *state, const pn_mem_ext *ext,
				 pn_admit_result *out)
{
	admission_model_load_die(config(), weights_slice_bytes, kv_slice_bytes, die_id, state, ext,
				 out);
}

void pn_admit_load_spike(const pn_mem_state *state, pn_admit_result *out)
{
	admission_load_spike(config(), state, NULL, out);
}

void pn_admit_load_spike_ext(const pn_mem_state *state, const pn_mem_ext *ext, pn_admit_result *out)
{
	admission_load_spike(config(), state, ext, out);
}

uint64_t pn_admit_activation_bytes(int n_tokens)
{
	return activation_peak_bytes(&config()->lut, n_tokens);
}

uint64_t pn_admit_host_cost_bytes(int n_tokens, bool kv_q4)
{
	return admission_host_cost_bytes(config(), n_tokens, kv_q4);
}
