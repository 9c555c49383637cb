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

/* A group at its limit has events all the time: after two, no look for them before the next 100 ms
 * begin. The file stays readable meanwhile, so that none is lost. */
#define RATE_INTERVAL_US 100000
#define RATE_BURST       2

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

static int on_change(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct memcg_events *events = userdata;

	if (take_notice(events))
		sd_event_source_set_enabled(source, SD_EVENT_OFF);
	views_name(events->agent, events->cgroup_id);
	agent_look_soon(events->agent);
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
