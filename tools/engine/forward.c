/* SPDX-License-Identifier: BSD-2-Clause */
/* See forward.h. */
#include "forward.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- the device --------------------------------------------------------------------------- */

static void *device_main(void *arg)
{
	struct device *device = arg;
	const struct timespec step = {
		.tv_sec = device->step_us / 1000000,
		.tv_nsec = device->step_us % 1000000 * 1000L,
	};
	struct device_job job;

	pthread_mutex_lock(&device->lock);
	for (;;) {
		while (!device->busy && !device->stop)
			pthread_cond_wait(&device->changed, &device->lock);
		if (device->stop)
			break;
		job = device->job;
		pthread_mutex_unlock(&device->lock);

		/* No lock is held here: only the turn keeps these buffers where they are. */
		nanosleep(&step, NULL);
		job.state[0]++;
		if (job.row)
			memset(job.row, 1, job.row_bytes);

		pthread_mutex_lock(&device->lock);
		device->busy = false;
		pthread_cond_broadcast(&device->changed);
	}
	pthread_mutex_unlock(&device->lock);
	return NULL;
}

static int device_start(struct device *device, unsigned step_us)
{
	device->step_us = step_us;
	device->busy = device->stop = false;
	pthread_mutex_init(&device->lock, NULL);
	pthread_cond_init(&device->changed, NULL);
	return -pthread_create(&device->thread, NULL, device_main, device);
}

static void device_stop(struct device *device)
{
	pthread_mutex_lock(&device->lock);
	device->stop = true;
	pthread_cond_broadcast(&device->changed);
	pthread_mutex_unlock(&device->lock);
	pthread_join(device->thread, NULL);
	pthread_cond_destroy(&device->changed);
	pthread_mutex_destroy(&device->lock);
}

/* The SPEC's pn_forward_step_begin: queues the work and returns. */
static void device_begin(struct device *device, const struct device_job *job)
{
	pthread_mutex_lock(&device->lock);
	device->job = *job;
	device->busy = true;
	pthread_cond_broadcast(&device->changed);
	pthread_mutex_unlock(&device->lock);
}

/* The SPEC's poll, waiting: returns when all of the work, copies included, is drained. */
static void device_drain(struct device *device)
{
	pthread_mutex_lock(&device->lock);
	while (device->busy)
		pthread_cond_wait(&device->changed, &device->lock);
	pthread_mutex_unlock(&device->lock);
}

/* ---- the turn ----------------------------------------------------------------------------- */

static void turn_destroy(struct forward *forward)
{
	if (forward->turn)
		pn_turn_free(forward->turn);
	else
		plain_lock_destroy(&forward->plain);
}

int forward_start(struct forward *forward, bool guarded, unsigned step_us)
{
	int r;

	memset(forward, 0, sizeof(*forward));
	if (guarded) {
		r = pn_turn_new(&forward->turn);
		if (r)
			return r;
	} else {
		plain_lock_init(&forward->plain);
	}
	r = device_start(&forward->device, step_us);
	if (r)
		turn_destroy(forward);
	return r;
}

void forward_stop(struct forward *forward)
{
	device_stop(&forward->device);
	free(forward->state.ptr);
	turn_destroy(forward);
}

void forward_begin(struct forward *forward, pn_turn_kind kind, uint64_t *ret_ticket)
{
	int r;

	*ret_ticket = 0;
	if (!forward->turn) {
		plain_lock_take(&forward->plain);
		return;
	}
	/* bs_gpu_acquire: prefill, bind and decode take the same ticket lock. */
	r = pn_turn_acquire(forward->turn, kind, UINT64_MAX, ret_ticket);
	assert(!r);
	(void)r;
}

void forward_end(struct forward *forward, uint64_t ticket)
{
	if (forward->turn)
		pn_turn_release(forward->turn, ticket);
	else
		plain_lock_give(&forward->plain);
}

static void free_retired(void *ctx, void *ptr)
{
	free(ptr);
}

/* Puts a larger state in place of the old one. The caller has the turn. */
static int state_replace(struct forward *forward, uint64_t ticket, void *ptr, size_t bytes)
{
	if (forward->turn)
		/* Freed when this turn ends, not earlier: its own work may still use the old. */
		return pn_turn_replace(forward->turn, ticket, &forward->state, ptr, bytes,
				       free_retired, NULL);
	free(forward->state.ptr);
	forward->state = (pn_turn_buf){ .ptr = ptr, .bytes = bytes };
	return 0;
}

/* The state's address, which holds until the turn ends or it is replaced. */
static uint8_t *state_get(struct forward *forward, uint64_t ticket, size_t *ret_bytes)
{
	void *ptr = forward->state.ptr;

	*ret_bytes = forward->state.bytes;
	if (forward->turn)
		pn_turn_get(forward->turn, ticket, &forward->state, &ptr, ret_bytes);
	return ptr;
}

int forward_bind(struct forward *forward, int n_slots)
{
	size_t need_bytes = (size_t)n_slots * FORWARD_STATE_BYTES, bytes;
	uint64_t ticket;
	uint8_t *grown, *old;
	int r = 0;

	forward_begin(forward, PN_TURN_BIND, &ticket);
	old = state_get(forward, ticket, &bytes);
	if (bytes < need_bytes) {
		grown = calloc(1, need_bytes);
		if (grown && old)
			memcpy(grown, old, bytes);
		r = grown ? state_replace(forward, ticket, grown, need_bytes) : -ENOMEM;
		if (r)
			free(grown);
	}
	forward_end(forward, ticket);
	return r;
}

void forward_step(struct forward *forward, uint64_t ticket, int slot, uint8_t *row,
		  size_t row_bytes)
{
	size_t bytes;
	struct device_job job = {
		.state = state_get(forward, ticket, &bytes) + (size_t)slot * FORWARD_STATE_BYTES,
		.row = row,
		.row_bytes = row_bytes,
	};

	device_begin(&forward->device, &job);
	device_drain(&forward->device);
}
