/* SPDX-License-Identifier: BSD-2-Clause */
/* Merging the sources into a snapshot. See merge.h. */
#include "core/merge.h"

#include <string.h>

/* The level so far and which sources reach it. */
struct verdict {
	pn_mem_level level;
	uint32_t reasons;
};

static void verdict_add(struct verdict *v, pn_mem_level level, uint32_t reason)
{
	if (level > v->level) {
		v->level = level;
		v->reasons = reason;
	} else if (level == v->level && level != PN_MEM_LEVEL_OK) {
		v->reasons |= reason;
	}
}

static double max_double(double a, double b)
{
	return a > b ? a : b;
}

/* There is a value: a good one now, the last good one, or an estimate. */
static bool known(const pn_host_sample *sample, int src)
{
	return sample->source_ns[src] && (sample->source_state[src] == PN_SRC_OK ||
					  sample->source_state[src] == PN_SRC_STALE ||
					  sample->source_state[src] == PN_SRC_ESTIMATED);
}

/* Share of what lies above the reserve that is used, 0..1. */
static double saturation(uint64_t total_bytes, uint64_t avail_bytes, uint64_t reserve_bytes)
{
	if (avail_bytes <= reserve_bytes || total_bytes <= reserve_bytes)
		return 1;
	if (avail_bytes >= total_bytes)
		return 0;
	return (double)(total_bytes - avail_bytes) / (double)(total_bytes - reserve_bytes);
}

static void merge_host(struct verdict *v, struct trend *trend, const struct level_config *config,
		       const struct merge_input *in, pn_mem_state *state, pn_mem_ext *ext)
{
	const pn_host_sample *host = in->host;
	uint64_t reserve = level_reserve_bytes(host->total_bytes, config->host_reserve_bytes);
	uint64_t slack = 0;

	ext->saturation = 0;
	ext->exhaustion_ns = UINT64_MAX;
	ext->host_reserve_bytes = 0;
	if (known(host, PN_SRC_MEMINFO)) {
		state->host_total_bytes = host->total_bytes;
		state->host_avail_bytes = host->avail_bytes;
		ext->host_reserve_bytes = reserve;
		verdict_add(v, level_from_bytes(host->avail_bytes, reserve), PN_REASON_HOST_BYTES);
		ext->saturation = saturation(host->total_bytes, host->avail_bytes, reserve);
		if (host->avail_bytes > reserve)
			slack = host->avail_bytes - reserve;
		trend_update(trend, in->now_ns, host->avail_bytes);
		ext->exhaustion_ns = trend_exhaustion_ns(trend, slack);
	}
	if (known(host, PN_SRC_PSI)) {
		state->host_psi_some_avg10 = host->psi_some_avg10;
		state->host_psi_full_avg10 = host->psi_full_avg10;
		ext->psi_some_total_us = host->psi_some_total_us;
		ext->psi_full_total_us = host->psi_full_total_us;
		ext->live_psi_some_avg10 = in->live_some_pct;
		ext->live_psi_full_avg10 = in->live_full_pct;
		verdict_add(v,
			    level_from_psi_full(max_double(host->psi_full_avg10, in->live_full_pct),
						config->psi_full_reject_pct),
			    PN_REASON_PSI_FULL);
		verdict_add(
			v, level_from_psi_some(max_double(host->psi_some_avg10, in->live_some_pct)),
			PN_REASON_PSI_SOME);
	}
}

static void merge_cgroup(struct verdict *v, const struct level_config *config,
			 const pn_host_sample *cg, pn_mem_state *state, pn_mem_ext *ext)
{
	ext->cgroup_headroom_bytes = UINT64_MAX;
	ext->cgroup_limit_bytes = 0;
	if (known(cg, PN_SRC_CGROUP)) {
		state->cgroup_current_bytes = cg->cgroup_current_bytes;
		state->cgroup_high_bytes = cg->cgroup_high_bytes;
		state->cgroup_max_bytes = cg->cgroup_max_bytes;
		ext->cgroup_headroom_bytes = cg->cgroup_headroom_bytes;
		ext->cgroup_limit_bytes = cg->cgroup_limit_bytes;
		if (config->cgroup_level && cg->cgroup_limit_bytes) {
			uint64_t limit = cg->cgroup_limit_bytes;
			uint64_t reserve = level_cgroup_reserve_bytes(limit);

			verdict_add(v, level_from_bytes(cg->cgroup_headroom_bytes, reserve),
				    PN_REASON_CGROUP);
			ext->saturation =
				max_double(ext->saturation,
					   saturation(limit, cg->cgroup_headroom_bytes, reserve));
		}
	}
	if (known(cg, PN_SRC_CGROUP_PSI)) {
		ext->cgroup_psi_some_avg10 = cg->cgroup_psi_some_avg10;
		ext->cgroup_psi_full_avg10 = cg->cgroup_psi_full_avg10;
	}
}

/* Of all dies together: stale before ok, and ok before none that can be sampled. */
static uint8_t worse_source(uint8_t a, uint8_t b)
{
	static const uint8_t rank[] = {
		[PN_SRC_ABSENT] = 0,
		[PN_SRC_UNSUPPORTED] = 1,
		[PN_SRC_OK] = 2,
		[PN_SRC_STALE] = 3,
	};

	return rank[a] > rank[b] ? a : b;
}

