/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the sampler's own context takes of a die. cuMemGetInfo needs a context, so a process cannot
 * see a die's free memory before its own: a second process, this same program as a *holder*,
 * retains a context that is like ours in everything, and we look before it does, while it holds
 * it, and after it has ended. The figure stands if free memory was the same before and after.
 *
 * It is measured once a die, and only while at least half of it is free, so that the second context
 * is in nobody's way and cannot move the level.
 */
#ifndef PNMEM_DIES_CONTEXT_COST_H
#define PNMEM_DIES_CONTEXT_COST_H

#include <sys/types.h>

#include "dies/die.h"

enum cost_state { COST_IDLE, COST_RETAINING, COST_LEAVING };

struct context_cost {
	enum cost_state state;
	int fd; /* to poll for input while not COST_IDLE: the holder's socket, then its pidfd */
	int pidfd;
	pid_t pid;
	struct die *die;
	uint64_t before_bytes;
	uint64_t during_bytes;
};

/* Starts a measurement if `last`, the newest sample of `die`, allows one and none is running. */
void context_cost_start(struct context_cost *cost, struct die *die, const struct die_sample *last,
			const char *library);

/*
 * To be called when cost->fd is readable; never blocks on the holder. On success it has written
 * die->own_context_bytes. Returns false where die_sample() did.
 */
bool context_cost_continue(struct context_cost *cost, const struct cuda *cuda);

/* The holder: retains, says so on descriptor 3, stays until it is closed. */
enum die_exit context_cost_hold(const struct cuda *cuda, struct die *dies, int n_dies,
				const char *pci);

#endif
