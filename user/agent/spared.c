/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stalls that are not the host's. A group at its own limit (memory.max, memory.high, or an
 * ancestor's) stalls by itself, and the host's PSI counts that like any other: one throttled group
 * on an idle host would raise the level of every engine on it. So, as long as the host's bytes are
 * at OK, the stall time of a watched group with a limit is taken off what the views of the others
 * are given as the host's PSI. Where bytes are short the host's PSI counts for everybody.
 *
 * What a group that nobody watches stalls is the host's. Of a watched group below another one,
 * both with a limit, the stall would be taken off twice: engines cannot make that so, since in v2
 * no process can be in a group that gives limits to those below it.
 */
#include "agent/agent.h"
#include "agent/views.h"
#include "core/u64.h"

/* As long as avg10 remembers: by then 100 % have decayed to 0.01 %. */
#define REMEMBERED_NS 93000000000ull
/* No more than a tenth of what avg10 looks back on. */
#define CREDIT_MAX_US 1000000

static bool is_recent(uint64_t taken_ns, uint64_t now_ns)
{
	return taken_ns && now_ns - taken_ns < REMEMBERED_NS;
}

static bool host_bytes_ok(const struct agent *agent)
{
	const pn_host_sample *host = &agent->source.sample;
	uint64_t reserve_bytes =
		level_reserve_bytes(host->total_bytes, agent->config.host_reserve_bytes);

	return host->source_state[PN_SRC_MEMINFO] == PN_SRC_OK &&
	       level_from_bytes(host->avail_bytes, reserve_bytes) == PN_MEM_LEVEL_OK;
}

static void take_off(struct agent *agent, struct agent_view *av, struct stall_time time,
		     uint64_t now_ns)
{
	struct spared *spared = &agent->spared;

	if (!is_recent(av->taken_ns, now_ns)) {
		av->live = spared->live;
		av->taken = (struct stall_time){ 0 };
	}
	av->taken.some_us += time.some_us;
	av->taken.full_us += time.full_us;
	if (!av->is_twin) {
		spared->taken.some_us += time.some_us;
		spared->taken.full_us += time.full_us;
	}
	av->taken_ns = spared->taken_ns = now_ns;
}

void spared_take(struct agent *agent, struct agent_view *av, uint64_t now_ns)
{
	const pn_host_sample *group = &av->view.sample;
	struct stall_time time;

	if (group->source_state[PN_SRC_CGROUP_PSI] != PN_SRC_OK)
		return;
	time.some_us = u64_sub(group->cgroup_psi_some_total_us, av->total.some_us);
	time.full_us = u64_sub(group->cgroup_psi_full_total_us, av->total.full_us);
	av->total.some_us = group->cgroup_psi_some_total_us;
	av->total.full_us = group->cgroup_psi_full_total_us;
	/* What it stalled before it was watched has been counted as the host's. */
	if (av->total_known && time.some_us && group->cgroup_limit_bytes &&
	    signals_limit_pressure(av->view.group) && host_bytes_ok(agent))
		take_off(agent, av, time, now_ns);
	av->total_known = true;
}

/* Averages that never move: those of the file are not of these totals. */
static void fold(struct psi_live *live, struct stall_time total, uint64_t now_ns)
{
	struct psi_reading reading = {
		.some_total_us = total.some_us,
		.full_total_us = total.full_us,
	};

	psi_live_update(live, now_ns, &reading);
}

/* The source as it would be with this PSI. */
static void set_psi(struct host_source *source, const struct psi_live *live, uint64_t now_ns)
{
	pn_host_sample *sample = &source->sample;

	psi_live_at(live, now_ns, 0, &source->live_some_pct, &source->live_full_pct);
	if (sample->psi_some_avg10 > source->live_some_pct)
		sample->psi_some_avg10 = source->live_some_pct;
	if (sample->psi_full_avg10 > source->live_full_pct)
		sample->psi_full_avg10 = source->live_full_pct;
}

/*
 * Adds to *total what the host (its total= is host_us) had since that was not taken off. An eighth
 * of what was may go the same way, then or later: kernel threads that reclaim and compact for the
 * group stall as nobody's, and averages over CPUs have different weights.
 */
static void leave(uint64_t *total_us, uint64_t *taken_us, struct spared_credit *credit,
		  uint64_t host_us)
{
	/* Groups are read after the host, so that what they had may run ahead of it. */
	uint64_t left_us = u64_sub(host_us, u64_add(*taken_us, *total_us)), absorbed_us;

	credit->us = u64_min(credit->us + (*taken_us - credit->seen_us) / 8, CREDIT_MAX_US);
	absorbed_us = u64_min(left_us, credit->us);
	credit->us -= absorbed_us;
	*taken_us += absorbed_us;
	*total_us += left_us - absorbed_us;
	credit->seen_us = *taken_us;
}

void spared_look(struct agent *agent, bool all, uint64_t now_ns)
{
	const pn_host_sample *host = &agent->source.sample;
	struct spared *spared = &agent->spared;

	spared->active = false;
	if (host->source_state[PN_SRC_PSI] != PN_SRC_OK)
		return;
	if (all && agent->source.psi_was_read) {
		leave(&spared->total.some_us, &spared->taken.some_us, &spared->some_credit,
		      host->psi_some_total_us);
		leave(&spared->total.full_us, &spared->taken.full_us, &spared->full_credit,
		      host->psi_full_total_us);
		fold(&spared->live, spared->total, now_ns);
		if (!is_recent(spared->taken_ns, now_ns)) {
			/* The same as the host's, which follows the kernel's averages. */
			spared->live.some_pct = agent->source.live.some_pct;
			spared->live.full_pct = agent->source.live.full_pct;
		}
	}
	spared->active = is_recent(spared->taken_ns, now_ns) && host_bytes_ok(agent);
	if (!spared->active)
		return;
	spared->others = agent->source;
	set_psi(&spared->others, &spared->live, now_ns);
}

const struct host_source *spared_source(struct agent *agent, struct agent_view *av, uint64_t now_ns)
{
	struct spared *spared = &agent->spared;
	struct stall_time total = spared->total;

	/* The host's own view has it all. */
	if (!spared->active || !av->total_known)
		return &agent->source;
	if (!is_recent(av->taken_ns, now_ns))
		return &spared->others;
	/* Its own is not taken off. */
	if (agent->source.psi_was_read) {
		total.some_us += av->taken.some_us;
		total.full_us += av->taken.full_us;
		fold(&av->live, total, now_ns);
	}
	spared->own = agent->source;
	set_psi(&spared->own, &av->live, now_ns);
	return &spared->own;
}
