/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The batch gate: grants, order, deadlines, cancel, shutdown, the ceiling, and every rule of
 * pn_batch.h by which pressure comes, holds, sheds, falls and lapses. The live level is a fake.
 * Load and races are in test_batch_load.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "pn_batch.h"
#include "lib/batch_source.h"
#include "../until.h"
#include "fake_level.h"

/* One request in a thread of its own. */
struct client {
	pthread_t thread;
	bs_sched *bs;
	bs_request request;
	uint64_t deadline_ns;
	bs_grant grant;
	int rc;
	int order; /* how many had their answer before */
	int *answered;
};

static void *client_main(void *arg)
{
	struct client *c = arg;

	c->rc = bs_slot_acquire(c->bs, &c->request, c->deadline_ns, &c->grant);
	c->order = __atomic_fetch_add(c->answered, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static uint32_t waiting(bs_sched *bs)
{
	bs_stats stats;

	bs_read_stats(bs, &stats);
	return stats.waiting;
}

static int level_of(bs_sched *bs)
{
	bs_stats stats;

	bs_read_stats(bs, &stats);
	return stats.pressure_level;
}

/* Starts n clients, in order: each is in the queue before the next starts. */
static void clients_queue(struct client *clients, int n, bs_sched *bs, int *answered)
{
	uint32_t before = waiting(bs);

	for (int i = 0; i < n; i++) {
		clients[i] = (struct client){ .bs = bs,
					      .deadline_ns = UINT64_MAX,
					      .answered = answered };
		assert_int_equal(pthread_create(&clients[i].thread, NULL, client_main, &clients[i]),
				 0);
		until(waiting(bs) == before + (uint32_t)i + 1);
	}
}

static void clients_join(struct client *clients, int n)
{
	for (int i = 0; i < n; i++)
		assert_int_equal(pthread_join(clients[i].thread, NULL), 0);
}

static bs_sched *gate_new(struct fake_level *fake, int slots)
{
	struct bs_pressure_source source = fake_level_source(fake, 600 * SECOND_NS);
	bs_sched *bs;

	assert_int_equal(bs_new_from(&bs, slots, slots, &source), 0);
	return bs;
}

static int try(bs_sched *bs, bs_grant *ret)
{
	return bs_slot_acquire(bs, NULL, 0, ret);
}

static void test_new(void **state)
{
	static const struct {
		int slots, ceiling, rc, effective;
	} cases[] = {
		{ 0, 1, -EINVAL, 0 },
		{ -1, 1, -EINVAL, 0 },
		{ BS_SLOTS_MAX + 1, 1, -EINVAL, 0 },
		{ 8, 4, 0, 4 },
		{ 8, 100, 0, 8 },
		{ 8, 0, 0, 1 },
		{ 1, -5, 0, 1 },
		{ BS_SLOTS_MAX, BS_SLOTS_MAX, 0, BS_SLOTS_MAX },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bs_sched *bs = NULL;
		bs_stats stats;

		assert_int_equal(bs_new(&bs, cases[i].slots, cases[i].ceiling), cases[i].rc);
		if (cases[i].rc) {
			assert_null(bs);
			continue;
		}
		bs_read_stats(bs, &stats);
		assert_int_equal(stats.slots, cases[i].slots);
		assert_int_equal(stats.ceiling, cases[i].effective);
		assert_int_equal(stats.pressure_level, PN_MEM_LEVEL_OK);
		bs_free(bs);
	}
	bs_free(NULL);
}

static void test_slots(void **state)
{
	struct fake_level fake = FAKE_LEVEL(PN_MEM_LEVEL_OK);
	bs_sched *bs = gate_new(&fake, 3);
	bs_grant grant = { .slot = -7 };

	for (int i = 0; i < 3; i++) {
		assert_int_equal(try(bs, &grant), 0);
		assert_int_equal(grant.slot, i);
	}
	grant.slot = -7;
	assert_int_equal(try(bs, &grant), BS_TIMEDOUT);
	assert_int_equal(grant.slot, -7);

	/* The lowest free one is given, and only a taken one can be given back. */
	assert_int_equal(bs_slot_release(bs, 2), 0);
	assert_int_equal(bs_slot_release(bs, 1), 0);
	assert_int_equal(bs_slot_release(bs, 1), -EINVAL);
	assert_int_equal(bs_slot_release(bs, -1), -EINVAL);
	assert_int_equal(bs_slot_release(bs, 3), -EINVAL);
	assert_int_equal(try(bs, &grant), 0);
	assert_int_equal(grant.slot, 1);
	bs_free(bs);
}

/* D3: the level alone, whatever it is, blocks nothing; nobody even looks at it. */
static void test_level_alone(void **state)
{
	for (int level = PN_MEM_LEVEL_OK; level <= PN_MEM_LEVEL_CRITICAL; level++) {
		struct fake_level fake = FAKE_LEVEL(level);
		bs_sched *bs = gate_new(&fake, 1);
		bs_grant grant;

		assert_int_equal(try(bs, &grant), 0);
		assert_int_equal(bs_slot_release(bs, grant.slot), 0);
		bs_free(bs);
		assert_int_equal(fake_level_reads(&fake), 0);
	}
}

static void test_denial(void **state)
{
	static const struct {
		int level, notify, acquire;
	} cases[] = {
		{ -1, -EINVAL, 0 },
		{ 4, -EINVAL, 0 },
		{ PN_MEM_LEVEL_OK, 0, 0 },
		{ PN_MEM_LEVEL_WATCH, 0, 0 },
		{ PN_MEM_LEVEL_TIGHT, 0, BS_TIMEDOUT },
		{ PN_MEM_LEVEL_CRITICAL, 0, BS_REFUSED },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fake_level fake = FAKE_LEVEL(PN_MEM_LEVEL_CRITICAL);
		bs_sched *bs = gate_new(&fake, 1);
		bs_grant grant = { .slot = -7 };

		assert_int_equal(bs_notify_pressure(bs, cases[i].level), cases[i].notify);
		assert_int_equal(try(bs, &grant), cases[i].acquire);
		if (cases[i].acquire)
			assert_int_equal(grant.slot, -7);
		/* A lower level pushed opens the gate again. */
		if (cases[i].acquire) {
			assert_int_equal(bs_notify_pressure(bs, PN_MEM_LEVEL_WATCH), 0);
			assert_int_equal(try(bs, &grant), 0);
		}
		bs_free(bs);
	}
}

/* Held at TIGHT though a slot is free; the pushed fall of the level lets all that fit go. */
static void test_hold(void **state)
{
	struct fake_level fake = FAKE_LEVEL(PN_MEM_LEVEL_TIGHT);
	bs_sched *bs = gate_new(&fake, 2);
	struct client clients[3];
	int answered = 0;
	bs_grant grant;

	assert_int_equal(try(bs, &grant), 0);
	assert_int_equal(bs_notify_pressure(bs, PN_MEM_LEVEL_TIGHT), 0);
	clients_queue(clients, 3, bs, &answered);
	assert_int_equal(bs_slot_release(bs, grant.slot), 0); /* running ones are not touched */
	assert_int_equal(waiting(bs), 3);
	assert_int_equal(bs_notify_pressure(bs, PN_MEM_LEVEL_OK), 0);
	assert_int_equal(waiting(bs), 1);
	assert_int_equal(bs_slot_release(bs, 0), 0);
	clients_join(clients, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(clients[i].rc, 0);
	bs_free(bs);
}

/* CRITICAL refuses the queue before bs_notify_pressure returns, and keeps what runs. */
static void test_critical(void **state)
{
	struct fake_level fake = FAKE_LEVEL(PN_MEM_LEVEL_CRITICAL);
	bs_sched *bs = gate_new(&fake, 1);
	struct client clients[20];
	int answered = 0;
	bs_grant grant;
	bs_stats stats;

	assert_int_equal(try(bs, &grant), 0);
	clients_queue(clients, 20, bs, &answered);
	assert_int_equal(bs_notify_pressure(bs, PN_MEM_LEVEL_CRITICAL), 0);
	bs_read_stats(bs, &stats);
	assert_int_equal(stats.waiting, 0);
	assert_int_equal(stats.refused, 20);
	assert_int_equal(stats.running, 1);
	clients_join(clients, 20);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(clients[i].rc, BS_REFUSED);
		assert_int_equal(clients[i].grant.retry_after_ms, BS_RETRY_AFTER_MIN_MS);
	}
	assert_int_equal(bs_slot_release(bs, grant.slot), 0);
	bs_free(bs);
}

/* The hint grows with the place, stays within its bounds, and starts again with new pressure. */
static void test_retry_after(void **state)
{
	struct fake_level fake = FAKE_LEVEL(PN_MEM_LEVEL_CRITICAL);
	bs_sched *bs = gate_new(&fake, 1);
	uint32_t last_ms = BS_RETRY_AFTER_MIN_MS;
	bs_grant grant;

	/* Hold the slot until the mean holding time is at least a millisecond. */
	assert_int_equal(try(bs, &grant), 0);
	uint64_t start_ns = clock_now_ns();
	until(clock_now_ns() > start_ns + 2000000);
	assert_int_equal(bs_slot_release(bs, grant.slot), 0);

	for (int episode = 0; episode < 2; episode++) {
		assert_int_equal(bs_notify_pressure(bs, PN_MEM_LEVEL_CRITICAL), 0);
		assert_int_equal(try(bs, &grant), BS_REFUSED);
		assert_int_equal(grant.retry_after_ms, BS_RETRY_AFTER_MIN_MS);
		assert_int_equal(try(bs, &grant), BS_REFUSED);
		assert_true(grant.retry_after_ms > BS_RETRY_AFTER_MIN_MS);
		for (int i = 0; i < 100000; i++) {
			assert_int_equal(try(bs, &grant), BS_REFUSED);
			assert_true(grant.retry_after_ms >= last_ms || i == 0);
			last_ms = grant.retry_after_ms;
		}
		assert_int_equal(last_ms, BS_RETRY_AFTER_MAX_MS);
		/* Another denial under the same pressure is not a new episode. */
		assert_int_equal(bs_notify_pressure(bs, PN_MEM_LEVEL_CRITICAL), 0);
		assert_int_equal(try(bs, &grant), BS_REFUSED);
		assert_int_equal(grant.retry_after_ms, BS_RETRY_AFTER_MAX_MS);
		assert_int_equal(bs_notify_pressure(bs, PN_MEM_LEVEL_OK), 0);
	}
	bs_free(bs);
}

/* The live level lets the gate's fall to it, never rise, and its fall releases the waiters. */
static void test_live_falls(void **state)
{
	static const struct {
		int pushed, live, level;
	} cases[] = {
		{ PN_MEM_LEVEL_CRITICAL, PN_MEM_LEVEL_CRITICAL, PN_MEM_LEVEL_CRITICAL },
		{ PN_MEM_LEVEL_CRITICAL, PN_MEM_LEVEL_TIGHT, PN_MEM_LEVEL_TIGHT },
		{ PN_MEM_LEVEL_CRITICAL, PN_MEM_LEVEL_WATCH, PN_MEM_LEVEL_WATCH },
		{ PN_MEM_LEVEL_CRITICAL, PN_MEM_LEVEL_OK, PN_MEM_LEVEL_OK },
		{ PN_MEM_LEVEL_TIGHT, PN_MEM_LEVEL_CRITICAL, PN_MEM_LEVEL_TIGHT },
		{ PN_MEM_LEVEL_TIGHT, PN_MEM_LEVEL_TIGHT, PN_MEM_LEVEL_TIGHT },
		{ PN_MEM_LEVEL_TIGHT, PN_MEM_LEVEL_OK, PN_MEM_LEVEL_OK },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fake_level fake = FAKE_LEVEL(PN_MEM_LEVEL_CRITICAL);
		bs_sched *bs = gate_new(&fake, 1);
		struct client client;
		int answered = 0;

		assert_int_equal(bs_notify_pressure(bs, cases[i].pushed), 0);
		until(fake_level_reads(&fake) >= 1);
		assert_int_equal(level_of(bs), cases[i].pushed);
		fake_level_set(&fake, cases[i].live);
		until(level_of(bs) == cases[i].level);
		if (cases[i].level >= BS_PRESSURE_HOLD_LEVEL) { /* and stays there */
			int reads = fake_level_reads(&fake);

			until(fake_level_reads(&fake) >= reads + 2);
			assert_int_equal(level_of(bs), cases[i].level);
		}
		if (cases[i].level == PN_MEM_LEVEL_TIGHT) {
			clients_queue(&client, 1, bs, &answered);
			fake_level_set(&fake, PN_MEM_LEVEL_WATCH);
			clients_join(&client, 1);
			assert_int_equal(client.rc, 0);
		}
		bs_free(bs);
	}
}

/*
 * A denial lapses after its time, so that a machine at rest at TIGHT does not hold for ever, nor
 * one whose watch has stopped; at live CRITICAL it stands.
 */
static void test_lapse(void **state)
{
	static const struct {
		int pushed, live;
		bool absent, lapses;
	} cases[] = {
		{ PN_MEM_LEVEL_TIGHT, PN_MEM_LEVEL_TIGHT, false, true },
		{ PN_MEM_LEVEL_CRITICAL, PN_MEM_LEVEL_TIGHT, false, true },
		{ PN_MEM_LEVEL_TIGHT, PN_MEM_LEVEL_OK, true, true },
		{ PN_MEM_LEVEL_CRITICAL, PN_MEM_LEVEL_OK, true, true },
		{ PN_MEM_LEVEL_TIGHT, PN_MEM_LEVEL_CRITICAL, false, false },
		{ PN_MEM_LEVEL_CRITICAL, PN_MEM_LEVEL_CRITICAL, false, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fake_level fake = FAKE_LEVEL(cases[i].live);
		struct bs_pressure_source source = fake_level_source(&fake, 1000000);
		bs_grant grant;
		bs_sched *bs;

		fake_level_set_absent(&fake, cases[i].absent);
		assert_int_equal(bs_new_from(&bs, 1, 1, &source), 0);
		assert_int_equal(bs_notify_pressure(bs, cases[i].pushed), 0);
		if (cases[i].lapses) {
			until(level_of(bs) == PN_MEM_LEVEL_OK);
			assert_int_equal(try(bs, &grant), 0);
		} else { /* three looks are at least one slice, much longer than the denial counts
			  */
			until(fake_level_reads(&fake) >= 4);
			assert_int_equal(level_of(bs), cases[i].pushed);
		}
		bs_free(bs);
	}
}

/* The watch comes and goes while the gate is held: the listener stays with it. */
static void test_watch_restarts(void **state)
{
	struct fake_level fake = FAKE_LEVEL(PN_MEM_LEVEL_TIGHT);
	bs_sched *bs = gate_new(&fake, 1);
	struct client client;
	int answered = 0;
	int reads;

	assert_int_equal(bs_notify_pressure(bs, PN_MEM_LEVEL_TIGHT), 0);
	clients_queue(&client, 1, bs, &answered);
	until(fake_level_reads(&fake) >= 1);
	fake_level_set_absent(&fake, true);
	reads = fake_level_reads(&fake);
	until(fake_level_reads(&fake) >= reads + 2);
	assert_int_equal(waiting(bs), 1);
	fake_level_set(&fake, PN_MEM_LEVEL_OK);
	fake_level_set_absent(&fake, false);
	clients_join(&client, 1);
	assert_int_equal(client.rc, 0);
	bs_free(bs);
}

/* First come, first served, and one release wakes exactly one. */
static void test_fifo(void **state)
{
	struct fake_level fake = FAKE_LEVEL(PN_MEM_LEVEL_OK);
	bs_sched *bs = gate_new(&fake, 1);
	struct client clients[20];
	int answered = 0;
	bs_grant grant;

	assert_int_equal(try(bs, &grant), 0);
	clients_queue(clients, 20, bs, &answered);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(bs_slot_release(bs, 0), 0);
		assert_int_equal(waiting(bs), 19 - i);
		assert_int_equal(try(bs, &grant), BS_TIMEDOUT); /* no overtaking */
		until(__atomic_load_n(&answered, __ATOMIC_SEQ_CST) == i + 1);
	}
	clients_join(clients, 20);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(clients[i].rc, 0);
		assert_int_equal(clients[i].order, i);
	}
	bs_free(bs);
}

/* Each way to leave the queue from its middle, and those around it keep their order. */
static void test_leave_queue(void **state)
{
	struct fake_level fake = FAKE_LEVEL(PN_MEM_LEVEL_OK);
	bs_sched *bs = gate_new(&fake, 1);
	struct client clients[5], timed;
	int answered = 0, other = 0;
	bs_grant grant;

	assert_int_equal(try(bs, &grant), 0);
	clients_queue(clients, 2, bs, &answered);
	timed = (struct client){ .bs = bs, .answered = &other };
	timed.deadline_ns = clock_now_ns() + SECOND_NS / 100;
	assert_int_equal(pthread_create(&timed.thread, NULL, client_main, &timed), 0);
	clients_join(&timed, 1);
	assert_int_equal(timed.rc, BS_TIMEDOUT);
	assert_true(clock_now_ns() >= timed.deadline_ns);

	clients_queue(clients + 2, 3, bs, &answered);
	bs_cancel(bs, &clients[0].request);
	bs_cancel(bs, &clients[3].request);
	until(__atomic_load_n(&answered, __ATOMIC_SEQ_CST) == 2);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(bs_slot_release(bs, 0), 0);
		until(__atomic_load_n(&answered, __ATOMIC_SEQ_CST) == 3 + i);
	}
	clients_join(clients, 5);
	assert_int_equal(clients[0].rc, BS_CANCELED);
	assert_int_equal(clients[3].rc, BS_CANCELED);
	assert_int_equal(clients[1].order, 2);
	assert_int_equal(clients[2].order, 3);
	assert_int_equal(clients[4].order, 4);
	bs_free(bs);
}

