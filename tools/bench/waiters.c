/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long until 10,000 requests that wait at the batch gate have their answer, from the call that
 * gives it until the last thread runs again: all released, and all refused. Beside the kernel's
 * own share: one FUTEX_WAKE of as many threads that sleep on one word.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"
#include "host/clock.h"
#include "pn_batch.h"

#define STACK_BYTES (64 * 1024)
/* Counted in is not yet asleep: time for the last ones to get there. Not measured. */
#define SETTLE_MS 300

enum act { ACT_BARE, ACT_RELEASE, ACT_REFUSE, ACT_COUNT };

/*
 * A thread stays, asleep on `parked`, after its answer: exiting would be measured otherwise.
 * Private futexes, as the gate uses.
 */
struct crowd {
	bs_sched *bs;
	enum act act;
	_Atomic uint32_t ready;
	_Atomic uint32_t left;  /* without an answer */
	_Atomic uint32_t wrong; /* answers other than the one that was given */
	_Atomic uint32_t bare;
	_Atomic uint32_t parked;
	uint64_t last_ns; /* when the last one ran again */
};

static void word_wait(_Atomic uint32_t *word)
{
	while (!atomic_load(word))
		syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static void word_wake_all(_Atomic uint32_t *word)
{
	atomic_store(word, 1);
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void *crowd_main(void *arg)
{
	struct crowd *crowd = arg;
	bs_grant grant;
	int r = 0;

	atomic_fetch_add(&crowd->ready, 1);
	if (crowd->act == ACT_BARE)
		word_wait(&crowd->bare);
	else
		r = bs_slot_acquire(crowd->bs, NULL, UINT64_MAX, &grant);
	if (r != (crowd->act == ACT_REFUSE ? BS_REFUSED : 0))
		atomic_fetch_add(&crowd->wrong, 1);
	if (atomic_fetch_sub(&crowd->left, 1) == 1)
		crowd->last_ns = clock_now_ns();
	word_wait(&crowd->parked);
	return NULL;
}

static void crowd_answer(struct crowd *crowd, int waiters)
{
	switch (crowd->act) {
	case ACT_BARE:
		word_wake_all(&crowd->bare);
		break;
	case ACT_RELEASE:
		bs_set_ceiling(crowd->bs, waiters + 1);
		break;
	default:
		bs_notify_pressure(crowd->bs, PN_MEM_LEVEL_CRITICAL);
	}
}

/* Creates the threads and waits until they sleep. Returns how many there are. */
static int crowd_gather(struct crowd *crowd, pthread_t *threads, int waiters)
{
	pthread_attr_t attr;
	int started = 0;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	while (started < waiters && !pthread_create(&threads[started], &attr, crowd_main, crowd))
		started++;
	pthread_attr_destroy(&attr);
	while ((int)atomic_load(&crowd->ready) < started)
		sched_yield();
	bench_sleep_ms(SETTLE_MS);
	return started;
}

/* One round: adds its milliseconds. 0 or -errno. */
static int crowd_round(enum act act, int waiters, struct samples *ms)
{
	pthread_t *threads = calloc((size_t)waiters, sizeof(*threads));
	struct crowd crowd = { .act = act, .left = (uint32_t)waiters };
	uint64_t start_ns;
	int started, r = threads ? bs_new(&crowd.bs, waiters + 1, 1) : -ENOMEM;
	bs_grant held;

	if (!r)
		r = bs_slot_acquire(crowd.bs, NULL, 0, &held); /* the only slot: all others wait */
	if (r) {
		bs_free(crowd.bs);
		free(threads);
		return r;
	}
	started = crowd_gather(&crowd, threads, waiters);
	start_ns = clock_now_ns();
	crowd_answer(&crowd, waiters);
	while (atomic_load(&crowd.left) > (uint32_t)(waiters - started))
		bench_sleep_ms(1);
	word_wake_all(&crowd.parked);
	for (int i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	if (started < waiters)
		r = -EAGAIN;
	else if (crowd.wrong)
		r = -EBADMSG;
	else
		samples_add(ms, (double)(crowd.last_ns - start_ns) / 1e6);
	bs_free(crowd.bs);
	free(threads);
	return r;
}

void waiters_bench(struct bench *bench)
{
	static struct samples ms[ACT_COUNT];
	static const char *const names[] = { "", "waiters released", "waiters refused" };
	int waiters = bench->quick ? 500 : 10000, rounds = bench->quick ? 2 : 15, r = 0;

	for (int round = 0; round < rounds && !r && !bench_stopped(); round++)
		for (int act = 0; act < ACT_COUNT && !r; act++)
			r = crowd_round((enum act)act, waiters, &ms[act]);
	if (bench_stopped())
		return;
	for (int act = ACT_RELEASE; act < ACT_COUNT; act++) {
		char name[64];

		snprintf(name, sizeof(name), "%d %s, last awake", waiters, names[act]);
		if (r)
			rows_add_failed(&bench->rows, name, "%d threads: %s", waiters,
					bench_why(r));
		else
			rows_add_samples(&bench->rows, name, "ms", &ms[act], "one bare FUTEX_WAKE",
					 &ms[ACT_BARE], GOAL_VALUE, 50);
	}
}