/*
 * The publisher's ext is used again and again: a die that is gone must leave nothing behind. One
 * that is absent has nothing.
 */
static void clear_dies(int n_in_state, uint32_t n_more, pn_mem_ext *ext)
{
	for (int i = n_in_state; i < PN_MEM_MAX_DIES; i++) {
		if (ext->die_state[i] == PN_SRC_ABSENT)
			continue;
		ext->die_sample_ns[i] = 0;
		ext->die_state[i] = PN_SRC_ABSENT;
		memset(ext->die_uuid[i], 0, sizeof(ext->die_uuid[i]));
		memset(ext->die_pci[i], 0, sizeof(ext->die_pci[i]));
	}
	for (uint32_t i = n_more; i < ext->n_more_dies; i++)
		memset(&ext->more_die[i], 0, sizeof(ext->more_die[i]));
	ext->n_more_dies = n_more;
}

static void put_die(const struct die *die, uint8_t source_state, int i, pn_mem_state *state,
		    pn_mem_ext *ext)
{
	state->per_die_free[i] = die->free_bytes;
	state->per_die_budget[i] = die->budget_bytes;
	state->per_die_used[i] = die->used_bytes;
	ext->die_sample_ns[i] = die->sample_ns;
	ext->die_state[i] = source_state;
	memcpy(ext->die_uuid[i], die->id.uuid, sizeof(ext->die_uuid[i]));
	memcpy(ext->die_pci[i], die->id.pci, sizeof(ext->die_pci[i]));
}

static void put_more_die(const struct die *die, uint8_t source_state, pn_mem_die *ret)
{
	ret->free_bytes = die->free_bytes;
	ret->budget_bytes = die->budget_bytes;
	ret->used_bytes = die->used_bytes;
	ret->sample_ns = die->sample_ns;
	ret->state = source_state;
	memcpy(ret->uuid, die->id.uuid, sizeof(ret->uuid));
	memcpy(ret->pci, die->id.pci, sizeof(ret->pci));
}

static void merge_dies(struct verdict *v, const struct merge_input *in, pn_mem_state *state,
		       pn_mem_ext *ext)
{
	int count = in->n_dies, n_in_state = count;
	uint64_t newest_ns = 0;
	uint8_t worst = PN_SRC_ABSENT;

	if (n_in_state > PN_MEM_MAX_DIES)
		n_in_state = PN_MEM_MAX_DIES;
	clear_dies(n_in_state, (uint32_t)(count - n_in_state), ext);
	state->n_dies = n_in_state;
	for (int i = 0; i < count; i++) {
		const struct die *die = &in->dies->die[i];
		uint8_t source_state = die_source_state(die, in->now_ns);
		pn_mem_level level = level_from_die(die->free_bytes, die->budget_bytes);

		if (i < PN_MEM_MAX_DIES) {
			put_die(die, source_state, i, state, ext);
			verdict_add(v, level, (uint32_t)PN_REASON_DIE0 << i);
		} else {
			put_more_die(die, source_state, &ext->more_die[i - PN_MEM_MAX_DIES]);
			verdict_add(v, level, PN_REASON_MORE_DIES);
		}
		if (die->sample_ns > newest_ns)
			newest_ns = die->sample_ns;
		worst = worse_source(worst, source_state);
	}
	ext->source_ns[PN_SRC_DIES] = newest_ns;
	ext->source_state[PN_SRC_DIES] = worst;
}

static void merge_sources(const struct merge_input *in, pn_mem_ext *ext)
{
	for (int i = 0; i < PN_SRC_DIES; i++) {
		const pn_host_sample *from = i < PN_SRC_CGROUP ? in->host : in->cgroup;

		ext->source_ns[i] = from->source_ns[i];
		ext->source_state[i] = from->source_state[i];
		if (from->source_state[i] == PN_SRC_STALE)
			ext->reasons |= PN_REASON_STALE;
	}
	if (ext->source_state[PN_SRC_DIES] == PN_SRC_STALE)
		ext->reasons |= PN_REASON_STALE;
}

pn_mem_level merge_look(struct merge_state *carry, const struct level_config *config,
			const struct merge_input *in, pn_mem_state *ret_state, pn_mem_ext *ret_ext)
{
	struct verdict v = { PN_MEM_LEVEL_OK, 0 };
	pn_mem_level before = carry->hold.level, level;

	memset(ret_state, 0, sizeof(*ret_state));
	merge_host(&v, &carry->trend, config, in, ret_state, ret_ext);
	merge_cgroup(&v, config, in->cgroup, ret_state, ret_ext);
	merge_dies(&v, in, ret_state, ret_ext);

	level = level_hold_apply(&carry->hold, v.level, in->now_ns, config->hold_ns);
	if (level != before)
		carry->level_changes++;
	if (level != before || !carry->level_since_ns)
		carry->level_since_ns = in->now_ns;

	ret_state->level = level;
	ret_ext->reasons = level > v.level ? PN_REASON_HELD : v.reasons;
	merge_sources(in, ret_ext);
	ret_ext->wanted_level = v.level;
	ret_ext->level_changes = carry->level_changes;
	ret_ext->level_since_ns = carry->level_since_ns;
	return level;
}
