/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that move to another cgroup while the agent serves them. All that are served are looked
 * up in a round: when the kernel has counted a move (bpf/moves.bpf.c), and now and then in any
 * case. A round is done in slices, between which the agent does everything else.
 */
#ifndef PNMEM_AGENT_VIEWS_FOLLOW_H
#define PNMEM_AGENT_VIEWS_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

struct agent;
struct agent_view;

/* One that is served. */
struct followed {
	struct followed *next, *prev;   /* NULL: it is not in the list */
	struct agent_view *const *view; /* the one that it has; *view is NULL before it has one */
	int pid;
	/* It has moved. May remove it. Returns false if it is to be looked up again later. */
	bool (*moved)(struct followed *followed);
};

/* 0 or -errno. */
int follow_open(struct agent *agent);
void follow_close(struct agent *agent);

/* With view, pid and moved filled in. */
void follow_add(struct agent *agent, struct followed *followed);
/* Allowed for one that is not in the list. */
void follow_remove(struct agent *agent, struct followed *followed);

/* At the end of each look: begins a round if it is time for one. */
void follow_look(struct agent *agent, uint64_t now_ns);

#endif
