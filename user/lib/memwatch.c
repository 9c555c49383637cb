/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pn_memwatch: start, stop, the thread that follows the agent or polls in its place, and the
 * calls that change something. Reading and sleeping, which never take a lock, are in reader.c.
 */
#include "pn_memwatch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/proto.h"
#include "core/settings.h"
#include "host/clock.h"
#include "host/psi_trigger.h"
#include "host/view.h"
#include "lib/holdings.h"
#include "lib/link.h"
#include "lib/reader.h"
#include "lib/relay.h"
#include "lib/thread.h"
#include "lib/verdict_log.h"
#include "lib/watch.h"

#define NS_PER_MS        1000000ull
#define START_TIMEOUT_MS 250
/* From the poll thread: while it waits for an agent that does not answer it does not poll. */
#define ATTACH_TIMEOUT_MS  50
#define HEARTBEAT_CHECK_MS 1000
#define HEARTBEAT_LIMIT_NS (3 * SCHEDULE_HEARTBEAT_NS)

/* One lock for everything but reading. The thread holds it except while it sleeps. */
static struct {
	pthread_mutex_t lock;
	_Atomic bool running;
	bool atfork_done;
	void (*log)(void *arg, const char *line);
	void *log_arg;

	struct level_config config;
	char socket_path[SOCKET_PATH_BYTES];
	int procfs_fd;
	int cgroupfs_fd;

	struct host_source source;
	struct view view;         /* on the process's own page */
	struct die_pushes pushes; /* what the engine said of its dies: kept on either source */
	bool stranger_told;       /* that the agent is of a user who is not believed */
	struct link link;
	int trigger_fd;       /* PSI trigger while polling, -1: none granted */
	uint64_t poll_due_ns; /* next tick of the poll: an agent is tried, then a look is made */

	pthread_t thread;
	int stop_fd; /* eventfd: ends the thread */
} w = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.procfs_fd = -1,
	.cgroupfs_fd = -1,
	.link = { .sock = -1 },
	.trigger_fd = -1,
	.stop_fd = -1,
};

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	char line[256];
	va_list ap;

	if (!w.log)
		return;
	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	w.log(w.log_arg, line);
}

static void warn_setting(void *arg, const char *name, const char *value, const char *fallback)
{
	say("%s=%s is not valid, using %s", name, value, fallback);
}

