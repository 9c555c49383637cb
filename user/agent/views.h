/* SPDX-License-Identifier: BSD-2-Clause */
/* A view with its sealed page, shared by the engines of one cgroup. */
#ifndef PNMEM_AGENT_VIEWS_H
#define PNMEM_AGENT_VIEWS_H

#include "agent/recorder.h"
#include "host/view.h"

struct engine_dies;

/* Long enough for two cgroup paths as /proc/PID/cgroup shows them. */
#define VIEW_KEY_BYTES 8192

struct agent_view {
	struct agent_view *next;
	struct view view;
	int memfd;                   /* the page, sealed against everything but our own mapping */
	bool fresh;                  /* the next publish takes over from an engine's poll */
	uint8_t logged[8];           /* as agent.source_logged, for the group's sources */
	struct memcg_events *events; /* NULL: nothing to poll */
	unsigned n_users;            /* clients that have it */
	struct engine_dies *engines; /* what its clients pushed of their dies (dies.c) */
	struct recorder_view trace;  /* what the flight recorder has of it */
	char *key;                   /* the cgroup's paths; "" for the host's own */
};

#endif
