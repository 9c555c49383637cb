/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stalls that are not the host's. A group at its own limit stalls by itself, and the kernel counts
 * that in the host's PSI: one throttled group on an idle host would raise the level of every
 * engine on it. So, while the host's bytes are at OK, the views of the others are given the host's
 * PSI as core/spared.h works it out, with the formula and why it is right. Where bytes are short
 * the host's PSI counts for everybody. This file has the I/O: it reads the clocks of the hooks and
 * decides which view is given what.
 *
 *   A view without a limit is given the others' stalls.
 *   A view with a limit and a pressure file of its own is given the others' stalls and its own.
 *   The host's own view, and one with a limit whose own stalls cannot be told, is given the host's.
 *
 * The kernel program that counts a stall decides whether its group is at a limit. So the agent
 * reads no file of the groups that nobody watches, and no number of them costs it anything. A user
 * can keep only the stalls of his own tasks from others: those of tasks in the group that he
 * limits. Without the hooks, or with hooks that do not see tasks wait, nothing is taken off.
 */
#include "agent/agent.h"
#include "agent/views/views.h"
#include "core/u64.h"
#include "host/clock.h"

/* As long as avg10 remembers: by then 100 % have decayed to 0.01 %. */
#define REMEMBERED_NS 93000000000ull

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

static struct stall_time host_total(const pn_host_sample *sample)
{
	return (struct stall_time){ sample->psi_some_total_us, sample->psi_full_total_us };
}

static struct stall_time group_total(const pn_host_sample *sample)
{
	return (struct stall_time){ sample->cgroup_psi_some_total_us,
				    sample->cgroup_psi_full_total_us };
}

/* Folds totals into averages, without those of the file, which are not of these totals. */
static void fold(struct psi_live *live, struct stall_time total, uint64_t now_ns)
{
	struct psi_reading reading = {
		.some_total_us = total.some_us,
		.full_total_us = total.full_us,
	};

	psi_live_update(live, now_ns, &reading);
}

/* *ret becomes the host's source with this PSI, which is never more than the host's. */
static void set_psi(struct host_source *ret, const struct host_source *host,
		    const struct psi_live *live, uint64_t clock_ns, uint64_t now_ns)
{
	pn_host_sample *sample = &ret->sample;

	*ret = *host;
	psi_live_at(live, now_ns, clock_ns, &ret->live_some_pct, &ret->live_full_pct);
	if (ret->live_some_pct > host->live_some_pct)
		ret->live_some_pct = host->live_some_pct;
	if (ret->live_full_pct > host->live_full_pct)
		ret->live_full_pct = host->live_full_pct;
	if (sample->psi_some_avg10 > ret->live_some_pct)
		sample->psi_some_avg10 = ret->live_some_pct;
	if (sample->psi_full_avg10 > ret->live_full_pct)
		sample->psi_full_avg10 = ret->live_full_pct;
}

/* A new reading of the pressure file. */
static void take(struct agent *agent, const struct spared_reading *reading, bool takes,
		 uint64_t now_ns)
{
	struct spared *spared = &agent->spared;
	bool was_recent = is_recent(spared->taken_ns, now_ns);

	if (!takes) {
		spared_psi_follow(&spared->psi, reading);
	} else if (spared_psi_update(&spared->psi, reading)) {
		spared->taken_ns = now_ns;
		if (!was_recent)
			spared->begin_ns = now_ns;
	}
	fold(&spared->live, spared->psi.total, now_ns);
	if (!is_recent(spared->taken_ns, now_ns)) {
		/* The same as the host's, which follows the kernel's averages. */
		spared->live.some_pct = agent->source.live.some_pct;
		spared->live.full_pct = agent->source.live.full_pct;
	}
}

void spared_look(struct agent *agent, uint64_t now_ns)
{
	const struct host_source *source = &agent->source;
	const pn_host_sample *host = &source->sample;
	struct spared_reading reading = { .host = host_total(host) };
	struct spared *spared = &agent->spared;
	bool takes;

	spared->active = false;
	if (host->source_state[PN_SRC_PSI] != PN_SRC_OK || !agent->hooks_live ||
	    !hooks_stall_clocks(agent->hooks, &reading.any_ns, &reading.others_ns))
		return;
	reading.skew_ns = clock_now_ns() - now_ns;
	takes = host_bytes_ok(agent);
	/* The first reading may be older than this look. */
	if (source->psi_was_read && host->source_ns[PN_SRC_PSI] == now_ns)
		take(agent, &reading, takes, now_ns);
	spared->active = takes && is_recent(spared->taken_ns, now_ns);
	if (spared->active)
		set_psi(&spared->others, source, &spared->live,
			u64_sub(reading.others_ns, spared->psi.last.others_ns), now_ns);
}

static void own_fold(const struct spared *spared, struct agent_view *av, struct stall_time host,
		     uint64_t now_ns)
{
	struct stall_time group = group_total(&av->view.sample);

	/* What happened before that is in the average that it begins with. */
	if (av->live.at_ns < spared->begin_ns) {
		av->live = spared->live;
		av->own = (struct spared_own){ host, spared->psi.total, group, spared->psi.total };
		return;
	}
	spared_own_update(&av->own, host, spared->psi.total, group);
	fold(&av->live, av->own.total, now_ns);
}

const struct host_source *spared_source(struct agent *agent, struct agent_view *av, uint64_t now_ns)
{
	const pn_host_sample *group = &av->view.sample;
	struct spared *spared = &agent->spared;

	if (!spared->active || av == agent->views)
		return &agent->source;
	if (!group->cgroup_limit_bytes)
		return &spared->others;
	if (group->source_state[PN_SRC_CGROUP_PSI] != PN_SRC_OK ||
	    !signals_limit_pressure(av->view.group))
		return &agent->source;
	/* Once in a look that read the host and the group. */
	if (spared->live.at_ns == now_ns && group->source_ns[PN_SRC_CGROUP_PSI] == now_ns &&
	    av->live.at_ns != now_ns)
		own_fold(spared, av, host_total(&agent->source.sample), now_ns);
	if (av->live.at_ns < spared->begin_ns)
		return &spared->others;
	set_psi(&spared->own, &agent->source, &av->live, 0, now_ns);
	return &spared->own;
}