/* A cancel before the wait counts; one after the grant does nothing to it. */
static void test_cancel_early_late(void **state)
{
	struct fake_level fake = FAKE_LEVEL(PN_MEM_LEVEL_OK);
	bs_sched *bs = gate_new(&fake, 1);
	bs_request early = { 0 }, late = { 0 };
	bs_grant grant;

	bs_cancel(bs, &early);
	assert_int_equal(bs_slot_acquire(bs, &early, UINT64_MAX, &grant), BS_CANCELED);
	assert_int_equal(bs_slot_acquire(bs, &late, UINT64_MAX, &grant), 0);
	bs_cancel(bs, &late);
	assert_int_equal(bs_slot_release(bs, grant.slot), 0);
	bs_free(bs);
}

static void test_shutdown(void **state)
{
	struct fake_level fake = FAKE_LEVEL(PN_MEM_LEVEL_TIGHT);
	bs_sched *bs = gate_new(&fake, 2);
	struct client clients[5];
	int answered = 0;
	bs_grant grant;

	assert_int_equal(try(bs, &grant), 0);
	assert_int_equal(bs_notify_pressure(bs, PN_MEM_LEVEL_TIGHT), 0);
	clients_queue(clients, 5, bs, &answered);
	bs_shutdown(bs);
	clients_join(clients, 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(clients[i].rc, BS_SHUTDOWN);
	assert_int_equal(bs_notify_pressure(bs, PN_MEM_LEVEL_OK), 0);
	assert_int_equal(bs_slot_acquire(bs, NULL, UINT64_MAX, &grant), BS_SHUTDOWN);
	assert_int_equal(bs_slot_release(bs, grant.slot), 0);
	bs_free(bs);
}

static void test_ceiling(void **state)
{
	struct fake_level fake = FAKE_LEVEL(PN_MEM_LEVEL_OK);
	bs_sched *bs = gate_new(&fake, 4);
	struct client clients[3];
	int answered = 0;
	bs_grant grant;
	bs_stats stats;

	for (int i = 0; i < 4; i++)
		assert_int_equal(try(bs, &grant), 0);
	bs_set_ceiling(bs, 2);
	bs_read_stats(bs, &stats);
	assert_int_equal(stats.running, 4); /* nothing is taken away */
	clients_queue(clients, 3, bs, &answered);
	assert_int_equal(bs_slot_release(bs, 0), 0);
	assert_int_equal(bs_slot_release(bs, 1), 0);
	assert_int_equal(waiting(bs), 3); /* two run: at the ceiling */
	assert_int_equal(bs_slot_release(bs, 2), 0);
	assert_int_equal(waiting(bs), 2);
	bs_set_ceiling(bs, 3);
	assert_int_equal(waiting(bs), 1);
	bs_set_ceiling(bs, 99);
	assert_int_equal(waiting(bs), 0);
	clients_join(clients, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(clients[i].grant.slot, i);

	bs_set_ceiling(bs, 2);
	assert_int_equal(bs_bind_check(bs, 2), 0);
	assert_int_equal(bs_bind_check(bs, 3), BS_REFUSED);
	assert_int_equal(bs_bind_check(bs, 0), -EINVAL);
	bs_set_ceiling(bs, 0);
	assert_int_equal(bs_bind_check(bs, 1), 0);
	assert_int_equal(bs_bind_check(bs, 2), BS_REFUSED);
	bs_free(bs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_new),
		cmocka_unit_test(test_slots),
		cmocka_unit_test(test_level_alone),
		cmocka_unit_test(test_denial),
		cmocka_unit_test(test_hold),
		cmocka_unit_test(test_critical),
		cmocka_unit_test(test_retry_after),
		cmocka_unit_test(test_live_falls),
		cmocka_unit_test(test_lapse),
		cmocka_unit_test(test_watch_restarts),
		cmocka_unit_test(test_fifo),
		cmocka_unit_test(test_leave_queue),
		cmocka_unit_test(test_cancel_early_late),
		cmocka_unit_test(test_shutdown),
		cmocka_unit_test(test_ceiling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
