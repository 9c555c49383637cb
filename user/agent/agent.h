/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent's parts and what they share. One thread, one event loop: whatever wakes it (a kernel
 * record, a timer, a trigger, an engine) ends in the same agent_look().
 */
#ifndef PNMEM_AGENT_H
#define PNMEM_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "agent/hooks/hooks.h"
#include "core/level.h"
#include "core/pace.h"
#include "core/spared.h"
#include "host/host_file.h"
#include "host/source.h"

struct agent_view;
struct closer;
struct dies;
struct follow;
struct notify;
struct pressure_watch;
struct recorder;
struct reserve;
struct server;
struct view_pages;

/* Groups that kernel records told of since the last look; 64 in one is a storm. */
#define NAMED_GROUPS_MAX 64

struct named_groups {
	uint64_t id[NAMED_GROUPS_MAX];
	unsigned n;
	bool too_many; /* the others could not be kept: it may be any */
};

/* spared.c: the host's PSI without what groups at their own limits stalled by themselves. */
struct spared {
	struct spared_psi psi;
	struct psi_live live; /* of psi.total */
	uint64_t taken_ns;    /* the last time that anything was taken off, 0 never */
	uint64_t begin_ns;    /* since when that has been happening */
	bool active;          /* in this look */
	struct host_source others;
	struct host_source own; /* for the view that is being published */
};

/* sleepers.c: pages on which more sleep than a look wakes. */
TAILQ_HEAD(sleeper_queue, agent_view);

struct sleepers {
	sd_event_source *timer;
	struct sleeper_queue soon; /* a batch each turn of the loop */
	struct sleeper_queue
		greedy;     /* used up their budgets: a batch each SLEEPERS_GREEDY_GAP_NS */
	uint64_t greedy_ns; /* when one of those was served last */
};

struct agent_options {
	const char *socket_path;
	const char *procfs;   /* directory */
	const char *cgroupfs; /* directory */
	const char *cuda_lib; /* libcuda for the die sampler; NULL: its default */
	bool no_bpf;
	bool foreground;
	bool replace;       /* take the socket over from the agent that serves it, if one does */
	uint32_t best_mode; /* PN_MODE_*: do not try anything better */
};

struct agent {
	sd_event *event;
	const struct agent_options *options;
	struct level_config config;
	int procfs_fd;
	int cgroupfs_fd; /* -1: there is none */

	struct host_source source;
	uint8_t source_logged[8]; /* PN_SRC_*: state that the log has last told of */

	struct hooks *hooks; /* NULL with --no-bpf; what was tried, even if nothing could be had */
	bool hooks_live;     /* at least one of them is attached */
	uint32_t mode;       /* PN_MODE_*: what wakes the agent for stalls */
	int trigger_fd;      /* PSI trigger, -1: none */
	bool memcg_poll;     /* no hook tells of cgroup events: poll memory.events */
	struct pace soon_looks;     /* those that agent_look_soon has made */
	sd_event_source *soon_look; /* the next of them, NULL: none had to wait yet */
	unsigned n_cpus; /* online at the start: libc opens a file to tell, so not at every look */
	uint64_t event_ns;   /* kernel record or trigger that asked for the next look, 0 none */
	uint64_t trigger_ns; /* last time the PSI trigger fired */

	sd_event_source *timer; /* the next look that no event need cause */
	uint64_t looks;
	uint64_t wakeups;

	struct dies *dies;
	struct reserve *reserve;  /* NULL before the first reservation (reserve.c) */
	uint64_t serving_ns;      /* since when engines can connect */
	struct view_pages *pages; /* of the views */
	const struct views_calls *views_calls;
	struct agent_view *views; /* the first is the host's own, without a cgroup */
	unsigned n_views;
	struct agent_view *turn; /* the view that was read last in turn, NULL: none yet */
	uint64_t turn_ns;        /* the last look in which some had their turn */
	uint64_t all_ns;         /* the last look for every view */
	uint64_t drain_ns;       /* the last that took along records that ask for no look */
	struct named_groups named;
	struct host_file vmstat;
	uint64_t churn_bytes; /* vmstat_churn() as of the last look that needed it and had it */
	bool churn_known;     /* it had it */
	struct spared spared;
	struct sleepers sleepers;
	struct closer *closer; /* NULL in a test that needs none */
	struct follow *follow;
	struct server *server;
	struct pressure_watch *pressure_watch; /* NULL: no such socket */
	struct notify *notify;                 /* NULL: no service manager */
	struct recorder *recorder;             /* NULL: off */
};

/*
 * look.c: reads the host and the groups that may have changed, publishes every view, arms the
 * timer. force: PSI too, now.
 */
void agent_look(struct agent *agent, bool force);

