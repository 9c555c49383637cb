/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The dies as the agent knows them: the sampler's samples, the same for every view, and over them
 * in each view what its own engines push. Without a driver there is no sampler and nothing is
 * watched, but the launcher waits for the day that one is loaded; with PN_DIE_SOURCE push or off
 * there is not even that.
 */
#ifndef PNMEM_AGENT_GPU_DIES_H
#define PNMEM_AGENT_GPU_DIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dies.h"
#include "pn_memwatch.h"

struct agent;
struct agent_view;

/*
 * First of all, since it forks the launcher and the finder, where dies may be sampled. The first
 * look, which comes before privileges are dropped, loads the programs for libcuda; the first look
 * that finds something to sample starts the sampler. 0 or -errno.
 */
int dies_open(struct agent *agent);
void dies_close(struct agent *agent);

/*
 * At each look, before views are published, all of them or those that asked: gives each its dies
 * where they have changed. Returns whether there is something new for all of them, so that all are
 * to be published; a die with the host's memory is as new as that and no reason to.
 */
bool dies_look(struct agent *agent, bool all, uint64_t now_ns);

/* Gives a new view its dies. */
void dies_give(struct agent *agent, struct agent_view *av);

/* Whether there may be a sampler, now or once a driver is loaded. */
bool dies_may_sample(const struct agent *agent);

/*
 * A push from one engine (owner is its client, as a name only); the caller then looks. Returns the
 * die's place in the view, 0 for one that was taken back, or -errno: as die_pushes_set, -ENOMEM,
 * -EOPNOTSUPP (PN_DIE_SOURCE takes no pushes).
 */
int dies_push(struct agent *agent, struct agent_view *view, const void *owner,
	      struct die_push *push);

/* Asks for a sample of every die, so that it shows what has just been allocated. */
void dies_sample(struct agent *agent);

/* Process pid has attached to the agent: if it uses libcuda, it is to be seen from now on. */
void dies_engine(struct agent *agent, int pid);

/* The engine has gone. Returns whether it had pushed any: the caller then looks. */
bool dies_forget(struct agent *agent, struct agent_view *view, const void *owner);

/* As pn_memwatch_dies says. Returns the number of lines written, at most max. */
size_t dies_report(const struct agent *agent, pn_hook_status *ret, size_t max);

#endif
