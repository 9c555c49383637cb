/* SPDX-License-Identifier: BSD-2-Clause */
/* A published snapshot as a trace record, and back. See trace.h. */
#include <string.h>

#include "core/trace.h"

_Static_assert(sizeof(((struct trace_look *)0)->source_ns) == PN_SRC_COUNT * sizeof(uint64_t),
	       "one for each source");

void trace_look_make(struct trace_look *ret, uint32_t view, const pn_mem_state *state,
		     const pn_mem_ext *ext)
{
	*ret = (struct trace_look){
		.view = view,
		.level = state->level,
		.wanted_level = ext->wanted_level,
		.reasons = ext->reasons,
		.mode = ext->mode,
		.n_dies = (uint32_t)state->n_dies + ext->n_more_dies,
		.host_total_bytes = state->host_total_bytes,
		.host_avail_bytes = state->host_avail_bytes,
		.host_reserve_bytes = ext->host_reserve_bytes,
		.host_psi_some_avg10 = state->host_psi_some_avg10,
		.host_psi_full_avg10 = state->host_psi_full_avg10,
		.live_psi_some_avg10 = ext->live_psi_some_avg10,
		.live_psi_full_avg10 = ext->live_psi_full_avg10,
		.psi_some_total_us = ext->psi_some_total_us,
		.psi_full_total_us = ext->psi_full_total_us,
		.cgroup_current_bytes = state->cgroup_current_bytes,
		.cgroup_high_bytes = state->cgroup_high_bytes,
		.cgroup_max_bytes = state->cgroup_max_bytes,
		.cgroup_headroom_bytes = ext->cgroup_headroom_bytes,
		.cgroup_limit_bytes = ext->cgroup_limit_bytes,
		.cgroup_psi_some_avg10 = ext->cgroup_psi_some_avg10,
		.cgroup_psi_full_avg10 = ext->cgroup_psi_full_avg10,
		.event_ns = ext->event_ns,
		.stalls = ext->stalls,
		.stall_ns = ext->stall_ns,
		.oom_kills = ext->oom_kills,
		.events = ext->events,
		.event_drops = ext->event_drops,
	};
	memcpy(ret->source_ns, ext->source_ns, sizeof(ret->source_ns));
	memcpy(ret->source_state, ext->source_state, sizeof(ret->source_state));
}

void trace_look_unmake(const struct trace_look *look, pn_mem_state *ret_state, pn_mem_ext *ret_ext)
{
	*ret_state = (pn_mem_state){
		.host_total_bytes = look->host_total_bytes,
		.host_avail_bytes = look->host_avail_bytes,
		.host_psi_some_avg10 = look->host_psi_some_avg10,
		.host_psi_full_avg10 = look->host_psi_full_avg10,
		.cgroup_current_bytes = look->cgroup_current_bytes,
		.cgroup_high_bytes = look->cgroup_high_bytes,
		.cgroup_max_bytes = look->cgroup_max_bytes,
		.level = look->level <= PN_MEM_LEVEL_CRITICAL ? (pn_mem_level)look->level
							      : PN_MEM_LEVEL_CRITICAL,
	};
	*ret_ext = (pn_mem_ext){
		.event_ns = look->event_ns,
		.reasons = look->reasons,
		.wanted_level = look->wanted_level,
		.mode = look->mode,
		.host_reserve_bytes = look->host_reserve_bytes,
		.live_psi_some_avg10 = look->live_psi_some_avg10,
		.live_psi_full_avg10 = look->live_psi_full_avg10,
		.psi_some_total_us = look->psi_some_total_us,
		.psi_full_total_us = look->psi_full_total_us,
		.cgroup_psi_some_avg10 = look->cgroup_psi_some_avg10,
		.cgroup_psi_full_avg10 = look->cgroup_psi_full_avg10,
		.cgroup_headroom_bytes = look->cgroup_headroom_bytes,
		.cgroup_limit_bytes = look->cgroup_limit_bytes,
		.events = look->events,
		.event_drops = look->event_drops,
		.stalls = look->stalls,
		.stall_ns = look->stall_ns,
		.oom_kills = look->oom_kills,
	};
	memcpy(ret_ext->source_ns, look->source_ns, sizeof(look->source_ns));
	memcpy(ret_ext->source_state, look->source_state, sizeof(look->source_state));
}
