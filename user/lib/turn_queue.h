/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The turn without its sleeping: what pn_turn_acquire and pn_turn_release do between two sleeps,
 * with the calling thread as an argument. The model test plays every actor from one thread by it.
 * Not installed.
 */
#ifndef PNMEM_LIB_TURN_QUEUE_H
#define PNMEM_LIB_TURN_QUEUE_H

#include "pn_turn.h"
#include "lib/waiter.h"

/* One request for the turn; the caller fills kind and owner (any non-zero name of the thread). */
struct turn_waiter {
	struct waiter base; /* base.value: the ticket, from turn_enter on */
	pn_turn_kind kind;
	uint64_t owner;
};

/*
 * Asks for the turn. Returns 0: taken; -EINPROGRESS: queued, turn_wait must follow; or -EDEADLK,
 * -EINVAL as pn_turn_acquire.
 */
int turn_enter(pn_turn *turn, struct turn_waiter *w);

/* Waits for a queued w. Returns 0: taken; or -ETIMEDOUT: w is out of the queue. */
int turn_wait(pn_turn *turn, struct turn_waiter *w, uint64_t deadline_ns);

/* pn_turn_release by thread `owner`. */
int turn_leave(pn_turn *turn, uint64_t ticket, uint64_t owner);

#endif
