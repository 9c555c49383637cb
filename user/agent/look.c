/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The look: whatever woke the agent, it reads what is true now, publishes it to every view, then
 * wakes who sleeps on their pages, and works out when to look next if nothing happens.
 */
#include <string.h>

#include "agent/agent.h"
#include "agent/gpu/dies.h"
#include "agent/views/follow.h"
#include "agent/log.h"
#include "agent/pressure/pressure_watch.h"
#include "agent/recorder/recorder.h"
#include "agent/serve/reserve.h"
#include "agent/views/views.h"
#include "core/u64.h"
#include "host/clock.h"

/* An engine that asks often makes no more looks for all the others than this. */
#define ALL_GAP_NS 10000000ull

/* Records that ask for no look are taken along by the looks, whatever causes them. */
#define DRAIN_GAP_NS 100000000ull

/*
 * Page faults in parallel fill faster than SCHEDULE_FILL_BYTES_PER_S; by how much depends on the
 * CPUs. A fault brings at most a huge page. Half of the slack, so that the look comes before the
 * line, and never more often than this.
 */
#define FAULT_MAX_BYTES       (2ull << 20)
#define FAULT_INTERVAL_MIN_NS 2000000ull
#define STALL_WAKE_MIN_NS     1000000ull
/* A task counted as stalled of which no more was heard for so long does not count. */
#define STALLED_NOW_MAX_NS 1000000000ull

/* After a look that took longer, the timer's next one comes after this. */
#define REST_MAX_NS 500000000ull
/* The next look of agent_look_soon is never further away than max_ns. */
static const struct pace_limit soon_limit = { .part = 10,
					      .burst_ns = 50000000,
					      .max_ns = 500000000 };

/* Says once that a source has become worse, and once that it is back. */
static void log_source(uint8_t *logged, const pn_host_sample *sample, int src, const char *name)
{
	uint8_t state = sample->source_state[src];

	if (state == *logged)
		return;
	if (state == PN_SRC_STALE)
		log_limited(LOG_KIND_GROUPS, LOG_WARNING,
			    "%s cannot be read (%s): its last good value stays in use", name,
			    strerror(-sample->source_err[src]));
	else if (state == PN_SRC_GONE && src == PN_SRC_CGROUP)
		log_limited(LOG_KIND_GROUPS, LOG_NOTICE,
			    "%s: the group was removed, its engines go by the host's", name);
	else if (state == PN_SRC_UNSUPPORTED)
		log_limited(LOG_KIND_GROUPS, LOG_NOTICE,
			    "%s: switched off in this kernel, levels come from bytes alone", name);
	else if (state == PN_SRC_ESTIMATED)
		log_limited(LOG_KIND_GROUPS, LOG_NOTICE,
			    "%s: not in this kernel, `some` is estimated from the stall hook",
			    name);
	else if (state == PN_SRC_OK && (*logged == PN_SRC_STALE || *logged == PN_SRC_GONE))
		log_limited(LOG_KIND_GROUPS, LOG_NOTICE, "%s can be read again", name);
	*logged = state;
}

static void log_sources(struct agent *agent, struct agent_view *av)
{
	const pn_host_sample *host = &agent->source.sample;
	uint8_t *logged = agent->source_logged;

	if (!av) {
		log_source(&logged[PN_SRC_MEMINFO], host, PN_SRC_MEMINFO, "/proc/meminfo");
		log_source(&logged[PN_SRC_PSI], host, PN_SRC_PSI, "/proc/pressure/memory");
		return;
	}
	log_source(&av->logged[PN_SRC_CGROUP], &av->view.sample, PN_SRC_CGROUP, "memory cgroup");
	log_source(&av->logged[PN_SRC_CGROUP_PSI], &av->view.sample, PN_SRC_CGROUP_PSI,
		   "memory.pressure of a cgroup");
}

/* The newest stall known, from hooks or trigger, 0 if none. */
static uint64_t newest_stall_ns(const struct agent *agent, const struct hooks_counters *counters,
				uint64_t now_ns)
{
	uint64_t stall_ns = u64_max(counters->last_stall_ns, agent->trigger_ns);

	if (counters->stalled_now > 0 && now_ns - stall_ns < STALLED_NOW_MAX_NS)
		return now_ns;
	return u64_min(stall_ns, now_ns);
}

static void set_counters(const struct agent *agent, const struct hooks_counters *counters,
			 pn_mem_ext *ext)
{
	ext->mode = agent->mode;
	ext->looks = agent->looks;
	ext->wakeups = agent->wakeups;
	ext->events = counters->events;
	ext->event_drops = counters->event_drops;
	ext->stalls = counters->stalls;
	ext->stall_ns = counters->stall_ns;
	ext->oom_kills = counters->oom_kills;
}

