/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One sleeping thread and the first-come queue it stands in: the base of the batch gate and of
 * the GPU turn. A waiter lives on its thread's stack and has a futex word of its own, so that an
 * answer wakes exactly one thread.
 *
 * Whoever answers takes the waiter out of its queue under the owner's lock, onto a list of its
 * own, and wakes that list after unlocking: nobody waits for a lock while 10,000 threads are
 * being woken, and a woken thread needs no lock to leave. The lock is the owner's business.
 */
#ifndef PNMEM_LIB_WAITER_H
#define PNMEM_LIB_WAITER_H

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct waiter {
	struct waiter *prev;
	struct waiter *next;
	uint32_t answered; /* the futex word: 1 once rc and value are final */
	bool queued;       /* guarded by the owner's lock */
	int rc;
	uint64_t value; /* what it waits for; the owner's meaning */
};

struct waitlist {
	struct waiter *head;
	struct waiter *tail;
	uint32_t count;
};

static inline void waitlist_append(struct waitlist *list, struct waiter *w)
{
	w->next = NULL;
	w->prev = list->tail;
	if (list->tail)
		list->tail->next = w;
	else
		list->head = w;
	list->tail = w;
	list->count++;
}

static inline void waitlist_remove(struct waitlist *list, struct waiter *w)
{
	if (w->prev)
		w->prev->next = w->next;
	else
		list->head = w->next;
	if (w->next)
		w->next->prev = w->prev;
	else
		list->tail = w->prev;
	list->count--;
}

/* Puts w last in the queue. Owner's lock held. */
static inline void waiter_enqueue(struct waitlist *queue, struct waiter *w)
{
	w->answered = 0;
	w->queued = true;
	waitlist_append(queue, w);
}

/* Decides w: it leaves the queue for `wake`, which is woken after unlocking. Owner's lock held. */
static inline void waiter_answer(struct waitlist *queue, struct waiter *w, int rc, uint64_t value,
				 struct waitlist *wake)
{
	waitlist_remove(queue, w);
	w->queued = false;
	w->rc = rc;
	w->value = value;
	waitlist_append(wake, w);
}

/*
 * Wakes all of `wake`. A waiter may be gone as soon as its word is set, so the wake-up after it
 * goes to an address that may by then be another futex: that one sees a spurious wake-up, which
 * every futex user must take.
 */
static inline void waitlist_wake(struct waitlist *wake)
{
	struct waiter *next;

	for (struct waiter *w = wake->head; w; w = next) {
		uint32_t *word = &w->answered;

		next = w->next;
		__atomic_store_n(word, 1, __ATOMIC_RELEASE);
		syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
}

/* Sleeps until w is answered (0) or deadline_ns, CLOCK_MONOTONIC, has passed (-ETIMEDOUT). */
static inline int waiter_sleep(struct waiter *w, uint64_t deadline_ns)
{
	struct timespec ts = { .tv_sec = (time_t)(deadline_ns / 1000000000u),
			       .tv_nsec = (long)(deadline_ns % 1000000000u) };

	while (!__atomic_load_n(&w->answered, __ATOMIC_ACQUIRE)) {
		long rc = syscall(SYS_futex, &w->answered, FUTEX_WAIT_BITSET_PRIVATE, 0,
				  deadline_ns == UINT64_MAX ? NULL : &ts, NULL,
				  FUTEX_BITSET_MATCH_ANY);

		if (rc < 0 && errno == ETIMEDOUT)
			return -ETIMEDOUT;
	}
	return 0;
}

/*
 * Waits for the answer to a queued waiter, which is in w->rc when this returns: -ETIMEDOUT if
 * deadline_ns came first (UINT64_MAX: none). An answer that raced with the deadline counts.
 */
static inline void waiter_wait(struct waiter *w, uint64_t deadline_ns, struct waitlist *queue,
			       pthread_mutex_t *lock)
{
	bool answered;

	if (!waiter_sleep(w, deadline_ns))
		return;
	pthread_mutex_lock(lock);
	answered = !w->queued;
	if (!answered) {
		waitlist_remove(queue, w);
		w->queued = false;
		w->rc = -ETIMEDOUT;
	}
	pthread_mutex_unlock(lock);
	if (answered)
		waiter_sleep(w, UINT64_MAX);
}

#endif
