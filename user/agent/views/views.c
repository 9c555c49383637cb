/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The views: one for each cgroup and user that engines attach from, published on a page of
 * view_pages.h. A view ends with its last client, so an unused one costs no look anything.
 */
#include "agent/views/views.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/serve/peer_process.h"
#include "agent/views/view_pages.h"
#include "host/cgroup_files.h"
#include "host/clock.h"

static void view_free(struct agent *agent, struct agent_view *av)
{
	memcg_events_close(av->events);
	if (av->view.page) {
		view_retire(&av->view);
		view_close(&av->view);
	}
	if (av->page)
		view_pages_put(agent->pages, av->page);
	free(av);
}

/* A path from outside of our own cgroup root is left alone. */
void views_watch_events(struct agent *agent, struct agent_view *av)
{
	size_t path_bytes = strcspn(av->key, "\n");
	char path[VIEW_KEY_BYTES];
	int dir_fd;

	memcg_events_close(av->events);
	av->events = NULL;
	snprintf(path, sizeof(path), ".%.*s", (int)path_bytes, av->key);
	if (path_bytes <= 1 || strstr(path, "/.."))
		return;
	dir_fd = openat(agent->cgroupfs_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	av->events = memcg_events_open(agent, dir_fd);
	if (dir_fd >= 0)
		close(dir_fd);
}

/* What a new view is of. */
struct view_of {
	int pid; /* -1: no cgroup at all */
	const char *key;
	uid_t uid;
	bool counted; /* as view_pages_get says */
};

static int view_new(struct agent *agent, const struct view_of *of, struct agent_view **ret)
{
	struct agent_view *av = calloc(1, sizeof(*av));
	int r;

	if (!av)
		return -ENOMEM;
	av->fresh = true;
	av->uid = of->uid;
	r = view_pages_get(agent->pages, of->key, of->uid, of->counted, &av->page);
	if (r)
		goto fail;
	av->key = av->page->key;
	r = view_open(&av->view, av->page->page, agent->procfs_fd, agent->cgroupfs_fd, of->pid);
	if (r)
		goto fail;
	pn_host_signals_read(av->view.group, PN_HOST_READ_CGROUP, clock_now_ns(), &av->view.sample);
	signals_pin(av->view.group);
	views_watch_events(agent, av);
	*ret = av;
	return 0;
fail:
	view_free(agent, av);
	return r;
}

static int read_cgroup_text(const struct agent *agent, int pid, char *buf, size_t bytes)
{
	char path[32];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%d/cgroup", pid);
	fd = openat(agent->procfs_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, buf, bytes);
	if (n < 0)
		n = -errno;
	close(fd);
	return (int)n;
}

void views_key(const struct agent *agent, int pid, char key[static VIEW_KEY_BYTES])
{
	char text[VIEW_KEY_BYTES];
	struct cgroup_paths paths;
	int n = read_cgroup_text(agent, pid, text, sizeof(text));

	key[0] = 0;
	if (n <= 0 || cgroup_files_paths(text, (size_t)n, &paths))
		return;
	snprintf(key, VIEW_KEY_BYTES, "%.*s\n%.*s", (int)(paths.v2.end - paths.v2.at), paths.v2.at,
		 (int)(paths.v1_memory.end - paths.v1_memory.at), paths.v1_memory.at);
}

int views_open(struct agent *agent, const struct views_calls *calls)
{
	const struct view_of host = { .pid = -1, .key = "" };
	int r = view_pages_open(&agent->pages);

	agent->views_calls = calls;
	if (!r)
		r = view_new(agent, &host, &agent->views);
	agent->n_views = !r;
	return r;
}

bool views_has(const struct agent *agent, const struct agent_view *view, int pid)
{
	char key[VIEW_KEY_BYTES];

	views_key(agent, pid, key);
	return !key[0] || !strcmp(key, view->key);
}

static int get(struct agent *agent, int pid, uid_t uid, bool counted, struct agent_view **ret)
{
	char key[VIEW_KEY_BYTES];
	struct agent_view *av;
	int r;

	views_key(agent, pid, key);
	/* The host's own is nobody's: what clients without a cgroup say is not to be in it. */
	for (av = agent->views->next; av; av = av->next)
		if (av->uid == uid && !strcmp(av->key, key))
			break;
	if (!av) {
		const struct view_of of = {
			.pid = key[0] ? pid : -1,
			.key = key,
			.uid = uid,
			.counted = counted,
		};

		r = view_new(agent, &of, &av);
		if (r)
			return r;
		/* It looked its group up by itself: that must be the one of the key. */
		if (!views_has(agent, av, pid)) {
			view_free(agent, av);
			return -EAGAIN;
		}
		agent->views_calls->begun(agent, av);
		av->next = agent->views->next;
		agent->views->next = av;
		agent->n_views++;
	}
	av->n_users++;
	*ret = av;
	return 0;
}

int views_get(struct agent *agent, int pid, uid_t uid, struct agent_view **ret)
{
	return get(agent, pid, uid, false, ret);
}

int views_get_of_peer(struct agent *agent, int pidfd, int *pid, uid_t uid, bool counted,
		      struct agent_view **ret)
{
	int r = get(agent, *pid, uid, counted, ret);

	/* Asked afterwards: until it had ended nobody else could have its number. */
	if (!peer_process_ended(pidfd))
		return r;
	if (!r)
		views_put(agent, *ret);
	*pid = 0;
	return get(agent, 0, uid, counted, ret);
}

void views_put(struct agent *agent, struct agent_view *view)
{
	struct agent_view **at = &agent->views;

	if (--view->n_users || view == agent->views)
		return;
	while (*at != view)
		at = &(*at)->next;
	*at = view->next;
	if (agent->turn == view)
		agent->turn = NULL;
	agent->n_views--;
	agent->views_calls->ended(agent, view);
	sleepers_forget(view);
	view_free(agent, view);
}

void views_close(struct agent *agent)
{
	while (agent->views) {
		struct agent_view *av = agent->views;

		agent->views = av->next;
		view_free(agent, av);
	}
	view_pages_close(agent->pages);
	host_file_close(&agent->vmstat);
}
