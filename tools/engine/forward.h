/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One forward at a time: prefill, bind and decode step all take the GPU turn. A decode step is
 * asynchronous, done by a thread that stands for the device; the turn is kept until it is drained,
 * so that nobody moves a buffer that the device may still see (the SPEC's hazards 1 and 2).
 * --no-guard: a plain lock in the turn's place.
 */
#ifndef ENGINE_FORWARD_H
#define ENGINE_FORWARD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plain.h"
#include "pn_turn.h"

/* Decode state per slot; small beside KV, so the reserve covers it. */
#define FORWARD_STATE_BYTES ((size_t)64 << 10)

/* The work for the device: advance a slot's state and write a KV row (or none). */
struct device_job {
	uint8_t *state;
	uint8_t *row;
	size_t row_bytes;
};

struct device {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned step_us;
	bool busy, stop;
	struct device_job job;
};

struct forward {
	pn_turn *turn; /* NULL: not guarded, then plain */
	struct plain_lock plain;
	pn_turn_buf state; /* FORWARD_STATE_BYTES for each slot ever bound */
	struct device device;
};

/* step_us: how long a decode step takes. Returns 0 or -errno; end with forward_stop. */
int forward_start(struct forward *forward, bool guarded, unsigned step_us);

/* Nobody may be in a forward. */
void forward_stop(struct forward *forward);

/* Takes the turn; *ret_ticket names it. Never fails: no thread takes it twice. */
void forward_begin(struct forward *forward, pn_turn_kind kind, uint64_t *ret_ticket);
void forward_end(struct forward *forward, uint64_t ticket);

/* Makes the decode state large enough for n_slots. Takes a turn itself. 0 or -ENOMEM. */
int forward_bind(struct forward *forward, int n_slots);

/* Under a PN_TURN_STEP turn: one decode step of a slot, from begin until it is drained. */
void forward_step(struct forward *forward, uint64_t ticket, int slot, uint8_t *row,
		  size_t row_bytes);

#endif
