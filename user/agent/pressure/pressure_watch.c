/* SPDX-License-Identifier: BSD-2-Clause */
/* Telling of pressure by the service protocol. See pressure_watch.h. */
#include "agent/pressure/pressure_watch.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/serve/acceptor.h"
#include "agent/agent.h"
#include "agent/serve/closer.h"
#include "agent/views/follow.h"
#include "agent/log.h"
#include "agent/serve/peer_process.h"
#include "agent/serve/peer_socket.h"
#include "agent/serve/peers.h"
#include "agent/pressure/pressure_store.h"
#include "agent/serve/socket.h"
#include "agent/views/views.h"
#include "core/pressure_request.h"
#include "host/clock.h"

/*
 * Places in all. One user may have half of them, and may connect as many times at once: all of its
 * programs come back together when an agent does. A program connects once in its life, so more
 * connects than that are few.
 */
static const struct peers_limits limits = {
	.places_max = 4096,
	.connects = { .burst = 2048, .per_s = 100 },
};
/* Connects that wait to be accepted. Users who connect without pause make it longer for others. */
#define BACKLOG 512
/* All users together; a connect that is turned away costs a few system calls. */
#define ACCEPT_INTERVAL_US 10000
#define ACCEPT_ROUNDS_MAX  32
#define ACCEPTS_A_ROUND    16
/* They write once, when they connect; more than this is read when the second is over. */
#define WRITES_PER_S 10
/*
 * As long as the level stays high each is told again, since one release of caches may not do; the
 * looks, which come every 2 s if nothing else causes one, are what it is told by.
 */
#define REPEAT_NS 1000000000ull

/* systemd takes its time for each, and its queue is short. */
#define KEEP_PER_LOOK 16

struct watcher {
	struct watcher *next, *prev;
	struct pressure_watch *watch;
	struct peer_place place;
	int sock;
	struct ucred peer; /* at connect */
	sd_event_source *io;
	struct followed followed;
	struct agent_view *view;
	pn_mem_level level; /* from which on it is told */
	uint64_t told_ns;
	bool kept; /* in the store */
	char request[PRESSURE_REQUEST_BYTES];
	size_t request_bytes;
};

struct pressure_watch {
	struct agent *agent;
	int sock;
	struct acceptor acceptor;
	char path[SOCKET_PATH_BYTES];
	struct stat bound;       /* the socket file that is ours to remove */
	struct watcher watchers; /* list head */
	struct peers peers;
	unsigned n_not_kept;
};

static void link_first(struct watcher *watcher)
{
	struct watcher *head = &watcher->watch->watchers;

	watcher->prev = head;
	watcher->next = head->next;
	head->next->prev = watcher;
	head->next = watcher;
}

static void unlink_from(struct watcher *watcher)
{
	watcher->next->prev = watcher->prev;
	watcher->prev->next = watcher->next;
}

/* All but its socket. */
static void watcher_end(struct watcher *watcher)
{
	unlink_from(watcher);
	follow_remove(watcher->watch->agent, &watcher->followed);
	watcher->watch->n_not_kept -= !watcher->kept;
	sd_event_source_disable_unref(watcher->io);
	views_put(watcher->watch->agent, watcher->view);
}

/* The connection counts as one of its user's until its descriptor is free. */
static void watcher_closed(void *arg)
{
	struct watcher *watcher = arg;

	peers_leave(&watcher->watch->peers, &watcher->place);
	free(watcher);
}

static void watcher_free(struct watcher *watcher)
{
	watcher_end(watcher);
	closer_drop(watcher->watch->agent, watcher->sock, watcher_closed, watcher);
}

/*
 * Tells it if it is to be told. What it has not read yet says the same as another byte would, so
 * there is never more than one. False: it is to be dropped.
 */
