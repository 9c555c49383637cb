/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent's parts and what they share. One thread, one event loop: whatever wakes it (a kernel
 * record, a timer, a trigger, an engine) ends in the same agent_look().
 */
#ifndef PNMEM_AGENT_H
#define PNMEM_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "agent/hooks.h"
#include "core/level.h"
#include "host/source.h"

struct agent_view;
struct dies;
struct recorder;
struct server;

struct agent_options {
	const char *socket_path;
	const char *procfs;   /* directory */
	const char *cgroupfs; /* directory */
	const char *cuda_lib; /* libcuda for the die sampler; NULL: its default */
	bool no_bpf;
	bool foreground;
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
	unsigned n_cpus; /* online at the start: libc opens a file to tell, so not at every look */
	uint64_t event_ns;   /* kernel record that asked for the next look, 0 none */
	uint64_t trigger_ns; /* last time the PSI trigger fired */

	sd_event_source *timer; /* the next look that no event need cause */
	uint64_t looks;
	uint64_t wakeups;

	struct dies *dies;
	struct agent_view *views; /* the first is the host's own, without a cgroup */
	struct server *server;

	struct recorder *recorder; /* NULL: off */
};

/* look.c: reads everything, publishes every view, arms the timer. force: PSI too, now. */
void agent_look(struct agent *agent, bool force);

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

/* views.c: the views that engines are given. */
int views_open(struct agent *agent);
void views_close(struct agent *agent);

/* The view of the cgroup that process pid is in; made at its first use. 0 or -errno. */
int views_get(struct agent *agent, int pid, struct agent_view **ret);
/* Gives it back; the last one frees it. */
void views_put(struct agent *agent, struct agent_view *view);

/*
 * serve.c: the socket and its clients. Opening takes the path, so that a second agent ends before
 * it does anything else; engines can connect only once the agent listens, when all is ready. Both
 * log what went wrong. 0 or -errno.
 */
int server_open(struct agent *agent);
int server_listen(struct agent *agent);
void server_close(struct agent *agent);

#endif
