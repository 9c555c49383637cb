/* SPDX-License-Identifier: BSD-2-Clause */
/* A view with its page, shared by one user's engines of one cgroup. */
#ifndef PNMEM_AGENT_VIEWS_VIEWS_H
#define PNMEM_AGENT_VIEWS_VIEWS_H

#include "agent/agent.h"
#include "agent/recorder/recorder_view.h"
#include "core/budget.h"
#include "core/psi_live.h"
#include "host/signals.h"
#include "host/view.h"

struct engine_dies;

/* Long enough for two cgroup paths as /proc/PID/cgroup shows them. */
#define VIEW_KEY_BYTES 8192

/*
 * views.c: the paths of the process's cgroup that decide which files a view reads. For a process
 * that cannot be found, "".
 */
void views_key(const struct agent *agent, int pid, char key[static VIEW_KEY_BYTES]);

struct agent_view {
	struct agent_view *next;
	struct view view;
	struct view_page *page;      /* what it is published on */
	bool fresh;                  /* the next publish takes over from an engine's poll */
	bool asked;                  /* an engine waits for the next one */
	uint8_t logged[8];           /* as agent.source_logged, for the group's sources */
	struct memcg_events *events; /* NULL: nothing to poll */
	unsigned n_users;            /* clients that have it */
	uint64_t read_ns;            /* when its group was read last */
	uint64_t churn_bytes;        /* agent.churn_bytes then */
	uint64_t stalled_ns;         /* when its group was last found to have stalled */
	struct spared_own own;       /* spared.c: the others' stalls and its own */
	struct psi_live live;        /* of own.total */
	struct engine_dies *engines; /* what its clients pushed of their dies (dies.c) */
	uint64_t reserved_version;   /* of its sums (reserve.c); 0: they are to be made again */
	struct recorder_view trace;  /* what the flight recorder has of it */
	const char *key;             /* the page's: the cgroup's paths; "" for the host's own */
	uid_t uid;
	TAILQ_ENTRY(agent_view) sleepers_link;
	struct sleeper_queue *sleepers_queue; /* sleepers.c: where it waits to wake more, or NULL */
	struct budget sleepers_budget;        /* of batches beyond the first of a look */
};

#endif