/* Arms the timer and tells the hooks how near the next line is. */
static void plan_next(struct agent *agent, uint64_t now_ns)
{
	struct schedule_input in = {
		.now_ns = now_ns,
		.level = PN_MEM_LEVEL_OK,
		.slack_bytes = UINT64_MAX,
		.hold_deadline_ns = UINT64_MAX,
		.pace = &agent->source.pace,
	};
	uint64_t end_ns = clock_now_ns(), next_ns, fill_ns;

	for (const struct agent_view *av = agent->views; av; av = av->next) {
		const struct view *view = &av->view;

		if (view->state.level > in.level)
			in.level = view->state.level;
		in.slack_bytes = u64_min(in.slack_bytes, view_slack_bytes(view, &agent->config));
		in.hold_deadline_ns =
			u64_min(in.hold_deadline_ns,
				level_hold_deadline_ns(&view->carry.hold, agent->config.hold_ns));
	}
	next_ns = schedule_next_look_ns(&in);
	if (agent->mode == PN_MODE_POLL)
		next_ns = u64_min(next_ns, now_ns + PN_MEMWATCH_POLL_MS * 1000000ull);
	/*
	 * Half of the time is for all else, clients too, however long it takes to read the groups.
	 */
	next_ns = u64_max(next_ns, end_ns + u64_min(end_ns - now_ns, REST_MAX_NS));
	sd_event_source_set_time(agent->timer, next_ns / 1000);
	sd_event_source_set_enabled(agent->timer, SD_EVENT_ONESHOT);

	if (!agent->hooks_live)
		return;
	fill_ns = schedule_fill_ns(in.slack_bytes, SCHEDULE_FILL_BYTES_PER_S * agent->n_cpus);
	hooks_set_fault_gate(agent->hooks, now_ns,
			     in.slack_bytes == UINT64_MAX ? UINT64_MAX
							  : in.slack_bytes / 2 / FAULT_MAX_BYTES,
			     u64_max(fill_ns, FAULT_INTERVAL_MIN_NS));
	hooks_set_wake_gap(agent->hooks, u64_max(psi_pace_gap_ns(&agent->source.pace, now_ns),
						 STALL_WAKE_MIN_NS));
}

/* Returns whether its level moved. */
static bool publish(struct agent *agent, struct agent_view *av,
		    const struct hooks_counters *counters, uint64_t now_ns)
{
	struct view *view = &av->view;
	uint32_t changes_before = view->carry.level_changes;

	set_counters(agent, counters, &view->ext);
	reserve_figures(agent, av);
	view_publish(view, spared_source(agent, av, now_ns), &agent->config, now_ns,
		     agent->event_ns, av->fresh);
	av->fresh = av->asked = false;
	recorder_publish(agent, av);
	log_sources(agent, av);
	return view->carry.level_changes != changes_before;
}

/* It is news for everybody, the host's own view first: whoever asked is not the cause of it. */
static bool host_bytes_fell(const struct agent *agent)
{
	const pn_host_sample *host = &agent->source.sample;
	uint64_t reserve_bytes =
		level_reserve_bytes(host->total_bytes, agent->config.host_reserve_bytes);

	return host->source_state[PN_SRC_MEMINFO] == PN_SRC_OK &&
	       level_from_bytes(host->avail_bytes, reserve_bytes) > agent->views->view.state.level;
}

static void look(struct agent *agent, bool force, bool asked_only)
{
	struct hooks_counters counters = { 0 };
	uint64_t now_ns = clock_now_ns(), some_clock_ns = UINT64_MAX;
	bool all, resummed, moved = false;

	agent->looks++;
	if (now_ns - agent->drain_ns >= DRAIN_GAP_NS) {
		agent->drain_ns = now_ns;
		wake_drain(agent);
	}
	if (agent->hooks_live)
		hooks_counters(agent->hooks, &counters);
	/* The tracepoints do not see a wait for a page that was evicted: not worth an estimate. */
	if (agent->mode == PN_MODE_FENTRY || agent->mode == PN_MODE_KPROBE)
		some_clock_ns = counters.some_ns;
	host_source_look(&agent->source, now_ns, newest_stall_ns(agent, &counters, now_ns),
			 counters.stall_ns, some_clock_ns, force);
	all = !asked_only || now_ns - agent->all_ns >= ALL_GAP_NS || host_bytes_fell(agent);
	all = dies_look(agent, all, now_ns) || all;
	if (all)
		agent->all_ns = now_ns;
	views_read(agent, all, now_ns);
	spared_look(agent, now_ns);
	/* What is reserved is in every page, whichever groups are read. */
	resummed = reserve_look(agent, all, now_ns);
	for (struct agent_view *av = agent->views; av; av = av->next)
		if ((all || resummed || av->asked) && publish(agent, av, &counters, now_ns))
			moved = true;
	/* What moved one may move the others. */
	for (struct agent_view *av = moved ? agent->views : NULL; av; av = av->next)
		if (av->view.ext.looks != agent->looks)
			publish(agent, av, &counters, now_ns);
	sleepers_wake(agent);
	server_tell(agent);
	agent->event_ns = 0;
	log_sources(agent, NULL);
	plan_next(agent, now_ns);
	pressure_watch_look(agent, now_ns);
	log_left_out(now_ns);
	follow_look(agent, now_ns);
}

void agent_look(struct agent *agent, bool force)
{
	look(agent, force, false);
}

void agent_look_asked(struct agent *agent, bool force)
{
	look(agent, force, true);
}

static void look_now(struct agent *agent)
{
	uint64_t begin_ns = clock_now_ns(), end_ns;

	agent_look(agent, false);
	end_ns = clock_now_ns();
	pace_took(&agent->soon_looks, &soon_limit, end_ns - begin_ns, end_ns);
}

static int on_soon(sd_event_source *source, uint64_t usec, void *userdata)
{
	look_now(userdata);
	return 0;
}

void agent_look_soon(struct agent *agent)
{
	uint64_t due_ns = pace_due_ns(&agent->soon_looks, &soon_limit);

	if (due_ns <= clock_now_ns()) {
		look_now(agent);
		return;
	}
	if (!agent->soon_look && sd_event_add_time(agent->event, &agent->soon_look, CLOCK_MONOTONIC,
						   0, 1, on_soon, agent) < 0)
		return; /* the look that comes in any case */
	sd_event_source_set_time(agent->soon_look, due_ns / 1000 + 1);
	sd_event_source_set_enabled(agent->soon_look, SD_EVENT_ONESHOT);
}
