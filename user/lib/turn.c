/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GPU turn of pn_turn.h. The mutex guards who has the turn and who is next; buffers and the
 * list of retired ones need none, because only the one who has the turn touches them. Sleeping
 * and waking is in waiter.h.
 */
#include <assert.h>
#include <stdlib.h>

#include "pn_turn.h"
#include "lib/turn_queue.h"

/* In place of a ticket while the ended turn's buffers are freed: taken, and nobody's. */
#define TICKET_ENDING UINT64_MAX

struct turn_retired {
	struct turn_retired *next;
	void *ptr;
	pn_turn_free_fn free_fn;
	void *ctx;
};

struct pn_turn {
	pthread_mutex_t lock;
	struct waitlist queue;
	uint64_t last_ticket; /* given out */

	uint64_t ticket; /* of the one who has the turn, 0 nobody; written under lock */
	pn_turn_kind kind;
	uint64_t owner; /* the thread that took it */

	struct turn_retired *retired;
	uint64_t generation;
};

/* Names the calling thread; unlike a thread id it is never used again. */
static uint64_t turn_self(void)
{
	static uint64_t last;
	static _Thread_local uint64_t self;

	if (!self)
		self = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
	return self;
}

static void turn_set_ticket(pn_turn *turn, uint64_t ticket)
{
	__atomic_store_n(&turn->ticket, ticket, __ATOMIC_RELEASE);
}

static bool turn_is(pn_turn *turn, uint64_t ticket)
{
	return ticket && ticket != TICKET_ENDING &&
	       __atomic_load_n(&turn->ticket, __ATOMIC_ACQUIRE) == ticket;
}

/* Locked. */
static void turn_give(pn_turn *turn, struct turn_waiter *w)
{
	turn->kind = w->kind;
	turn->owner = w->owner;
	turn_set_ticket(turn, w->base.value);
}

int turn_enter(pn_turn *turn, struct turn_waiter *w)
{
	int rc = 0;

	if (w->kind < PN_TURN_PREFILL || w->kind > PN_TURN_STEP)
		return -EINVAL;
	pthread_mutex_lock(&turn->lock);
	if (turn->ticket && turn->owner == w->owner) {
		rc = -EDEADLK;
	} else {
		w->base.value = ++turn->last_ticket;
		if (turn->ticket) {
			waiter_enqueue(&turn->queue, &w->base);
			rc = -EINPROGRESS;
		} else {
			turn_give(turn, w);
		}
	}
	pthread_mutex_unlock(&turn->lock);
	return rc;
}

int turn_wait(pn_turn *turn, struct turn_waiter *w, uint64_t deadline_ns)
{
	waiter_wait(&w->base, deadline_ns, &turn->queue, &turn->lock);
	return w->base.rc;
}

/* Frees what the ending turn retired. */
static void turn_free_retired(pn_turn *turn)
{
	struct turn_retired *next;

	for (struct turn_retired *r = turn->retired; r; r = next) {
		next = r->next;
		r->free_fn(r->ctx, r->ptr);
		free(r);
	}
	turn->retired = NULL;
}

int turn_leave(pn_turn *turn, uint64_t ticket, uint64_t owner)
{
	struct waitlist wake = { 0 };
	struct waiter *next;

	pthread_mutex_lock(&turn->lock);
	if (!turn_is(turn, ticket) || (turn->kind != PN_TURN_STEP && turn->owner != owner)) {
		pthread_mutex_unlock(&turn->lock);
		return -EPERM;
	}
	if (turn->retired) {
		/* Unlocked, since freeing device memory may take long; nobody else can end it. */
		turn_set_ticket(turn, TICKET_ENDING);
		turn->owner = owner;
		pthread_mutex_unlock(&turn->lock);
		turn_free_retired(turn);
		pthread_mutex_lock(&turn->lock);
	}
	next = turn->queue.head;
	if (next) {
		waiter_answer(&turn->queue, next, 0, next->value, &wake);
		turn_give(turn, (struct turn_waiter *)next);
	} else {
		turn_set_ticket(turn, 0);
	}
	pthread_mutex_unlock(&turn->lock);
	waitlist_wake(&wake);
	return 0;
}

int pn_turn_new(pn_turn **ret)
{
	pn_turn *turn = calloc(1, sizeof(*turn));

	if (!turn)
		return -ENOMEM;
	pthread_mutex_init(&turn->lock, NULL);
	*ret = turn;
	return 0;
}

void pn_turn_free(pn_turn *turn)
{
	if (!turn)
		return;
	pthread_mutex_lock(&turn->lock);
	assert(!turn->ticket && !turn->queue.head);
	pthread_mutex_unlock(&turn->lock);
	pthread_mutex_destroy(&turn->lock);
	free(turn);
}

int pn_turn_acquire(pn_turn *turn, pn_turn_kind kind, uint64_t deadline_ns, uint64_t *ret_ticket)
{
	struct turn_waiter w = { .kind = kind, .owner = turn_self() };
	int rc = turn_enter(turn, &w);

	if (rc == -EINPROGRESS)
		rc = turn_wait(turn, &w, deadline_ns);
	if (!rc)
		*ret_ticket = w.base.value;
	return rc;
}

int pn_turn_release(pn_turn *turn, uint64_t ticket)
{
	return turn_leave(turn, ticket, turn_self());
}

int pn_turn_get(pn_turn *turn, uint64_t ticket, const pn_turn_buf *buf, void **ret_ptr,
		size_t *ret_bytes)
{
	if (!turn_is(turn, ticket))
		return -EPERM;
	*ret_ptr = buf->ptr;
	if (ret_bytes)
		*ret_bytes = buf->bytes;
	return 0;
}

int pn_turn_replace(pn_turn *turn, uint64_t ticket, pn_turn_buf *buf, void *ptr, size_t bytes,
		    pn_turn_free_fn free_fn, void *ctx)
{
	if (!turn_is(turn, ticket))
		return -EPERM;
	if (buf->ptr) {
		struct turn_retired *r = malloc(sizeof(*r));

		if (!r)
			return -ENOMEM;
		*r = (struct turn_retired){ turn->retired, buf->ptr, free_fn, ctx };
		turn->retired = r;
	}
	buf->ptr = ptr;
	buf->bytes = bytes;
	__atomic_add_fetch(&turn->generation, 1, __ATOMIC_RELAXED);
	return 0;
}

uint64_t pn_turn_generation(pn_turn *turn)
{
	return __atomic_load_n(&turn->generation, __ATOMIC_RELAXED);
}

void pn_turn_read_stats(pn_turn *turn, pn_turn_stats *ret)
{
	pthread_mutex_lock(&turn->lock);
	*ret = (pn_turn_stats){
		.ticket = turn->ticket,
		.kind = turn->kind,
		.waiting = turn->queue.count,
		.generation = pn_turn_generation(turn),
	};
	pthread_mutex_unlock(&turn->lock);
}
