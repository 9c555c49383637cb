/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GPU turn: who may take, use and end it, its order, and what happens to replaced buffers.
 * The hazards it exists for are in test_hazard.c, all interleavings in test_turn_model.c.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "pn_turn.h"
#include "../until.h"

#if defined(PN_TSAN) || defined(__SANITIZE_ADDRESS__)
#define STRESS_ROUNDS 5000
#else
#define STRESS_ROUNDS 20000
#endif

struct user {
	pthread_t thread;
	pn_turn *turn;
	pn_turn_kind kind;
	uint64_t deadline_ns;
	uint64_t ticket;
	int rc;
	int order;
	int *entered;
};

/* Takes the turn, notes the order and ends it. */
static void *user_main(void *arg)
{
	struct user *u = arg;

	u->rc = pn_turn_acquire(u->turn, u->kind, u->deadline_ns, &u->ticket);
	if (u->rc)
		return NULL;
	u->order = __atomic_fetch_add(u->entered, 1, __ATOMIC_SEQ_CST);
	u->rc = pn_turn_release(u->turn, u->ticket);
	return NULL;
}

static uint32_t waiting(pn_turn *turn)
{
	pn_turn_stats stats;

	pn_turn_read_stats(turn, &stats);
	return stats.waiting;
}

static void user_queue(struct user *u, pn_turn *turn, pn_turn_kind kind, int *entered)
{
	uint32_t before = waiting(turn);

	*u = (struct user){
		.turn = turn, .kind = kind, .deadline_ns = UINT64_MAX, .entered = entered
	};
	assert_int_equal(pthread_create(&u->thread, NULL, user_main, u), 0);
	until(waiting(turn) == before + 1);
}

static pn_turn *turn_new(void)
{
	pn_turn *turn;

	assert_int_equal(pn_turn_new(&turn), 0);
	return turn;
}

static void test_take_and_end(void **state)
{
	pn_turn *turn = turn_new();
	uint64_t ticket = 0, second = 0;
	pn_turn_stats stats;

	pn_turn_read_stats(turn, &stats);
	assert_int_equal(stats.ticket, 0);
	for (int kind = 0; kind <= 5; kind++) {
		int rc = pn_turn_acquire(turn, (pn_turn_kind)kind, 0, &second);

		if (kind < PN_TURN_PREFILL || kind > PN_TURN_STEP) {
			assert_int_equal(rc, -EINVAL);
			continue;
		}
		assert_int_equal(rc, 0);
		assert_true(second > ticket);
		ticket = second;
		pn_turn_read_stats(turn, &stats);
		assert_int_equal(stats.ticket, ticket);
		assert_int_equal(stats.kind, kind);
		/* Whatever the kind, its thread may not ask for another before it has ended. */
		assert_int_equal(pn_turn_acquire(turn, PN_TURN_BIND, UINT64_MAX, &second),
				 -EDEADLK);
		assert_int_equal(pn_turn_acquire(turn, PN_TURN_STEP, 0, &second), -EDEADLK);
		assert_int_equal(pn_turn_release(turn, ticket + 1), -EPERM);
		assert_int_equal(pn_turn_release(turn, 0), -EPERM);
		assert_int_equal(pn_turn_release(turn, UINT64_MAX), -EPERM);
		assert_int_equal(pn_turn_release(turn, ticket), 0);
		assert_int_equal(pn_turn_release(turn, ticket), -EPERM);
	}
	pn_turn_free(turn);
	pn_turn_free(NULL);
}

static void *release_main(void *arg)
{
	struct user *u = arg;

	u->rc = pn_turn_release(u->turn, u->ticket);
	return NULL;
}

/* Only a step is ended by another thread than the one that took it. */
static void test_end_elsewhere(void **state)
{
	for (int kind = PN_TURN_PREFILL; kind <= PN_TURN_STEP; kind++) {
		pn_turn *turn = turn_new();
		struct user u = { .turn = turn };

		assert_int_equal(pn_turn_acquire(turn, (pn_turn_kind)kind, 0, &u.ticket), 0);
		assert_int_equal(pthread_create(&u.thread, NULL, release_main, &u), 0);
		assert_int_equal(pthread_join(u.thread, NULL), 0);
		assert_int_equal(u.rc, kind == PN_TURN_STEP ? 0 : -EPERM);
		if (u.rc)
			assert_int_equal(pn_turn_release(turn, u.ticket), 0);
		/* The thread that began a step is free once it has been drained elsewhere. */
		assert_int_equal(pn_turn_acquire(turn, PN_TURN_BIND, 0, &u.ticket), 0);
		assert_int_equal(pn_turn_release(turn, u.ticket), 0);
		pn_turn_free(turn);
	}
}

