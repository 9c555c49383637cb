/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an engine has before it uses pnmem, for --no-guard: a pool of slots and a lock for one
 * forward at a time. Both serve strictly first come, first served, as the gate and the turn do, so
 * that the two modes differ in what they ask of memory and in nothing else.
 */
#ifndef ENGINE_PLAIN_H
#define ENGINE_PLAIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define PLAIN_SLOTS_MAX 1024

/* A ticket lock that sleeps. */
struct plain_lock {
	pthread_mutex_t mutex;
	pthread_cond_t turned;
	uint64_t next, serving;
};

void plain_lock_init(struct plain_lock *lock);
void plain_lock_destroy(struct plain_lock *lock);
void plain_lock_take(struct plain_lock *lock);
void plain_lock_give(struct plain_lock *lock);

struct plain_pool {
	struct plain_lock queue; /* held by the first in the queue while it waits for a slot */
	pthread_mutex_t mutex;
	pthread_cond_t freed;
	int n_slots;
	bool shutdown;
	bool taken[PLAIN_SLOTS_MAX];
};

/* n_slots: 1..PLAIN_SLOTS_MAX. */
void plain_pool_init(struct plain_pool *pool, int n_slots);
void plain_pool_destroy(struct plain_pool *pool);

/* Waits for a slot; returns it, or -ESHUTDOWN. */
int plain_pool_take(struct plain_pool *pool);
void plain_pool_give(struct plain_pool *pool, int slot);
void plain_pool_shutdown(struct plain_pool *pool);

#endif
