/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decode slots and the queue before them: pnmem's batch gate when guarded, a plain pool otherwise.
 * A follower thread keeps the gate's ceiling at the ladder's rung 2.
 */
#ifndef ENGINE_SLOTS_H
#define ENGINE_SLOTS_H

#include "guard.h"
#include "plain.h"
#include "pn_batch.h"

struct slots {
	const struct guard *guard;
	bs_sched *gate;
	pthread_t follower;
	struct plain_pool plain;
};

/*
 * Creates guard->configured.max_slots slots, at most PLAIN_SLOTS_MAX; guard must be started.
 * Returns 0 or -errno.
 */
int slots_start(struct slots *slots, const struct guard *guard);

/* Ends all waits, now and later. */
void slots_shutdown(struct slots *slots);

/* Frees all. No request may be left, and guard must have been stopped: that ends the follower. */
void slots_stop(struct slots *slots);

/*
 * Waits for a slot, guarded at most queue_ms. Returns the slot, or -errno with *ret_refusal filled.
 */
int slots_acquire(struct slots *slots, unsigned queue_ms, struct refusal *ret_refusal);
void slots_release(struct slots *slots, int slot);

/* May decode state be bound for n_slots slots? False: *ret_refusal says why. */
bool slots_bind_check(struct slots *slots, int n_slots, struct refusal *ret_refusal);

/* Admission said no at this level. */
void slots_denied(struct slots *slots, int level);

#endif