static bool watcher_tell(struct watcher *watcher, uint64_t now_ns)
{
	pn_mem_level level = watcher->view->view.state.level;
	const char byte = (char)('0' + level);
	int unread = 0;

	if (level < watcher->level || (watcher->told_ns && now_ns - watcher->told_ns < REPEAT_NS))
		return true;
	watcher->told_ns = now_ns;
	if (ioctl(watcher->sock, SIOCOUTQ, &unread))
		return false;
	if (unread)
		return true;
	return send(watcher->sock, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

/* What it wants is in the first bytes; the rest is read and discarded. */
static int on_watcher(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct watcher *watcher = userdata;
	char text[1024];
	size_t room = sizeof(watcher->request) - watcher->request_bytes;
	ssize_t n = peer_socket_receive(fd, text, sizeof(text), NULL);

	if (n == -EAGAIN || n == -EINTR)
		return 0;
	if (n > 0) {
		room = (size_t)n < room ? (size_t)n : room;
		memcpy(watcher->request + watcher->request_bytes, text, room);
		watcher->request_bytes += room;
		watcher->level = pressure_request_level(watcher->request, watcher->request_bytes);
	}
	if (n <= 0 || !watcher_tell(watcher, clock_now_ns()))
		watcher_free(watcher);
	return 0;
}

/* By now they have written what they want, if anything. */
static void keep_new(struct pressure_watch *watch)
{
	struct watcher *watcher = watch->watchers.next;

	for (int n = 0; n < KEEP_PER_LOOK && watch->n_not_kept; watcher = watcher->next) {
		if (watcher->kept)
			continue;
		if (!pressure_store_keep(watcher->sock, watcher->level))
			return; /* at the next look */
		watcher->kept = true;
		watch->n_not_kept--;
		n++;
	}
}

void pressure_watch_look(struct agent *agent, uint64_t now_ns)
{
	struct pressure_watch *watch = agent->pressure_watch;
	struct watcher *watcher, *next;
	bool any_high = false;

	if (!watch)
		return;
	keep_new(watch);
	for (const struct agent_view *av = agent->views; av && !any_high; av = av->next)
		any_high = av->view.state.level > PN_MEM_LEVEL_OK;
	if (!any_high)
		return;
	for (watcher = watch->watchers.next; watcher != &watch->watchers; watcher = next) {
		next = watcher->next;
		if (!watcher_tell(watcher, now_ns))
			watcher_free(watcher);
	}
}

/*
 * The view of its process, of which it keeps no other trace than the number at connect: where that
 * has ended, the host's own, since the number may be another's. 0 or -errno.
 */
static int get_view(struct agent *agent, int sock, const struct ucred *peer,
		    struct agent_view **ret)
{
	int pid = peer->pid, pidfd = peer_process_open(sock, pid);
	int r = views_get_of_peer(agent, pidfd, &pid, peer->uid, true, ret);

	if (pidfd >= 0)
		close(pidfd);
	return r;
}

/* Its connection stays: a program on sd-event makes no second one. */
static bool watcher_moved(struct followed *followed)
{
	struct watcher *watcher =
		(struct watcher *)((char *)followed - offsetof(struct watcher, followed));
	struct agent *agent = watcher->watch->agent;
	struct agent_view *view;

	if (get_view(agent, watcher->sock, &watcher->peer, &view))
		return false;
	views_put(agent, watcher->view);
	watcher->view = view;
	return true;
}

/* ---- connecting ------------------------------------------------------------------------------ */

/* A place by the user and cgroup of the process that connected. 0 or -errno. */
static int take_place(struct pressure_watch *watch, const struct ucred *cred, bool kept,
		      struct peer_place *ret)
{
	uint64_t now_ns = clock_now_ns();
	char group[VIEW_KEY_BYTES];
	struct peer *peer;
	int r;

	/* A user who connects too often does not cause the agent to read a file. */
	r = kept ? 0 : peers_connect(&watch->peers, cred->uid, now_ns, &peer);
	if (r)
		return r;
	views_key(watch->agent, cred->pid, group);
	return kept ? peers_rejoin(&watch->peers, cred->uid, group, now_ns, ret)
		    : peers_join(&watch->peers, peer, group, ret);
}

/*
 * Told from the next look on. kept: of an agent before this one. 0 or -errno: sock is to be closed.
 */
static int watcher_new(struct pressure_watch *watch, int sock, pn_mem_level level, bool kept)
{
	struct agent *agent = watch->agent;
	struct ucred cred = { 0 };
	socklen_t bytes = sizeof(cred);
	struct peer_place place;
	struct watcher *watcher;
	int r;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &bytes))
		return -errno;
	r = take_place(watch, &cred, kept, &place);
	if (r)
		return r;
	watcher = calloc(1, sizeof(*watcher));
	r = -ENOMEM;
	if (!watcher)
		goto fail;
	r = get_view(agent, sock, &cred, &watcher->view);
	if (r)
		goto fail;
	r = sd_event_add_io(agent->event, &watcher->io, sock, EPOLLIN, on_watcher, watcher);
	if (r < 0) {
		views_put(agent, watcher->view);
		goto fail;
	}
	sd_event_source_set_priority(watcher->io, SD_EVENT_PRIORITY_IDLE);
	sd_event_source_set_ratelimit(watcher->io, 1000000, WRITES_PER_S);
	watcher->watch = watch;
	watcher->place = place;
	watcher->sock = sock;
	watcher->peer = cred;
	watcher->level = level;
	watcher->kept = kept;
	watcher->followed.view = &watcher->view;
	watcher->followed.pid = cred.pid;
	watcher->followed.moved = watcher_moved;
	follow_add(agent, &watcher->followed);
	link_first(watcher);
	watch->n_not_kept += !kept;
	return 0;
fail:
	peers_leave(&watch->peers, &place);
	free(watcher);
	return r;
}

