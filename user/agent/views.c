/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The views: one page for each cgroup and user that engines attach from. A page is a memfd sealed
 * so that nobody who is handed it can write, shrink or grow it; only the mapping made here can.
 */
#include "agent/views.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/dies.h"
#include "agent/peer_process.h"
#include "host/cgroup_files.h"
#include "host/clock.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static int page_create(struct page **ret_page, int *ret_memfd)
{
	struct page *page;
	int fd, r;

	fd = memfd_create("pnmem-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, PAGE_BYTES))
		goto fail;
	page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		goto fail;
	/* After our own mapping: future ones, and write(2), are read-only from here on. */
	if (fcntl(fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)) {
		r = -errno;
		munmap(page, PAGE_BYTES);
		close(fd);
		return r;
	}
	*ret_page = page;
	*ret_memfd = fd;
	return 0;
fail:
	r = -errno;
	close(fd);
	return r;
}

static void view_free(struct agent_view *av)
{
	memcg_events_close(av->events);
	if (av->view.page) {
		view_retire(&av->view);
		view_close(&av->view);
		munmap(av->view.page, PAGE_BYTES);
	}
	if (av->memfd >= 0)
		close(av->memfd);
	free(av->key);
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

static struct agent_view *find(const struct agent *agent, const char *key)
{
	struct agent_view *av = agent->views;

	while (av && strcmp(av->key, key))
		av = av->next;
	return av;
}

/* pid -1: no cgroup at all. */
static int view_new(struct agent *agent, int pid, const char *key, struct agent_view **ret)
{
	struct agent_view *av = calloc(1, sizeof(*av));
	struct page *page = NULL;
	int r = -ENOMEM;

	if (!av)
		return r;
	av->memfd = -1;
	av->fresh = true;
	av->key = strdup(key);
	if (!av->key)
		goto fail;
	r = page_create(&page, &av->memfd);
	if (r)
		goto fail;
	r = view_open(&av->view, page, agent->procfs_fd, agent->cgroupfs_fd, pid);
	if (r)
		goto fail;
	pn_host_signals_read(av->view.group, PN_HOST_READ_CGROUP, clock_now_ns(), &av->view.sample);
	signals_pin(av->view.group);
	views_watch_events(agent, av);
	*ret = av;
	return 0;
fail:
	view_free(av);
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

/* The paths that decide which files a view reads. A process that cannot be found has none. */
static void make_key(const struct agent *agent, int pid, char key[static VIEW_KEY_BYTES])
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

int views_open(struct agent *agent)
{
	int r = view_new(agent, -1, "", &agent->views);

	agent->n_views = !r;
	return r;
}

bool views_has(const struct agent *agent, const struct agent_view *view, int pid)
{
	char key[VIEW_KEY_BYTES];

	make_key(agent, pid, key);
	return !key[0] || !strcmp(key, view->key);
}

int views_get(struct agent *agent, int pid, uid_t uid, struct agent_view **ret)
{
	char key[VIEW_KEY_BYTES];
	struct agent_view *av;
	int r;

	make_key(agent, pid, key);
	for (av = agent->views; av; av = av->next)
		if (av->uid == uid && !strcmp(av->key, key))
			break;
	if (!av) {
		r = view_new(agent, key[0] ? pid : -1, key, &av);
		if (r)
			return r;
		/* It looked its group up by itself: that must be the one of the key. */
		if (!views_has(agent, av, pid)) {
			view_free(av);
			return -EAGAIN;
		}
		av->uid = uid;
		av->is_twin = find(agent, key);
		dies_give(agent, av);
		av->next = agent->views->next;
		agent->views->next = av;
		agent->n_views++;
	}
	av->n_users++;
	*ret = av;
	return 0;
}

int views_get_of_peer(struct agent *agent, int pidfd, int *pid, uid_t uid, struct agent_view **ret)
{
	int r = views_get(agent, *pid, uid, ret);

	/* Asked afterwards: until it had ended nobody else could have its number. */
	if (!peer_process_ended(pidfd))
		return r;
	if (!r)
		views_put(agent, *ret);
	*pid = 0;
	return views_get(agent, 0, uid, ret);
}

void views_put(struct agent *agent, struct agent_view *view)
{
	struct agent_view **at = &agent->views, *twin;

	if (--view->n_users || view == agent->views)
		return;
	while (*at != view)
		at = &(*at)->next;
	*at = view->next;
	if (agent->turn == view)
		agent->turn = NULL;
	twin = view->is_twin ? NULL : find(agent, view->key);
	if (twin)
		twin->is_twin = false;
	agent->n_views--;
	recorder_view_end(agent, view);
	sleepers_forget(view);
	view_free(view);
}

void views_close(struct agent *agent)
{
	while (agent->views) {
		struct agent_view *av = agent->views;

		agent->views = av->next;
		view_free(av);
	}
	host_file_close(&agent->vmstat);
}
