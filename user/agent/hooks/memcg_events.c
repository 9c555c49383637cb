/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cgroup memory events where no hook tells of them: the kernel's own notice on memory.events of
 * each watched group, at most one in 10 ms. The file counts what happens in the group and below
 * it; a limit of an ancestor shows there only as stalls.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "core/pace.h"
#include "host/clock.h"

/* A group at its limit has events all the time: after two, no look for them before the next 100 ms
 * begin. The file stays readable meanwhile, so that none is lost. */
#define RATE_INTERVAL_US 100000
#define RATE_BURST       2
/*
 * Of many groups that are at their limits each has events all the time. Their looks may take one in
 * 10 of the agent's time, so that clients are served, and the next one is never further away than
 * this.
 */
static const struct pace_limit look_limit = { .part = 10,
					      .burst_ns = 50000000,
					      .max_ns = 100000000 };

struct memcg_events {
	struct agent *agent;
	sd_event_source *io;
	int fd;
	uint64_t cgroup_id;
};

/* Until it is read the file polls as changed; once the group is gone it does so for ever. */
static int take_notice(const struct memcg_events *events)
{
	char text[512];

	return pread(events->fd, text, sizeof(text), 0) < 0 ? -errno : 0;
}

static void look(struct agent *agent)
{
	uint64_t begin_ns = clock_now_ns(), end_ns;

	agent_look(agent, false);
	end_ns = clock_now_ns();
	pace_took(&agent->memcg_looks, &look_limit, end_ns - begin_ns, end_ns);
}

static int on_look(sd_event_source *source, uint64_t usec, void *userdata)
{
	look(userdata);
	return 0;
}

/* Now, or one for all groups that have events until it is time. */
static void look_soon(struct agent *agent)
{
	uint64_t due_ns = pace_due_ns(&agent->memcg_looks, &look_limit);

	if (due_ns <= clock_now_ns()) {
		look(agent);
		return;
	}
	if (!agent->memcg_look && sd_event_add_time(agent->event, &agent->memcg_look,
						    CLOCK_MONOTONIC, 0, 1, on_look, agent) < 0)
		return; /* the look that comes in any case */
	sd_event_source_set_time(agent->memcg_look, due_ns / 1000 + 1);
	sd_event_source_set_enabled(agent->memcg_look, SD_EVENT_ONESHOT);
}

static int on_change(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct memcg_events *events = userdata;

	if (take_notice(events))
		sd_event_source_set_enabled(source, SD_EVENT_OFF);
	views_name(events->agent, events->cgroup_id);
	look_soon(events->agent);
	return 0;
}

struct memcg_events *memcg_events_open(struct agent *agent, int dir_fd)
{
	struct memcg_events *events;
	struct stat st;

	if (!agent->memcg_poll || dir_fd < 0)
		return NULL;
	events = calloc(1, sizeof(*events));
	if (!events)
		return NULL;
	events->agent = agent;
	events->fd = openat(dir_fd, "memory.events", O_RDONLY | O_CLOEXEC);
	events->cgroup_id = fstat(dir_fd, &st) ? 0 : st.st_ino;
	if (events->fd < 0 || take_notice(events) ||
	    sd_event_add_io(agent->event, &events->io, events->fd, EPOLLPRI, on_change, events) <
		    0) {
		memcg_events_close(events);
		return NULL;
	}
	sd_event_source_set_ratelimit(events->io, RATE_INTERVAL_US, RATE_BURST);
	return events;
}

void memcg_events_close(struct memcg_events *events)
{
	if (!events)
		return;
	sd_event_source_disable_unref(events->io);
	if (events->fd >= 0)
		close(events->fd);
	free(events);
}
