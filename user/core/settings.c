/* SPDX-License-Identifier: BSD-2-Clause */
/* Parsing the environment's settings. See settings.h. */
#include "core/settings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define HOLD_MAX_MS 60000

int settings_parse_bytes(const char *text, uint64_t *ret_bytes)
{
	static const char units[] = "KMGT";
	uint64_t value = 0;
	const char *p = text, *unit;

	if (*p < '0' || *p > '9')
		return -EINVAL;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
			return -ERANGE;
	if (*p) {
		unit = strchr(units, *p);
		if (!unit || p[1])
			return -EINVAL;
		if (__builtin_mul_overflow(value, 1ull << (10 * (unit - units + 1)), &value))
			return -ERANGE;
	}
	*ret_bytes = value;
	return 0;
}

int settings_parse_decimal(const char *text, double *ret_value)
{
	double value = 0, scale = 1;
	int digits = 0;
	const char *p = text;

	for (; *p >= '0' && *p <= '9'; p++, digits++)
		value = value * 10 + (*p - '0');
	if (*p == '.')
		for (p++; *p >= '0' && *p <= '9'; p++, digits++)
			value += (*p - '0') * (scale /= 10);
	if (*p || !digits || digits > 15)
		return -EINVAL;
	*ret_value = value;
	return 0;
}

struct reader {
	settings_get_fn get;
	void *get_arg;
	settings_warn_fn warn;
	void *warn_arg;
};

const char *settings_value(settings_get_fn get, void *get_arg, const char *name)
{
	const char *value = get ? get(get_arg, name) : NULL;

	return value && *value ? value : NULL;
}

static const char *set_value(const struct reader *r, const char *name)
{
	return settings_value(r->get, r->get_arg, name);
}

static void bad(const struct reader *r, const char *name, const char *value, const char *fallback)
{
	if (r->warn)
		r->warn(r->warn_arg, name, value, fallback);
}

static void read_bytes(const struct reader *r, const char *name, uint64_t max, uint64_t *value,
		       const char *fallback)
{
	const char *text = set_value(r, name);
	uint64_t parsed;

	if (!text)
		return;
	if (settings_parse_bytes(text, &parsed) || parsed > max)
		bad(r, name, text, fallback);
	else
		*value = parsed;
}

void settings_level(struct level_config *ret, settings_get_fn get, void *get_arg,
		    settings_warn_fn warn, void *warn_arg)
{
	struct reader r = { get, get_arg, warn, warn_arg };
	struct level_config config = level_config_default;
	uint64_t hold_ms = config.hold_ns / 1000000, cgroup_level = config.cgroup_level;
	const char *text;
	char fallback[32];
	double pct;

	read_bytes(&r, "PN_HOST_RESERVE_BYTES", UINT64_MAX, &config.host_reserve_bytes,
		   "max(1 GiB, 15 %)");
	snprintf(fallback, sizeof(fallback), "%llu", (unsigned long long)config.die_reserve_bytes);
	read_bytes(&r, "PN_DIE_RESERVE_BYTES", UINT64_MAX, &config.die_reserve_bytes, fallback);
	snprintf(fallback, sizeof(fallback), "%llu", (unsigned long long)hold_ms);
	read_bytes(&r, "PN_LEVEL_HOLD_MS", HOLD_MAX_MS, &hold_ms, fallback);
	config.hold_ns = hold_ms * 1000000;
	read_bytes(&r, "PN_CGROUP_LEVEL", 1, &cgroup_level, "1");
	config.cgroup_level = cgroup_level;

	text = set_value(&r, "PN_PSI_FULL_REJECT");
	if (text) {
		snprintf(fallback, sizeof(fallback), "%g", config.psi_full_reject_pct);
		if (settings_parse_decimal(text, &pct) || !(pct > 0) || pct > 100)
			bad(&r, "PN_PSI_FULL_REJECT", text, fallback);
		else
			config.psi_full_reject_pct = pct;
	}
	*ret = config;
}

enum die_source settings_die_source(settings_get_fn get, void *get_arg, settings_warn_fn warn,
				    void *warn_arg)
{
	static const char *const names[] = { "auto", "cuda", "push", "off" };
	struct reader r = { get, get_arg, warn, warn_arg };
	const char *text = set_value(&r, "PN_DIE_SOURCE");

	if (!text)
		return DIE_SOURCE_AUTO;
	for (int i = DIE_SOURCE_AUTO; i <= DIE_SOURCE_OFF; i++)
		if (!strcmp(text, names[i]))
			return (enum die_source)i;
	bad(&r, "PN_DIE_SOURCE", text, "auto");
	return DIE_SOURCE_AUTO;
}
