/* SPDX-License-Identifier: BSD-2-Clause */
/* See plain.h. */
#include "plain.h"

#include <errno.h>
#include <string.h>

void plain_lock_init(struct plain_lock *lock)
{
	pthread_mutex_init(&lock->mutex, NULL);
	pthread_cond_init(&lock->turned, NULL);
	lock->next = lock->serving = 0;
}

void plain_lock_destroy(struct plain_lock *lock)
{
	pthread_cond_destroy(&lock->turned);
	pthread_mutex_destroy(&lock->mutex);
}

void plain_lock_take(struct plain_lock *lock)
{
	uint64_t ticket;

	pthread_mutex_lock(&lock->mutex);
	ticket = lock->next++;
	while (lock->serving != ticket)
		pthread_cond_wait(&lock->turned, &lock->mutex);
	pthread_mutex_unlock(&lock->mutex);
}

void plain_lock_give(struct plain_lock *lock)
{
	pthread_mutex_lock(&lock->mutex);
	lock->serving++;
	pthread_cond_broadcast(&lock->turned);
	pthread_mutex_unlock(&lock->mutex);
}

void plain_pool_init(struct plain_pool *pool, int n_slots)
{
	plain_lock_init(&pool->queue);
	pthread_mutex_init(&pool->mutex, NULL);
	pthread_cond_init(&pool->freed, NULL);
	pool->n_slots = n_slots;
	pool->shutdown = false;
	memset(pool->taken, 0, sizeof(pool->taken));
}

void plain_pool_destroy(struct plain_pool *pool)
{
	pthread_cond_destroy(&pool->freed);
	pthread_mutex_destroy(&pool->mutex);
	plain_lock_destroy(&pool->queue);
}

static int pool_find(const struct plain_pool *pool)
{
	for (int slot = 0; slot < pool->n_slots; slot++)
		if (!pool->taken[slot])
			return slot;
	return -1;
}

int plain_pool_take(struct plain_pool *pool)
{
	int slot;

	plain_lock_take(&pool->queue);
	pthread_mutex_lock(&pool->mutex);
	while ((slot = pool_find(pool)) < 0 && !pool->shutdown)
		pthread_cond_wait(&pool->freed, &pool->mutex);
	if (pool->shutdown)
		slot = -ESHUTDOWN;
	else
		pool->taken[slot] = true;
	pthread_mutex_unlock(&pool->mutex);
	plain_lock_give(&pool->queue);
	return slot;
}

void plain_pool_give(struct plain_pool *pool, int slot)
{
	pthread_mutex_lock(&pool->mutex);
	pool->taken[slot] = false;
	pthread_cond_signal(&pool->freed);
	pthread_mutex_unlock(&pool->mutex);
}

void plain_pool_shutdown(struct plain_pool *pool)
{
	pthread_mutex_lock(&pool->mutex);
	pool->shutdown = true;
	pthread_cond_broadcast(&pool->freed);
	pthread_mutex_unlock(&pool->mutex);
}