static const char *get_env(void *arg, const char *name)
{
	return secure_getenv(name);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/*
 * One look of our own, published on our own page. first: another publisher was in use before.
 * stall_ns: when the PSI trigger told of a stall, 0 if none did. force: whatever the pace of the
 * pressure file, which a trigger of 10 ms or an engine that pushes its dies would outrun.
 */
static void own_look(bool first, uint64_t stall_ns, bool force)
{
	uint64_t now_ns = clock_now_ns();

	host_source_look(&w.source, now_ns, stall_ns, 0, UINT64_MAX, force);
	w.view.ext.mode = w.trigger_fd >= 0 ? PN_MODE_PSI_TRIGGER : PN_MODE_POLL;
	w.view.ext.looks++;
	view_read(&w.view, &w.source, now_ns);
	holdings_look(&w.view, w.source.sample.source_ns[PN_SRC_MEMINFO], now_ns);
	view_publish(&w.view, &w.source, &w.config, now_ns, 0, first);
	view_wake(&w.view, INT_MAX); /* threads of this process alone */
}

/* From the agent, or from nothing, to the poll: readers see a fresh look at once. */
static void fall_back(const char *why)
{
	unsigned window_ms;
	pn_mem_state last;

	link_close(&w.link);
	if (w.trigger_fd < 0)
		w.trigger_fd = psi_trigger_open(w.procfs_fd, &window_ms);
	/* Go on from the agent's level, so that coming down from it takes the hold. */
	memset(&w.view.carry.hold, 0, sizeof(w.view.carry.hold));
	if (!reader_read(&last, NULL))
		w.view.carry.hold.level = last.level;
	own_look(true, 0, true);
	reader_switch(READER_OWN);
	holdings_fell_back();
	w.poll_due_ns = clock_now_ns();
	say("%s: polling in this process every %d ms", why, PN_MEMWATCH_POLL_MS);
}

/* Of what this engine pushed: by index first, since an id takes any place that is free. */
static void lay_pushes(void)
{
	memset(&w.view.dies, 0, sizeof(w.view.dies));
	for (int by_id = 0; by_id < 2; by_id++)
		for (int i = 0; i < w.pushes.count; i++)
			if ((w.pushes.push[i].index < 0) == by_id)
				die_table_push(&w.view.dies, &w.pushes.push[i]);
	view_dies_changed(&w.view);
}

/* One push to the agent. Returns its place there or -errno. */
static int push_die(const struct die_push *push, int timeout_ms)
{
	struct proto_set_die by_index = {
		.header = proto_header_make(PROTO_SET_DIE, sizeof(by_index), 0),
		.die_id = push->index,
		.free_bytes = push->free_bytes,
		.budget_bytes = push->budget_bytes,
		.used_bytes = push->used_bytes,
	};
	struct proto_set_die_id by_id = {
		.header = proto_header_make(PROTO_SET_DIE_ID, sizeof(by_id), 0),
		.free_bytes = push->free_bytes,
		.budget_bytes = push->budget_bytes,
		.used_bytes = push->used_bytes,
	};
	struct proto_header ack;
	struct proto_die_place answer;
	int r, place = push->index;

	memcpy(by_id.uuid, push->id.uuid, sizeof(by_id.uuid));
	memcpy(by_id.pci, push->id.pci, sizeof(by_id.pci));
	if (push->index >= 0) {
		r = link_request(&w.link, &by_index, sizeof(by_index), PROTO_ACK, &ack, sizeof(ack),
				 timeout_ms);
	} else {
		r = link_request(&w.link, &by_id, sizeof(by_id), PROTO_DIE_PLACE, &answer,
				 sizeof(answer), timeout_ms);
		place = answer.place;
	}
	if (r)
		return r;
	if (!push->budget_bytes)
		return 0;
	if (place < 0 || place >= DIE_TABLE_MAX)
		return -EBADMSG;
	reader_own_die(place, push);
	return place;
}

/*
 * All that the agent does not know yet, or may have moved. It may refuse pushes: that is no error.
 */
static int push_all(int timeout_ms)
{
	int r = 0;

	reader_own_dies_reset();
	for (int i = 0; r != -ENOTCONN && i < w.pushes.count; i++)
		r = push_die(&w.pushes.push[i], timeout_ms);
	return r == -ENOTCONN ? r : 0;
}

static bool agent_lost(short revents, const char **ret_why)
{
	/* Before the clock: a beat in between would lie in the future. */
	uint64_t beat_ns = reader_agent_heartbeat_ns(), now_ns = clock_now_ns();

	*ret_why = "the agent has gone";
	if (w.link.broken || reader_agent_retired() || revents & (POLLRDHUP | POLLHUP | POLLERR))
		return true;
	*ret_why = "the agent does not beat any more";
	return now_ns > beat_ns && now_ns - beat_ns > HEARTBEAT_LIMIT_NS;
}

/* Tries to move to the agent. Its page is complete, our dies included, before readers see it. */
static int attach(int timeout_ms)
{
	uint32_t n_alone = 0;
	const char *why;
	int memfd, r;

	r = link_open(&w.link, w.socket_path, timeout_ms, &memfd);
	if (r == -EKEYREJECTED && !w.stranger_told) {
		say("the agent at %s is not used: its user is neither root nor this process's "
		    "(PN_AGENT_UID)",
		    w.socket_path);
		w.stranger_told = true;
	}
	if (r)
		return r;
	r = reader_map_agent_page(memfd);
	close(memfd);
	/* Or the thread would leave a dead page at once, and come back, and leave. */
	if (!r && agent_lost(0, &why))
		r = -ESTALE;
	if (!r)
		r = push_all(timeout_ms);
	if (!r)
		r = holdings_announce(&w.link, timeout_ms, &n_alone);
	if (r) {
		link_close(&w.link);
		return r;
	}
	close_fd(&w.trigger_fd);
	if (reader_current() == READER_OWN)
		say("the agent is back: attached to %s", w.socket_path);
	if (n_alone)
		say("%u reservations do not fit for the agent: held in this process alone",
		    n_alone);
	reader_switch(READER_AGENT);
	return 0;
}

/* What the thread does after it slept, by the source it slept on. */
static void follow_agent(short revents)
{
	const char *why;

	if (agent_lost(revents, &why))
		fall_back(why);
}

static void poll_tick(short revents)
{
	uint64_t now_ns = clock_now_ns();
	bool due = now_ns >= w.poll_due_ns;

	if (revents & POLLERR)
		close_fd(&w.trigger_fd);
	if (due && !attach(ATTACH_TIMEOUT_MS))
		return;
	if (due || revents & POLLPRI)
		own_look(false, revents & POLLPRI ? now_ns : 0, false);
	if (due)
		w.poll_due_ns = now_ns + PN_MEMWATCH_POLL_MS * NS_PER_MS;
}

static void *watch_thread(void *arg)
{
	struct pollfd fds[2] = { { .fd = w.stop_fd, .events = POLLIN } };
	uint64_t now_ns;

	pthread_mutex_lock(&w.lock);
	while (!fds[0].revents) {
		bool on_agent = reader_current() == READER_AGENT;
		int timeout_ms = verdict_log_send(&w.link, HEARTBEAT_CHECK_MS);

		fds[1].fd = on_agent ? w.link.sock : w.trigger_fd;
		fds[1].events = on_agent ? POLLRDHUP : POLLPRI;
		fds[1].revents = 0;
		if (!on_agent) {
			now_ns = clock_now_ns();
			timeout_ms = w.poll_due_ns > now_ns
					     ? (int)((w.poll_due_ns - now_ns) / NS_PER_MS) + 1
					     : 0;
		}
		pthread_mutex_unlock(&w.lock);
		poll(fds, 2, timeout_ms);
		pthread_mutex_lock(&w.lock);
		/* Another thread may have changed the source meanwhile. */
		if (fds[0].revents)
			break;
		if (reader_current() == READER_AGENT)
			follow_agent(on_agent ? fds[1].revents : 0);
		else
			poll_tick(on_agent ? 0 : fds[1].revents);
	}
	verdict_log_send(&w.link, 0);
	pthread_mutex_unlock(&w.lock);
	return NULL;
}

static void close_all(void)
{
	link_close(&w.link);
	host_source_close(&w.source);
	view_close(&w.view);
	close_fd(&w.trigger_fd);
	close_fd(&w.procfs_fd);
	close_fd(&w.cgroupfs_fd);
	close_fd(&w.stop_fd);
}

static void fork_prepare(void)
{
	pthread_mutex_lock(&w.lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&w.lock);
}

/*
 * The threads stayed in the parent: the child starts afresh, or never notices. Also when the watch
 * does not run: the fork may have come in the middle of a stop.
 */
static void fork_child(void)
{
	w.running = false;
	reader_after_fork();
	holdings_reset();
	close_all();
	relays_after_fork();
	pthread_mutex_unlock(&w.lock);
}

static int open_dir(const char *env, const char *fallback, int *ret_fd)
{
	const char *path = secure_getenv(env);

	*ret_fd = open(path && *path ? path : fallback, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

static void read_settings(void)
{
	settings_level(&w.config, get_env, NULL, warn_setting, NULL);
	if (socket_path_from_env(w.socket_path))
		warn_setting(NULL, "PN_SOCKET", secure_getenv("PN_SOCKET"), PN_SOCKET_DEFAULT);
}

static int start_locked(void)
{
	int no_proc, r;

	if (w.running)
		return 0;
	if (!w.atfork_done) {
		r = -pthread_atfork(fork_prepare, fork_parent, fork_child);
		if (r)
			return r;
		w.atfork_done = true;
	}
	read_settings();
	memset(&w.pushes, 0, sizeof(w.pushes));
	holdings_reset();
	w.link = LINK_CLOSED;
	w.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w.stop_fd < 0)
		return -errno;
	/* A container need not have /proc: the agent's page is enough, for as long as it lives. */
	no_proc = open_dir("PN_PROCFS", "/proc", &w.procfs_fd);
	r = no_proc == -ENOENT ? 0 : no_proc;
	if (!r) {
		/* No cgroup tree at all is fine: the reader is then told of none. */
		open_dir("PN_CGROUPFS", "/sys/fs/cgroup", &w.cgroupfs_fd);
		r = host_source_open(&w.source, w.procfs_fd);
	}
	if (!r)
		r = view_open(&w.view, reader_own_page(), w.procfs_fd, w.cgroupfs_fd,
			      w.cgroupfs_fd < 0 ? -1 : 0);
	if (!r && attach(START_TIMEOUT_MS)) {
		r = no_proc;
		if (!r)
			fall_back("no agent");
	}
	if (!r)
		r = thread_start(&w.thread, watch_thread, NULL, "pn_memwatch");
	if (r) {
		reader_switch(READER_NONE);
		close_all();
		return r;
	}
	w.running = true;
	return 0;
}

int pn_memwatch_start(void)
{
	int r;

	pthread_mutex_lock(&w.lock);
	r = start_locked();
	pthread_mutex_unlock(&w.lock);
	return r;
}

void pn_memwatch_stop(void)
{
	const uint64_t one = 1;

	pthread_mutex_lock(&w.lock);
	if (!w.running) {
		pthread_mutex_unlock(&w.lock);
		return;
	}
	w.running = false;
	if (write(w.stop_fd, &one, sizeof(one)) < 0) {
		/* Its counter is 0: this cannot fail. */
	}
	pthread_mutex_unlock(&w.lock);
	pthread_join(w.thread, NULL);

	reader_switch(READER_NONE);
	pthread_mutex_lock(&w.lock);
	relays_close();
	close_all();
	pthread_mutex_unlock(&w.lock);
}

bool pn_memwatch_running(void)
{
	return w.running;
}

void pn_memwatch_poll_now(void)
{
	struct proto_header ask = proto_header_make(PROTO_POLL_NOW, sizeof(ask), 0), ack;

	pthread_mutex_lock(&w.lock);
	if (w.running) {
		if (reader_current() != READER_AGENT)
			own_look(false, 0, true);
		else if (link_request(&w.link, &ask, sizeof(ask), PROTO_ACK, &ack, sizeof(ack),
				      REQUEST_TIMEOUT_MS) == -ENOTCONN)
			fall_back("the agent does not answer");
	}
	pthread_mutex_unlock(&w.lock);
}

/* Returns the die's place, 0 for one that was taken back, or -errno. */
static int set_die(struct die_push *push)
{
	int r;

	push->push_ns = clock_now_ns();
	r = die_pushes_set(&w.pushes, push, w.config.die_reserve_bytes);
	if (r)
		return r;
	lay_pushes();
	if (reader_current() == READER_AGENT) {
		r = push_die(push, REQUEST_TIMEOUT_MS);
		if (r >= 0 && !push->budget_bytes)
			r = push_all(REQUEST_TIMEOUT_MS);
		if (r != -ENOTCONN)
			return r;
		fall_back("the agent does not answer");
	} else {
		own_look(false, 0, false);
	}
	if (!push->budget_bytes)
		return 0;
	return push->index >= 0 ? push->index : die_table_find(&w.view.dies, &push->id);
}

static int set_die_locked(struct die_push *push)
{
	int r = -ENODATA;

	pthread_mutex_lock(&w.lock);
	if (w.running)
		r = set_die(push);
	pthread_mutex_unlock(&w.lock);
	return r;
}

void pn_memwatch_set_die(int die_id, uint64_t free_bytes, uint64_t budget_bytes,
			 uint64_t used_bytes)
{
	struct die_push push = {
		.index = die_id,
		.free_bytes = free_bytes,
		.budget_bytes = budget_bytes,
		.used_bytes = used_bytes,
	};

	set_die_locked(&push);
}

int pn_memwatch_set_die_uuid(const uint8_t uuid[16], uint64_t free_bytes, uint64_t budget_bytes,
			     uint64_t used_bytes)
{
	struct die_push push = {
		.index = -1,
		.free_bytes = free_bytes,
		.budget_bytes = budget_bytes,
		.used_bytes = used_bytes,
	};

	memcpy(push.id.uuid, uuid, sizeof(push.id.uuid));
	return set_die_locked(&push);
}

int pn_memwatch_set_die_pci(const char *pci_bus_id, uint64_t free_bytes, uint64_t budget_bytes,
			    uint64_t used_bytes)
{
	struct die_push push = {
		.index = -1,
		.free_bytes = free_bytes,
		.budget_bytes = budget_bytes,
		.used_bytes = used_bytes,
	};
	int r = die_pci_parse(pci_bus_id, push.id.pci);

	return r ? r : set_die_locked(&push);
}

uint64_t pn_memwatch_die_budget(uint64_t total_bytes)
{
	struct level_config config;

	settings_level(&config, get_env, NULL, NULL, NULL);
	return die_budget_bytes(total_bytes, config.die_reserve_bytes);
}

int pn_memwatch_read(pn_mem_state *ret)
{
	return reader_read(ret, NULL);
}

int pn_memwatch_read_ext(pn_mem_state *ret_state, pn_mem_ext *ret_ext)
{
	return reader_read(ret_state, ret_ext);
}

int pn_memwatch_wait(pn_memwatch_wait_t what, const pn_mem_state *seen, uint64_t deadline_ns,
		     pn_mem_state *ret)
{
	return reader_wait(what, seen, deadline_ns, ret);
}

int pn_memwatch_wait_at(pn_memwatch_at_t at, pn_mem_level level, uint64_t deadline_ns,
			pn_mem_state *ret)
{
	return reader_wait_at(at, level, deadline_ns, ret);
}

static int open_relay(pn_mem_level threshold)
{
	int r;

	pthread_mutex_lock(&w.lock);
	r = w.running ? relay_open(threshold) : -ENODATA;
	pthread_mutex_unlock(&w.lock);
	return r;
}

int pn_memwatch_fd(void)
{
	return open_relay(PN_MEM_LEVEL_OK);
}

int pn_memwatch_fd_at(pn_mem_level level)
{
	return level < PN_MEM_LEVEL_WATCH || level > PN_MEM_LEVEL_CRITICAL ? -EINVAL
									   : open_relay(level);
}

pn_memwatch_source_t pn_memwatch_source(void)
{
	switch (reader_current()) {
	case READER_AGENT:
		return PN_SOURCE_AGENT;
	case READER_OWN:
		return PN_SOURCE_POLL;
	default:
		return PN_SOURCE_NONE;
	}
}

int pn_memwatch_agent(pn_agent_info *ret)
{
	int r = -ENODATA;

	pthread_mutex_lock(&w.lock);
	if (w.running && reader_current() == READER_AGENT) {
		memset(ret, 0, sizeof(*ret));
		ret->pid = w.link.peer_pid;
		memcpy(ret->version, w.link.agent_version, sizeof(w.link.agent_version));
		r = 0;
	}
	pthread_mutex_unlock(&w.lock);
	return r;
}

int watch_ask(void *request, size_t request_bytes, uint16_t reply_type, void *reply,
	      size_t reply_bytes)
{
	int r = 0;

	memset(reply, 0, reply_bytes);
	pthread_mutex_lock(&w.lock);
	if (!w.running)
		r = -ENODATA;
	else if (reader_current() == READER_AGENT)
		r = link_request(&w.link, request, request_bytes, reply_type, reply, reply_bytes,
				 REQUEST_TIMEOUT_MS);
	pthread_mutex_unlock(&w.lock);
	return r;
}

int watch_lock(struct watch *ret)
{
	pthread_mutex_lock(&w.lock);
	if (!w.running) {
		pthread_mutex_unlock(&w.lock);
		return -ENODATA;
	}
	*ret = (struct watch){
		.link = reader_current() == READER_AGENT ? &w.link : NULL,
		.view = &w.view,
		.pushes = &w.pushes,
	};
	return 0;
}

void watch_unlock(void)
{
	pthread_mutex_unlock(&w.lock);
}

void watch_own_look(void)
{
	own_look(false, 0, false);
}

void watch_agent_lost(struct watch *watch)
{
	fall_back("the agent does not answer");
	watch->link = NULL;
}

void pn_memwatch_log_to(void (*fn)(void *arg, const char *line), void *arg)
{
	pthread_mutex_lock(&w.lock);
	w.log = fn;
	w.log_arg = arg;
	pthread_mutex_unlock(&w.lock);
}
