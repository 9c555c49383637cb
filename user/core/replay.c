/* SPDX-License-Identifier: BSD-2-Clause */
/* Levels of a trace with other settings. See replay.h. */
#include "core/replay.h"

#include <string.h>

#include "core/u64.h"

void replay_recorded(const struct trace_config *config, struct level_config *ret)
{
	*ret = (struct level_config){
		.host_reserve_bytes = config->host_reserve_bytes,
		.psi_full_reject_pct = config->psi_full_reject_pct,
		.die_reserve_bytes = config->die_reserve_bytes,
		.hold_ns = config->hold_ns,
		.cgroup_level = config->cgroup_level,
	};
}

void replay_policy_apply(struct replay_policy *policy, const struct level_config *settings)
{
	policy->with = policy->recorded;
	if (policy->given & REPLAY_HOST_RESERVE)
		policy->with.host_reserve_bytes = settings->host_reserve_bytes;
	if (policy->given & REPLAY_DIE_RESERVE)
		policy->with.die_reserve_bytes = settings->die_reserve_bytes;
	if (policy->given & REPLAY_PSI_FULL_REJECT)
		policy->with.psi_full_reject_pct = settings->psi_full_reject_pct;
	if (policy->given & REPLAY_LEVEL_HOLD)
		policy->with.hold_ns = settings->hold_ns;
	if (policy->given & REPLAY_CGROUP_LEVEL)
		policy->with.cgroup_level = settings->cgroup_level;
}

/* A budget is the die's memory less the reserve at the time of its sample. */
static uint64_t budget_with(const struct replay_policy *policy, uint64_t budget_bytes)
{
	if (!budget_bytes || policy->with.die_reserve_bytes == policy->recorded.die_reserve_bytes)
		return budget_bytes;
	return die_budget_bytes(u64_add(budget_bytes, policy->recorded.die_reserve_bytes),
				policy->with.die_reserve_bytes);
}

void replay_die(struct replay_view *view, const struct replay_policy *policy,
		const struct trace_die *record)
{
	struct die *die;

	if (record->index >= DIE_TABLE_MAX)
		return;
	die = &view->dies.die[record->index];
	*die = (struct die){
		.free_bytes = record->free_bytes,
		.budget_bytes = budget_with(policy, record->budget_bytes),
		.used_bytes = record->used_bytes,
		.sample_ns = record->sample_ns,
		/* so that the die is stale again if it was stale at its look */
		.limit_ns = record->state == PN_SRC_STALE,
		.closed = record->state == PN_SRC_UNSUPPORTED,
	};
	memcpy(die->id.uuid, record->uuid, sizeof(die->id.uuid));
	memcpy(die->id.pci, record->pci, sizeof(die->id.pci));
	view->budget_bytes[record->index] = record->budget_bytes;
	view->die_seen[record->index] = true;
}

/* Clears dies that are gone. Returns whether every die of the look has had a record. */
static bool dies_known(struct replay_view *view, uint32_t n_dies)
{
	bool known = true;

	for (uint32_t i = 0; i < DIE_TABLE_MAX; i++) {
		if (i < n_dies) {
			known = known && view->die_seen[i];
			continue;
		}
		view->die_seen[i] = false;
		view->dies.die[i] = (struct die){ 0 };
	}
	return known;
}

static void sample_make(const struct trace_look *look, pn_host_sample *ret)
{
	*ret = (pn_host_sample){
		.total_bytes = look->host_total_bytes,
		.avail_bytes = look->host_avail_bytes,
		.psi_some_avg10 = look->host_psi_some_avg10,
		.psi_full_avg10 = look->host_psi_full_avg10,
		.psi_some_total_us = look->psi_some_total_us,
		.psi_full_total_us = look->psi_full_total_us,
		.cgroup_current_bytes = look->cgroup_current_bytes,
		.cgroup_high_bytes = look->cgroup_high_bytes,
		.cgroup_max_bytes = look->cgroup_max_bytes,
		.cgroup_headroom_bytes = look->cgroup_headroom_bytes,
		.cgroup_limit_bytes = look->cgroup_limit_bytes,
		.cgroup_psi_some_avg10 = look->cgroup_psi_some_avg10,
		.cgroup_psi_full_avg10 = look->cgroup_psi_full_avg10,
	};
	for (int i = 0; i < PN_SRC_DIES; i++) {
		ret->source_ns[i] = look->source_ns[i];
		ret->source_state[i] = look->source_state[i];
	}
}

/*
 * The time at which the level was derived. The record's time is a little later, and too late for a
 * hold that ended at this look. A source that was read for the look has the look's time.
 */
static uint64_t look_ns(const struct trace_look *look, uint64_t ts_ns)
{
	uint64_t newest_ns =
		u64_max(look->source_ns[PN_SRC_MEMINFO], look->source_ns[PN_SRC_CGROUP]);

	return newest_ns && newest_ns <= ts_ns ? newest_ns : ts_ns;
}

/* Begins with the first look. A level that is held there has been held for an unknown time. */
static void begin(struct replay_view *view, const struct trace_look *look, uint64_t now_ns)
{
	view->unsure = look->level > look->wanted_level && look->level <= PN_MEM_LEVEL_CRITICAL;
	if (view->unsure)
		view->carry.hold = (struct level_hold){
			.level = (pn_mem_level)look->level,
			.pending = true,
			.since_ns = now_ns,
		};
}

/* Keeps the level at a CRITICAL look, since a verdict comes a little after its look. */
static void remember_critical(struct replay_view *view, const struct replay_level *with)
{
	if (view->look.level == PN_MEM_LEVEL_CRITICAL)
		view->at_critical = (uint32_t)with->level + 1;
}

void replay_see(struct replay_view *view, const struct trace_look *look)
{
	view->look = *look;
	view->has_look = dies_known(view, look->n_dies);
}

void replay_look(struct replay_view *view, const struct replay_policy *policy, uint64_t ts_ns,
		 const struct trace_look *look, struct replay_level *ret)
{
	uint64_t now_ns = look_ns(look, ts_ns);
	struct level_hold *hold = &view->carry.hold;
	pn_host_sample sample;
	struct merge_input in = {
		.now_ns = now_ns,
		.host = &sample,
		.cgroup = &sample,
		.live_some_pct = look->live_psi_some_avg10,
		.live_full_pct = look->live_psi_full_avg10,
		.dies = &view->dies,
		.n_dies = die_table_count(&view->dies),
	};
	bool fell = view->has_look && look->level < view->look.level;
	pn_mem_state state;
	pn_mem_ext ext = { 0 };

	view->look = *look;
	if (!dies_known(view, look->n_dies)) {
		view->has_look = false;
		*ret = (struct replay_level){
			.level = (pn_mem_level)look->level,
			.reasons = look->reasons,
		};
		remember_critical(view, ret);
		return;
	}
	if (!view->has_look)
		begin(view, look, now_ns);
	view->has_look = true;
	if (view->unsure && fell) {
		hold->since_ns = now_ns - policy->with.hold_ns;
		if (hold->candidate < look->level)
			hold->candidate = (pn_mem_level)look->level;
	}
	sample_make(look, &sample);
	ret->level = merge_look(&view->carry, &policy->with, &in, &state, &ext);
	ret->reasons = ext.reasons;
	ret->replayed = true;
	remember_critical(view, ret);
	if (fell || !hold->pending || look->level == look->wanted_level)
		view->unsure = false;
}
