/* SPDX-License-Identifier: BSD-2-Clause */
/* Admission's settings over their defaults; those shared with the level are settings.c's. */
#include <stdio.h>

#include "core/activation.h"
#include "core/admission.h"

void admission_settings(struct admission_config *ret, settings_get_fn get, void *get_arg,
			settings_warn_fn warn, void *warn_arg)
{
	struct level_config level;
	const char *value;
	char fallback[32];

	settings_level(&level, get, get_arg, warn, warn_arg);
	*ret = (struct admission_config){
		.host_reserve_bytes = level.host_reserve_bytes,
		.die_reserve_bytes = level.die_reserve_bytes,
		.load_spike_bytes = PN_ADMIT_LOAD_SPIKE_BYTES_DEFAULT,
		.kv_q4_bytes_per_token = PN_ADMIT_KV_BYTES_PER_TOKEN_Q4,
		.kv_fp32_bytes_per_token = PN_ADMIT_KV_BYTES_PER_TOKEN_FP32,
		.psi_full_reject_pct = level.psi_full_reject_pct,
		.cgroup = level.cgroup_level,
		.lut = activation_lut_default,
	};

	value = settings_value(get, get_arg, "PN_LOAD_SPIKE_BYTES");
	if (value && settings_parse_bytes(value, &ret->load_spike_bytes) && warn) {
		snprintf(fallback, sizeof(fallback), "%llu",
			 (unsigned long long)ret->load_spike_bytes);
		warn(warn_arg, "PN_LOAD_SPIKE_BYTES", value, fallback);
	}
	value = settings_value(get, get_arg, "PN_ADMIT_LUT");
	if (value) {
		ret->lut_set = activation_lut_parse(value, &ret->lut) == 0;
		if (!ret->lut_set && warn)
			warn(warn_arg, "PN_ADMIT_LUT", value, "the built-in table");
	}
}