/* First come, first served, whatever the kinds; tickets tell the order. */
static void test_fifo(void **state)
{
	pn_turn *turn = turn_new();
	struct user users[12];
	uint64_t ticket;
	int entered = 0;

	assert_int_equal(pn_turn_acquire(turn, PN_TURN_PREFILL, 0, &ticket), 0);
	for (int i = 0; i < 12; i++)
		user_queue(&users[i], turn, (pn_turn_kind)(PN_TURN_PREFILL + i % 4), &entered);
	assert_int_equal(__atomic_load_n(&entered, __ATOMIC_SEQ_CST), 0);
	assert_int_equal(pn_turn_release(turn, ticket), 0);
	for (int i = 0; i < 12; i++) {
		assert_int_equal(pthread_join(users[i].thread, NULL), 0);
		assert_int_equal(users[i].rc, 0);
		assert_int_equal(users[i].order, i);
		assert_true(users[i].ticket > ticket);
		ticket = users[i].ticket;
	}
	pn_turn_free(turn);
}

/* A try and a deadline give up, and those queued around them are served in order. */
static void test_deadline(void **state)
{
	pn_turn *turn = turn_new();
	struct user first, last;
	struct user impatient[2] = { { .deadline_ns = 0 }, { .deadline_ns = 1 } };
	uint64_t ticket;
	int entered = 0;

	assert_int_equal(pn_turn_acquire(turn, PN_TURN_STEP, 0, &ticket), 0);
	user_queue(&first, turn, PN_TURN_BIND, &entered);
	for (int i = 0; i < 2; i++) {
		struct user *u = &impatient[i];

		u->turn = turn;
		u->kind = PN_TURN_DECODE;
		u->entered = &entered;
		if (u->deadline_ns)
			u->deadline_ns = clock_now_ns() + SECOND_NS / 100;
		assert_int_equal(pthread_create(&u->thread, NULL, user_main, u), 0);
		assert_int_equal(pthread_join(u->thread, NULL), 0);
		assert_int_equal(u->rc, -ETIMEDOUT);
		assert_true(clock_now_ns() >= u->deadline_ns);
	}
	user_queue(&last, turn, PN_TURN_PREFILL, &entered);
	assert_int_equal(pn_turn_release(turn, ticket), 0);
	assert_int_equal(pthread_join(first.thread, NULL), 0);
	assert_int_equal(pthread_join(last.thread, NULL), 0);
	assert_int_equal(first.order, 0);
	assert_int_equal(last.order, 1);
	pn_turn_free(turn);
}

/* The pointers that free_fn was called with, in order. */
struct freed {
	pn_turn *turn;
	void *ptr[8];
	int count;
	int entered; /* users let in before the frees */
	int *entered_now;
	int reentry_rc;
	int release_rc;
};

static void freed_note(void *ctx, void *ptr)
{
	struct freed *freed = ctx;
	pn_turn_stats stats;
	uint64_t ticket;

	freed->ptr[freed->count++] = ptr;
	freed->entered = __atomic_load_n(freed->entered_now, __ATOMIC_SEQ_CST);
	/* The turn is still taken, and even misuse from here cannot hang. */
	freed->reentry_rc = pn_turn_acquire(freed->turn, PN_TURN_BIND, UINT64_MAX, &ticket);
	pn_turn_read_stats(freed->turn, &stats);
	freed->release_rc = pn_turn_release(freed->turn, stats.ticket);
}