/*
 * The same for what comes as often as groups stall, without a hook that limits it (a PSI trigger,
 * memory.events): now, or a little later if such looks have taken a tenth of the time. So clients
 * are served however many groups are at their limits.
 */
void agent_look_soon(struct agent *agent);

/*
 * The same because engines asked: their views (agent_view.asked) are read and published; the
 * others only if there was no look for all of them in the last 10 ms, or a level moved, or what is
 * reserved did.
 */
void agent_look_asked(struct agent *agent, bool force);

/* wake.c: the hooks, or the best substitute for them: there always is one. */
void wake_open(struct agent *agent);
void wake_close(struct agent *agent);
/* Takes along the records that did not ask to wake us. */
void wake_drain(struct agent *agent);

/*
 * memcg_events.c: looks when memory.events of a watched group changes, where no hook tells of it.
 * dir_fd is the group's cgroup v2 folder and stays the caller's. NULL if it is not needed or cannot
 * be had: the other wake-ups go on without it. Closing takes NULL.
 */
struct memcg_events;
struct memcg_events *memcg_events_open(struct agent *agent, int dir_fd);
void memcg_events_close(struct memcg_events *events);

/*
 * What views.c tells of views: a new one that has not been published yet, and one that has ended.
 */
struct views_calls {
	void (*begun)(struct agent *agent, struct agent_view *view);
	void (*ended)(struct agent *agent, struct agent_view *view);
};

/* views.c: the views that engines are given. calls stays the caller's. 0 or -errno. */
int views_open(struct agent *agent, const struct views_calls *calls);
void views_close(struct agent *agent);

/*
 * This user's view of the cgroup that process pid is in; made at its first use. Each user has one,
 * since what engines say of dies is on it. For whoever may ask for any view: no budget applies. 0
 * or -errno.
 */
int views_get(struct agent *agent, int pid, uid_t uid, struct agent_view **ret);
/*
 * The same for a process as it was when it connected, pidfd as peer_process_open returned it. Where
 * it has ended its number may be another's: then a view without a cgroup, and *pid is 0. counted as
 * view_pages_get says: -EAGAIN also where the client is over its budget of new pages.
 */
int views_get_of_peer(struct agent *agent, int pidfd, int *pid, uid_t uid, bool counted,
		      struct agent_view **ret);
/* Gives it back; the last one frees it, and its page waits for its next use. */
void views_put(struct agent *agent, struct agent_view *view);

/* Watches memory.events of the view's group, as it is now. */
void views_watch_events(struct agent *agent, struct agent_view *av);

/* False if pid is in another cgroup than the view's; true also where that cannot be told. */
bool views_has(const struct agent *agent, const struct agent_view *view, int pid);

/*
 * views_read.c: a kernel record is about this group. Bounded work; the next look makes use of it.
 */
void views_name(struct agent *agent, uint64_t cgroup_id);
/* Reads the groups that may have changed, or (all: false) just those of the engines that asked.
 * After the host's source. */
void views_read(struct agent *agent, bool all, uint64_t now_ns);

/* spared.c: once in each look, after the host's source and the groups were read. */
void spared_look(struct agent *agent, uint64_t now_ns);
/* The host as it concerns this view; valid until the next call. */
const struct host_source *spared_source(struct agent *agent, struct agent_view *av,
					uint64_t now_ns);

/*
 * sleepers.c: wakes who sleeps on the pages that a look has published, at most SLEEPERS_BATCH on
 * each. The event loop goes on with the others, a batch at a time, so that a client with millions
 * of sleepers delays nobody else's. Opening returns 0 or -errno.
 */
#define SLEEPERS_BATCH         128
#define SLEEPERS_GREEDY_GAP_NS 1000000ull
int sleepers_open(struct agent *agent);
void sleepers_wake(struct agent *agent);
/* The view is about to be freed. */
void sleepers_forget(struct agent_view *av);
void sleepers_close(struct agent *agent);

/*
 * serve.c: the clients. Opening takes the socket's path (socket.c), so that a second agent ends
 * before it does anything else; engines can connect only once the agent listens, when all is ready.
 * With options.replace, opening leaves a path that is served alone, and the agent that serves it is
 * asked to end by server_take_over, which otherwise does nothing. All log what went wrong. 0 or
 * -errno.
 */
int server_open(struct agent *agent);
int server_take_over(struct agent *agent);
int server_listen(struct agent *agent);
/* A look soon, one for all who want one: for what clients can cause as often as they like. */
void server_want_look(struct agent *agent);
/* A resum (reserve.h), as soon as one may be made. */
void server_want_resum(struct agent *agent);
void server_close(struct agent *agent);
/* The path of the socket, with the symbolic links of its folders resolved. */
const char *server_path(const struct agent *agent);

/* subscribe.c: tells subscribers of levels that changed in the look that was just published. */
void server_tell(struct agent *agent);

#endif
