/* SPDX-License-Identifier: BSD-2-Clause */
/* The SPEC's "Pressure levels" tables as functions, and the hold. See level.h. */
#include "core/level.h"

#include "pn_memwatch.h"

#define PSI_SOME_TIGHT_PCT       10.0
#define CGROUP_RESERVE_MAX_BYTES (1ull << 30)

const struct level_config level_config_default = {
	.host_reserve_bytes = 0,
	.psi_full_reject_pct = PN_PSI_FULL_REJECT_DEFAULT,
	.die_reserve_bytes = PN_DIE_RESERVE_BYTES_DEFAULT,
	.hold_ns = PN_LEVEL_HOLD_MS_DEFAULT * 1000000ull,
	.cgroup_level = true,
};

const char *pn_mem_level_name(pn_mem_level level)
{
	static const char *const names[] = { "OK", "WATCH", "TIGHT", "CRITICAL" };

	return (unsigned)level < 4 ? names[level] : "?";
}

/* 15 % without overflow at any total. */
static uint64_t fifteen_pct(uint64_t bytes)
{
	return bytes / 20 * 3 + bytes % 20 * 3 / 20;
}

uint64_t level_reserve_bytes(uint64_t total_bytes, uint64_t override_bytes)
{
	uint64_t share = fifteen_pct(total_bytes);

	if (override_bytes)
		return override_bytes;
	return share > PN_HOST_RESERVE_MIN_BYTES ? share : PN_HOST_RESERVE_MIN_BYTES;
}

uint64_t level_cgroup_reserve_bytes(uint64_t limit_bytes)
{
	uint64_t share = fifteen_pct(limit_bytes);

	return share < CGROUP_RESERVE_MAX_BYTES ? share : CGROUP_RESERVE_MAX_BYTES;
}

pn_mem_level level_from_bytes(uint64_t avail_bytes, uint64_t reserve_bytes)
{
	uint64_t slack;

	if (avail_bytes <= reserve_bytes)
		return PN_MEM_LEVEL_CRITICAL;
	slack = avail_bytes - reserve_bytes;
	if (slack < reserve_bytes / 4)
		return PN_MEM_LEVEL_TIGHT;
	if (slack < reserve_bytes)
		return PN_MEM_LEVEL_WATCH;
	return PN_MEM_LEVEL_OK;
}

pn_mem_level level_from_psi_some(double some_avg10_pct)
{
	if (some_avg10_pct >= PSI_SOME_TIGHT_PCT)
		return PN_MEM_LEVEL_TIGHT;
	return some_avg10_pct > 0 ? PN_MEM_LEVEL_WATCH : PN_MEM_LEVEL_OK;
}

pn_mem_level level_from_psi_full(double full_avg10_pct, double reject_pct)
{
	if (full_avg10_pct >= reject_pct)
		return PN_MEM_LEVEL_CRITICAL;
	return full_avg10_pct > 0 ? PN_MEM_LEVEL_TIGHT : PN_MEM_LEVEL_OK;
}

pn_mem_level level_from_die(uint64_t free_bytes, uint64_t budget_bytes)
{
	if (!budget_bytes)
		return PN_MEM_LEVEL_OK;
	if (!free_bytes)
		return PN_MEM_LEVEL_CRITICAL;
	if (free_bytes < budget_bytes / 16)
		return PN_MEM_LEVEL_TIGHT;
	if (free_bytes < budget_bytes / 8)
		return PN_MEM_LEVEL_WATCH;
	return PN_MEM_LEVEL_OK;
}

uint64_t level_slack_to_next_line_bytes(uint64_t avail_bytes, uint64_t reserve_bytes)
{
	/* Slack above the reserve at which each level ends, highest first. */
	const uint64_t lines[] = { reserve_bytes, reserve_bytes / 4, 0 };
	uint64_t slack;

	if (avail_bytes <= reserve_bytes)
		return UINT64_MAX;
	slack = avail_bytes - reserve_bytes;
	for (unsigned i = 0; i < 3; i++)
		if (slack >= lines[i])
			return slack - lines[i];
	return UINT64_MAX;
}

pn_mem_level level_hold_apply(struct level_hold *hold, pn_mem_level wanted, uint64_t now_ns,
			      uint64_t hold_ns)
{
	if (wanted >= hold->level) {
		hold->level = wanted;
		hold->pending = false;
		return hold->level;
	}
	if (!hold->pending) {
		hold->pending = true;
		hold->candidate = wanted;
		hold->since_ns = now_ns;
	} else if (wanted > hold->candidate) {
		hold->candidate = wanted;
	}
	if (now_ns - hold->since_ns >= hold_ns) {
		hold->level = hold->candidate;
		/* What is lower still starts to hold now: how long it did before is not kept. */
		hold->pending = wanted < hold->level;
		hold->candidate = wanted;
		hold->since_ns = now_ns;
	}
	return hold->level;
}

uint64_t level_hold_deadline_ns(const struct level_hold *hold, uint64_t hold_ns)
{
	return hold->pending ? hold->since_ns + hold_ns : UINT64_MAX;
}