static void on_connected(void *arg, int sock)
{
	struct pressure_watch *watch = arg;
	int r = watcher_new(watch, sock, PRESSURE_LEVEL_DEFAULT, false);

	if (!r)
		return;
	closer_drop(watch->agent, sock, NULL, NULL);
	log_limited(LOG_KIND_REFUSALS, LOG_WARNING,
		    "a watcher of pressure was turned away (%s), %u are attached", strerror(-r),
		    watch->peers.n_clients);
}

/* An agent before this one may have accepted it without what an accepted one has now. */
static void on_kept(void *arg, int sock, pn_mem_level level)
{
	struct pressure_watch *watch = arg;

	peer_socket_refuse_descriptors(sock);
	peer_socket_accepted(sock);
	if (watcher_new(watch, sock, level, true))
		closer_drop(watch->agent, sock, NULL, NULL);
}

/* ---- the socket ------------------------------------------------------------------------------ */

static int bind_socket(struct pressure_watch *watch)
{
	const char *path = watch->path;
	struct stat st;

	/* Left by an agent that was killed, or that this one replaces: the lock says so. */
	if (!lstat(path, &st) && (!S_ISSOCK(st.st_mode) || unlink(path)))
		return S_ISSOCK(st.st_mode) ? -errno : -EEXIST;
	watch->sock = socket_bind(SOCK_STREAM, path);
	if (watch->sock < 0)
		return watch->sock;
	return lstat(path, &watch->bound) || listen(watch->sock, BACKLOG) ? -errno : 0;
}

static int watch_new(struct agent *agent, const char *path)
{
	struct pressure_watch *watch;
	int r;

	if (strlen(path) + strlen(PRESSURE_WATCH_SUFFIX) >= sizeof(watch->path))
		return -ENAMETOOLONG;
	watch = calloc(1, sizeof(*watch));
	if (!watch)
		return -ENOMEM;
	agent->pressure_watch = watch;
	watch->agent = agent;
	watch->sock = -1;
	watch->peers.limits = &limits;
	watch->watchers.next = watch->watchers.prev = &watch->watchers;
	strcpy(watch->path, path);
	strcat(watch->path, PRESSURE_WATCH_SUFFIX);
	r = bind_socket(watch);
	if (r)
		return r;
	watch->acceptor = (struct acceptor){
		.agent = agent,
		.fd = watch->sock,
		.accepts_a_round = ACCEPTS_A_ROUND,
		.connected = on_connected,
		.arg = watch,
	};
	r = acceptor_open(&watch->acceptor, ACCEPT_INTERVAL_US, ACCEPT_ROUNDS_MAX);
	if (r)
		return r;
	pressure_store_take(on_kept, watch);
	return 0;
}

void pressure_watch_open(struct agent *agent)
{
	int r = watch_new(agent, server_path(agent));

	if (!r)
		return;
	log_line(LOG_WARNING, "no pressure socket at %s%s: %s", server_path(agent),
		 PRESSURE_WATCH_SUFFIX, strerror(-r));
	pressure_watch_close(agent);
}

/* Not the file of an agent that has taken the path over. */
static void remove_file(const struct pressure_watch *watch)
{
	struct stat st;

	if (watch->bound.st_ino && !lstat(watch->path, &st) && st.st_ino == watch->bound.st_ino &&
	    st.st_dev == watch->bound.st_dev)
		unlink(watch->path);
}

void pressure_watch_close(struct agent *agent)
{
	struct pressure_watch *watch = agent->pressure_watch;

	if (!watch)
		return;
	while (watch->watchers.next != &watch->watchers) {
		struct watcher *watcher = watch->watchers.next;

		/* One that is kept is not ended: the next agent goes on with it. Its descriptor
		 * here ends with this process. */
		if (!watcher->kept) {
			watcher_free(watcher);
			continue;
		}
		watcher_end(watcher);
		watcher_closed(watcher);
	}
	acceptor_close(&watch->acceptor);
	remove_file(watch);
	if (watch->sock >= 0)
		closer_drop_listener(agent, watch->sock);
	peers_close(&watch->peers);
	free(watch);
	agent->pressure_watch = NULL;
}
