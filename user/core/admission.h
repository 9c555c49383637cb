/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Admission decisions with their settings as an argument: what pn_admission.h documents, pure.
 * Where the settings of a process come from is user/lib's business.
 */
#ifndef PNMEM_CORE_ADMISSION_H
#define PNMEM_CORE_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/settings.h"
#include "pn_admission.h"

struct admission_config {
	uint64_t host_reserve_bytes; /* 0: the rule, max(1 GiB, 15 % of MemTotal) */
	uint64_t die_reserve_bytes;
	uint64_t load_spike_bytes;
	uint64_t kv_q4_bytes_per_token;
	uint64_t kv_fp32_bytes_per_token;
	double psi_full_reject_pct;
	bool cgroup;  /* count the cgroup's headroom where an extension is given */
	bool lut_set; /* the operator gave the table: an engine's own does not replace it */
	pn_admit_lut lut;
};

/*
 * Fills *ret from the variables that pn_admission.h names, over the defaults. The functions
 * are called as settings_level calls them; each may be NULL.
 */
void admission_settings(struct admission_config *ret, settings_get_fn get, void *get_arg,
			settings_warn_fn warn, void *warn_arg);

/* KV bytes * n_tokens + activation peak; 0 for n_tokens <= 0, saturates at UINT64_MAX. */
uint64_t admission_host_cost_bytes(const struct admission_config *config, int n_tokens, bool kv_q4);

/* As pn_admit_request_ext. */
void admission_request(const struct admission_config *config, int n_prompt, bool kv_q4,
		       bool gpu_resident, int die_id, int max_window, const pn_mem_state *state,
		       const pn_mem_ext *ext, pn_admit_result *out);

/* As pn_admit_model_load_ext. */
void admission_model_load(const struct admission_config *config, uint64_t weights_bytes,
			  int max_ctx, uint64_t kv_bytes_per_token, uint64_t activation_bytes,
			  int die_id, const pn_mem_state *state, const pn_mem_ext *ext,
			  pn_admit_result *out);

/* As pn_admit_model_load_die_ext. */
void admission_model_load_die(const struct admission_config *config, uint64_t weights_slice_bytes,
			      uint64_t kv_slice_bytes, int die_id, const pn_mem_state *state,
			      const pn_mem_ext *ext, pn_admit_result *out);

/* As pn_admit_load_spike_ext. */
void admission_load_spike(const struct admission_config *config, const pn_mem_state *state,
			  const pn_mem_ext *ext, pn_admit_result *out);

/*
 * Bytes of the host that may be taken: above the reserve, within the cgroup's limit where *ext has
 * one, less what *ext says is reserved. ext may be NULL.
 */
uint64_t admission_host_room_bytes(const struct admission_config *config, const pn_mem_state *state,
				   const pn_mem_ext *ext);

/* True if the snapshot knows this die: n_dies and die_id are data, not to be trusted. */
bool admission_die_known(const pn_mem_state *state, int die_id);

/* "1.25 GiB" or "312.0 MiB", for people. */
struct admission_text {
	char text[32];
};
struct admission_text admission_bytes_text(uint64_t bytes);

#endif