static void test_replace(void **state)
{
	pn_turn *turn = turn_new();
	int entered = 0;
	struct freed freed = { .turn = turn, .entered_now = &entered };
	pn_turn_buf buf = { 0 };
	char a[1], b[2], c[3];
	struct user next;
	uint64_t ticket, old;
	size_t bytes = 99;
	void *ptr = &ticket;

	assert_int_equal(pn_turn_get(turn, 0, &buf, &ptr, &bytes), -EPERM);
	assert_int_equal(pn_turn_get(turn, 1, &buf, &ptr, &bytes), -EPERM);
	assert_int_equal(pn_turn_replace(turn, 1, &buf, a, 1, freed_note, &freed), -EPERM);
	assert_ptr_equal(ptr, &ticket);
	assert_int_equal(bytes, 99);
	assert_int_equal(pn_turn_generation(turn), 0);

	assert_int_equal(pn_turn_acquire(turn, PN_TURN_BIND, 0, &old), 0);
	assert_int_equal(pn_turn_get(turn, old, &buf, &ptr, &bytes), 0);
	assert_null(ptr);
	assert_int_equal(bytes, 0);
	assert_int_equal(pn_turn_replace(turn, old, &buf, a, 1, freed_note, &freed), 0);
	assert_int_equal(pn_turn_release(turn, old), 0);
	assert_int_equal(freed.count, 0); /* there was none before a */
	assert_int_equal(pn_turn_get(turn, old, &buf, &ptr, NULL), -EPERM);

	/* A step that replaces twice: both stay until it has drained. */
	assert_int_equal(pn_turn_acquire(turn, PN_TURN_STEP, 0, &ticket), 0);
	assert_int_equal(pn_turn_get(turn, old, &buf, &ptr, NULL), -EPERM);
	assert_int_equal(pn_turn_replace(turn, old, &buf, b, 2, freed_note, &freed), -EPERM);
	assert_int_equal(pn_turn_replace(turn, ticket, &buf, b, 2, freed_note, &freed), 0);
	assert_int_equal(pn_turn_replace(turn, ticket, &buf, c, 3, freed_note, &freed), 0);
	assert_int_equal(pn_turn_generation(turn), 3);
	assert_int_equal(pn_turn_get(turn, ticket, &buf, &ptr, &bytes), 0);
	assert_ptr_equal(ptr, c);
	assert_int_equal(bytes, 3);
	user_queue(&next, turn, PN_TURN_DECODE, &entered);
	assert_int_equal(freed.count, 0);
	assert_int_equal(pn_turn_release(turn, ticket), 0);
	assert_int_equal(pthread_join(next.thread, NULL), 0);
	assert_int_equal(freed.count, 2);
	assert_true(freed.ptr[0] != freed.ptr[1]);
	for (int i = 0; i < 2; i++)
		assert_true(freed.ptr[i] == a || freed.ptr[i] == b);
	assert_int_equal(freed.entered, 0); /* before the next one came in */
	assert_int_equal(freed.reentry_rc, -EDEADLK);
	assert_int_equal(freed.release_rc, -EPERM);

	/* Emptied: c is retired like any other. */
	assert_int_equal(pn_turn_acquire(turn, PN_TURN_PREFILL, 0, &ticket), 0);
	assert_int_equal(pn_turn_replace(turn, ticket, &buf, NULL, 0, freed_note, &freed), 0);
	assert_int_equal(pn_turn_release(turn, ticket), 0);
	assert_int_equal(freed.count, 3);
	assert_ptr_equal(freed.ptr[2], c);
	pn_turn_free(turn);
}

/* Exclusion under load, with tries and short deadlines; steps are ended by their own thread. */
struct stress {
	pn_turn *turn;
	unsigned long plain; /* no atomic: the turn is what orders it */
	unsigned long taken;
	int stuck;
};

struct stress_thread {
	struct stress *stress;
	unsigned seed;
};

static void *stress_main(void *arg)
{
	struct stress_thread *self = arg;
	struct stress *stress = self->stress;

	for (int i = 0; i < STRESS_ROUNDS; i++) {
		pn_turn_kind kind = (pn_turn_kind)(PN_TURN_PREFILL + rand_r(&self->seed) % 4);
		int die = rand_r(&self->seed) % 4;
		uint64_t now_ns = clock_now_ns();
		uint64_t deadline_ns = die == 0   ? 0
				       : die == 1 ? now_ns + 10000
						  : now_ns + 20 * SECOND_NS;
		uint64_t ticket;
		int rc = pn_turn_acquire(stress->turn, kind, deadline_ns, &ticket);

		if (rc) {
			if (die > 1)
				__atomic_fetch_add(&stress->stuck, 1, __ATOMIC_SEQ_CST);
			continue;
		}
		stress->plain++;
		if (i % 32 == 0) /* let the others queue */
			sched_yield();
		if (pn_turn_release(stress->turn, ticket))
			__atomic_fetch_add(&stress->stuck, 1, __ATOMIC_SEQ_CST);
		__atomic_fetch_add(&stress->taken, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static void test_stress(void **state)
{
	struct stress stress = { .turn = turn_new() };
	struct stress_thread threads[4];
	pthread_t ids[4];

	for (unsigned i = 0; i < 4; i++) {
		threads[i] = (struct stress_thread){ &stress, i };
		assert_int_equal(pthread_create(&ids[i], NULL, stress_main, &threads[i]), 0);
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_join(ids[i], NULL), 0);
	assert_int_equal(stress.stuck, 0);
	assert_true(stress.taken > STRESS_ROUNDS);
	assert_int_equal(stress.plain, stress.taken);
	pn_turn_free(stress.turn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_take_and_end), cmocka_unit_test(test_end_elsewhere),
		cmocka_unit_test(test_fifo),         cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_replace),      cmocka_unit_test(test_stress),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
