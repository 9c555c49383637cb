/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What wakes the agent for pressure: the BPF hooks, else a PSI trigger, else a poll. One line in
 * the log says which; pnmem doctor tells the rest.
 */
#include <errno.h>
#include <string.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/log.h"
#include "agent/recorder/recorder.h"
#include "host/clock.h"
#include "host/psi_trigger.h"

static void on_record(void *arg, const struct pn_event *event)
{
	struct agent *agent = arg;

	views_name(agent, event->cgroup_id);
	recorder_event(agent, event);
	/* The first that asked to wake us: a look's latency is told from what waited longest. */
	if (!agent->event_ns && event->flags & PN_EVENT_F_WAKE)
		agent->event_ns = event->ts_ns;
}

void wake_drain(struct agent *agent)
{
	if (!agent->hooks_live)
		return;
	hooks_consume(agent->hooks);
	hooks_refresh_misses(agent->hooks);
}

static int on_ring(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct agent *agent = userdata;

	hooks_consume(agent->hooks);
	/* Records that did not ask for it can be there too: they change nothing. */
	if (agent->event_ns)
		agent_look(agent, false);
	return 0;
}

static int on_trigger(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct agent *agent = userdata;

	if (revents & (EPOLLERR | EPOLLHUP)) {
		log_line(LOG_WARNING, "the PSI trigger is gone: polling every %d ms",
			 PN_MEMWATCH_POLL_MS);
		sd_event_source_set_enabled(source, SD_EVENT_OFF);
		agent->mode = PN_MODE_POLL;
	} else {
		agent->trigger_ns = clock_now_ns();
		if (!agent->event_ns)
			agent->event_ns = agent->trigger_ns;
	}
	agent_look_soon(agent);
	return 0;
}

static void open_hooks(struct agent *agent)
{
	struct hooks_options options = {
		.best_mode = agent->options->best_mode,
		.btf_path = getenv("PNMEM_BTF"),
	};
	int r;

	r = hooks_open(&agent->hooks, &options, on_record, agent);
	if (r) {
		log_line(LOG_WARNING, "no BPF hook can be had (%s); pnmem doctor says why",
			 strerror(-r));
		return;
	}
	r = sd_event_add_io(agent->event, NULL, hooks_fd(agent->hooks), EPOLLIN, on_ring, agent);
	if (r < 0) {
		log_line(LOG_WARNING, "the BPF hooks cannot be waited for: %s", strerror(-r));
		return;
	}
	agent->hooks_live = true;
	agent->mode = hooks_stall_mode(agent->hooks);
	agent->memcg_poll = hooks_memcg_mode(agent->hooks) == PN_MODE_NONE;
}

static int open_trigger(struct agent *agent)
{
	unsigned window_ms;
	int r;

	if (agent->options->best_mode == PN_MODE_POLL)
		return -ECANCELED;
	r = psi_trigger_open(agent->procfs_fd, &window_ms);
	if (r < 0)
		return r;
	agent->trigger_fd = r;
	r = sd_event_add_io(agent->event, NULL, agent->trigger_fd, EPOLLPRI, on_trigger, agent);
	if (r < 0)
		return r;
	agent->mode = PN_MODE_PSI_TRIGGER;
	log_line(LOG_NOTICE, "stalls: PSI trigger, at most one notice every %u ms", window_ms);
	return 0;
}

void wake_open(struct agent *agent)
{
	long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int r;

	agent->n_cpus = n_cpus > 1 ? (unsigned)n_cpus : 1;
	agent->trigger_fd = -1;
	agent->memcg_poll = true;
	if (!agent->options->no_bpf)
		open_hooks(agent);
	if (agent->mode != PN_MODE_NONE)
		return;
	r = open_trigger(agent);
	if (r) {
		agent->mode = PN_MODE_POLL;
		log_line(LOG_NOTICE,
			 "stalls: neither hooks nor a PSI trigger (%s): polling every %d ms",
			 strerror(-r), PN_MEMWATCH_POLL_MS);
	}
}

void wake_close(struct agent *agent)
{
	sd_event_source_disable_unref(agent->soon_look);
	agent->soon_look = NULL;
	hooks_close(agent->hooks);
	agent->hooks = NULL;
	if (agent->trigger_fd >= 0)
		close(agent->trigger_fd);
	agent->trigger_fd = -1;
}
