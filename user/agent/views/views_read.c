/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which views have their group's files read in a look. To read a group costs some 20 us and a look
 * may find a thousand of them, of which hardly any has changed. So a look reads those that may
 * have: named by a kernel record, asked for by an engine, raised by its own bytes, or with so
 * little room that what the whole host allocated since could have filled half of it. Beside them
 * the next few in turn, for what no event tells (a limit that is set, memory that is freed, a group
 * that is removed): where there are no more than those few, every look reads them all; where there
 * are many and looks are rare, more of them, so that each has had its turn within TURN_NS.
 */
#include "agent/agent.h"
#include "agent/views/views.h"
#include "core/u64.h"
#include "host/vmstat.h"

#include <unistd.h>

#define TURN_VIEWS 16
#define TURN_NS    30000000000ull
/* A group that stalled so lately is taken to stall on: its own pressure changes. */
#define STALLING_NS 2000000000ull

void views_name(struct agent *agent, uint64_t cgroup_id)
{
	struct named_groups *named = &agent->named;

	if (!cgroup_id)
		return;
	for (unsigned i = 0; i < named->n; i++)
		if (named->id[i] == cgroup_id)
			return;
	if (named->n < NAMED_GROUPS_MAX)
		named->id[named->n++] = cgroup_id;
	else
		named->too_many = true;
}

static bool is_named(const struct named_groups *named, const struct agent_view *av)
{
	for (unsigned i = 0; i < named->n; i++)
		if (signals_within(av->view.group, named->id[i]))
			return true;
	return named->too_many;
}

static void read_churn(struct agent *agent, uint64_t now_ns)
{
	char text[VMSTAT_TEXT_BYTES];
	uint64_t pages;
	size_t len;

	agent->churn_known = !host_file_read(&agent->vmstat, agent->procfs_fd, "vmstat", now_ns,
					     text, sizeof(text), &len) &&
			     !vmstat_churn(text, len, &pages);
	if (agent->churn_known)
		agent->churn_bytes = pages * (uint64_t)getpagesize();
}

static bool is_due(const struct agent *agent, const struct agent_view *av, uint64_t now_ns)
{
	const struct view *view = &av->view;
	uint64_t slack_bytes = view_group_slack_bytes(view, &agent->config);

	if (av->read_ns == now_ns)
		return false;
	if (av->asked || is_named(&agent->named, av))
		return true;
	if (agent->source.psi_was_read && av->stalled_ns && now_ns - av->stalled_ns < STALLING_NS)
		return true;
	if (slack_bytes != UINT64_MAX && agent->churn_known &&
	    agent->churn_bytes - av->churn_bytes >= slack_bytes / 2)
		return true;
	/* Without a count of what was allocated, as if it were enough. */
	return ((slack_bytes != UINT64_MAX && !agent->churn_known) ||
		view->ext.reasons & (PN_REASON_CGROUP | PN_REASON_HELD)) &&
	       now_ns - av->read_ns >= SCHEDULE_RAISED_NS;
}

static void read_one(struct agent *agent, struct agent_view *av, uint64_t now_ns)
{
	const uint8_t *state = &av->view.sample.source_state[PN_SRC_CGROUP];
	bool was_gone = *state == PN_SRC_GONE;
	uint64_t some_us = av->view.sample.cgroup_psi_some_total_us;

	view_read(&av->view, &agent->source, now_ns);
	av->read_ns = now_ns;
	av->reserved_version = 0; /* its group may be within another one's limit */
	av->churn_bytes = agent->churn_bytes;
	if (av->view.sample.cgroup_psi_some_total_us != some_us)
		av->stalled_ns = now_ns;
	/* Made again: what was open is of the group before. */
	if (was_gone && *state == PN_SRC_OK)
		views_watch_events(agent, av);
}

static struct agent_view *next_in_turn(const struct agent *agent, const struct agent_view *av)
{
	return av && av->next ? av->next : agent->views;
}

/* How many have their turn in a look that comes so long after the last one. */
static unsigned turn_views(const struct agent *agent, uint64_t gap_ns)
{
	uint64_t share = agent->n_views * u64_min(gap_ns, TURN_NS) / TURN_NS + 1;

	return (unsigned)u64_max(share, TURN_VIEWS);
}

void views_read(struct agent *agent, bool all, uint64_t now_ns)
{
	unsigned turns = agent->n_views;

	if (!all) {
		for (struct agent_view *av = agent->views; av; av = av->next)
			if (av->asked)
				read_one(agent, av, now_ns);
		return;
	}
	if (agent->n_views > TURN_VIEWS) {
		read_churn(agent, now_ns);
		for (struct agent_view *av = agent->views; av; av = av->next)
			if (is_due(agent, av, now_ns))
				read_one(agent, av, now_ns);
		turns = (unsigned)u64_min(turns, turn_views(agent, now_ns - agent->turn_ns));
	}
	agent->turn_ns = now_ns;
	while (turns--) {
		agent->turn = next_in_turn(agent, agent->turn);
		if (agent->turn->read_ns != now_ns)
			read_one(agent, agent->turn, now_ns);
	}
	agent->named.n = 0;
	agent->named.too_many = false;
}
