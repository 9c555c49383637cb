/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A live level that the test sets, in place of pn_memwatch under the batch gate. It can also be
 * a watch that is not running.
 */
#ifndef PNMEM_TESTS_FAKE_LEVEL_H
#define PNMEM_TESTS_FAKE_LEVEL_H

#include <errno.h>
#include <stdbool.h>

#include "lib/batch_source.h"
#include "../until.h"

struct fake_level {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int level;
	bool absent; /* no watch: -ENODATA */
	int reads;
};

#define FAKE_LEVEL(at)                                                                             \
	{                                                                                          \
		.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER,            \
		.level = (at)                                                                      \
	}

static inline int fake_level_read(void *ctx, pn_mem_state *ret)
{
	struct fake_level *fake = ctx;
	int rc;

	pthread_mutex_lock(&fake->lock);
	rc = fake->absent ? -ENODATA : 0;
	if (!rc)
		*ret = (pn_mem_state){ .level = (pn_mem_level)fake->level };
	fake->reads++;
	pthread_mutex_unlock(&fake->lock);
	return rc;
}

static inline int fake_level_wait(void *ctx, const pn_mem_state *seen, uint64_t deadline_ns)
{
	struct fake_level *fake = ctx;
	struct timespec ts = { .tv_sec = (time_t)(deadline_ns / SECOND_NS),
			       .tv_nsec = (long)(deadline_ns % SECOND_NS) };
	int rc = 0;

	pthread_mutex_lock(&fake->lock);
	while (!rc && !fake->absent && fake->level == (int)seen->level)
		rc = pthread_cond_clockwait(&fake->changed, &fake->lock, CLOCK_MONOTONIC, &ts);
	if (fake->absent)
		rc = ESHUTDOWN;
	pthread_mutex_unlock(&fake->lock);
	return -rc;
}

static inline void fake_level_set(struct fake_level *fake, int level)
{
	pthread_mutex_lock(&fake->lock);
	fake->level = level;
	pthread_cond_broadcast(&fake->changed);
	pthread_mutex_unlock(&fake->lock);
}

/* The watch is stopped, or started again. */
static inline void fake_level_set_absent(struct fake_level *fake, bool absent)
{
	pthread_mutex_lock(&fake->lock);
	fake->absent = absent;
	pthread_cond_broadcast(&fake->changed);
	pthread_mutex_unlock(&fake->lock);
}

/* How often the gate has looked. */
static inline int fake_level_reads(struct fake_level *fake)
{
	int reads;

	pthread_mutex_lock(&fake->lock);
	reads = fake->reads;
	pthread_mutex_unlock(&fake->lock);
	return reads;
}

static inline struct bs_pressure_source fake_level_source(struct fake_level *fake,
							  uint64_t denial_ns)
{
	return (struct bs_pressure_source){
		.read = fake_level_read,
		.wait = fake_level_wait,
		.ctx = fake,
		.denial_ns = denial_ns,
	};
}

#endif
