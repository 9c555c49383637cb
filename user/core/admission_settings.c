/* SPDX-License-Identifier: BSD-2-Clause */
/* Admission's settings over their defaults; those shared with the level are settings.c's. */
#include <stdio.h>

#include "core/activation.h"
#include "core/admission.h"

static const char *value_of(settings_get_fn get, const char *name)
{
	const char *value = get(name);

	return value && *value ? value : NULL; /* an empty one counts as unset */
}

void admission_settings(struct admission_config *ret, settings_get_fn get, settings_warn_fn warn,
			void *arg)
{
	struct level_config level;
	const char *value;
	char fallback[32];

	settings_level(&level, get, warn, arg);
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

	value = value_of(get, "PN_LOAD_SPIKE_BYTES");
	if (value && settings_parse_bytes(value, &ret->load_spike_bytes) && warn) {
		snprintf(fallback, sizeof(fallback), "%llu",
			 (unsigned long long)ret->load_spike_bytes);
		warn(arg, "PN_LOAD_SPIKE_BYTES", value, fallback);
	}
	value = value_of(get, "PN_ADMIT_LUT");
	if (value) {
		ret->lut_set = activation_lut_parse(value, &ret->lut) == 0;
		if (!ret->lut_set && warn)
			warn(arg, "PN_ADMIT_LUT", value, "the built-in table");
	}
}
