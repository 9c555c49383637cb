/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reservations of a process without an agent, or with one that knows of none: held here alone, and
 * said so. With the agent it is tests/host/test_reserve.c.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake_agent.h"
#include "pn_admission.h"
#include "pn_reserve.h"

#define A_MINUTE_MS 60000

static struct host_tree tree;
static struct fake_agent agent;

/* 15 GiB above a reserve of 10. */
static int setup(void **unused)
{
	setenv("PN_HOST_RESERVE_BYTES", "10G", 1);
	tree_make_host(&tree);
	tree_set_avail(&tree, 25 * GIB);
	agent_init(&agent);
	return 0;
}

static int teardown(void **unused)
{
	pn_memwatch_stop();
	agent_stop(&agent);
	tree_free(&tree);
	return 0;
}

static int reserve(int die, uint64_t bytes, uint64_t *ret_id)
{
	return pn_reserve(die, bytes, A_MINUTE_MS, ret_id, NULL);
}

static pn_mem_ext read_ext(void)
{
	pn_mem_state state;
	pn_mem_ext ext;

	assert_int_equal(pn_memwatch_read_ext(&state, &ext), 0);
	return ext;
}

static void test_not_running(void **unused)
{
	pn_reservation line;
	uint64_t id = 7;

	assert_int_equal(reserve(PN_RESERVE_HOST, GIB, &id), -ENODATA);
	assert_int_equal(id, 7);
	assert_int_equal(pn_commit(7), -ENODATA);
	assert_int_equal(pn_release(7), -ENODATA);
	assert_int_equal(pn_reservations(&line, 1), -ENODATA);
}

static void test_alone(void **unused)
{
	uint64_t first, second, fit_bytes = 0;
	pn_reservation lines[4];

	assert_int_equal(pn_memwatch_start(), 0);
	assert_int_equal(pn_reserve(PN_RESERVE_HOST, 10 * GIB, A_MINUTE_MS, &first, &fit_bytes), 1);
	assert_int_equal(fit_bytes, 15 * GIB);
	assert_int_equal(pn_reserve(PN_RESERVE_HOST, 10 * GIB, A_MINUTE_MS, &second, &fit_bytes),
			 -ENOSPC);
	assert_int_equal(fit_bytes, 5 * GIB);
	assert_int_equal(reserve(PN_RESERVE_HOST, 5 * GIB, &second), 1);
	assert_int_not_equal(first, second);
	/* Its own are not others'. */
	assert_int_equal(read_ext().host_reserved_bytes, 0);

	assert_int_equal(pn_reservations(lines, 4), 2);
	assert_int_equal(lines[0].id, first);
	assert_int_equal(lines[0].bytes, 10 * GIB);
	assert_int_equal(lines[0].pid, getpid());
	assert_int_equal(lines[0].is_host, 1);
	assert_in_range(lines[0].left_ms, 1, A_MINUTE_MS);
	assert_int_equal(pn_reservations(lines, 1), 1);

	assert_int_equal(pn_release(first), 1);
	assert_int_equal(pn_release(first), -ESTALE);
	assert_int_equal(reserve(PN_RESERVE_HOST, 10 * GIB, &first), 1);
	/* Allocated: the file says so before the reservation goes. */
	tree_set_avail(&tree, 15 * GIB);
	assert_int_equal(pn_commit(first), 1);
	assert_int_equal(pn_commit(first), -ESTALE);
	assert_int_equal(pn_reservations(lines, 4), 1);
	assert_int_equal(pn_reserve(PN_RESERVE_HOST, 1, A_MINUTE_MS, &first, &fit_bytes), -ENOSPC);
	assert_int_equal(pn_release(second), 1);
	assert_int_equal(reserve(PN_RESERVE_HOST, 5 * GIB, &first), 1);
}

static void test_bounds(void **unused)
{
	uint64_t id;
	int held = 0, r;

	assert_int_equal(pn_memwatch_start(), 0);
	while ((r = reserve(PN_RESERVE_HOST, 1, &id)) == 1)
		held++;
	assert_int_equal(r, -EDQUOT);
	assert_int_equal(held, 64);
	assert_int_equal(pn_release(id), 1);
	assert_int_equal(reserve(PN_RESERVE_HOST, 1, &id), 1);
	assert_int_equal(pn_reserve(PN_RESERVE_HOST, 1, 0, &id, NULL), -EINVAL);
	assert_int_equal(pn_reserve_uuid((uint8_t[16]){ 0 }, 1, 1, &id, NULL), -EINVAL);
}

static bool has_expired(void *arg)
{
	return pn_commit(*(uint64_t *)arg) == -ESTALE;
}

static void test_ttl(void **unused)
{
	uint64_t id, next;

	assert_int_equal(pn_memwatch_start(), 0);
	assert_int_equal(pn_reserve(PN_RESERVE_HOST, 15 * GIB, 1, &id, NULL), 1);
	assert_true(comes_true(has_expired, &id, 5000));
	assert_int_equal(reserve(PN_RESERVE_HOST, 15 * GIB, &next), 1);
	assert_true(next > id);
}

static void test_dies(void **unused)
{
	static const uint8_t uuid[16] = { 1, 2, 3 };
	pn_reservation line;
	uint64_t id, other, fit_bytes;
	int place;

	assert_int_equal(pn_memwatch_start(), 0);
	assert_int_equal(reserve(0, GIB, &id), -ENODEV);
	pn_memwatch_set_die(0, 20 * GIB, 23 * GIB, 0);
	place = pn_memwatch_set_die_uuid(uuid, 8 * GIB, 23 * GIB, 0);
	assert_int_equal(place, 1);
	assert_int_equal(reserve(0, 15 * GIB, &id), 1);
	assert_int_equal(pn_reserve(0, 15 * GIB, A_MINUTE_MS, &other, &fit_bytes), -ENOSPC);
	assert_int_equal(fit_bytes, 5 * GIB);
	/* One die by either name. */
	assert_int_equal(pn_reserve_uuid(uuid, 6 * GIB, A_MINUTE_MS, &other, &fit_bytes), 1);
	assert_int_equal(fit_bytes, 8 * GIB);
	assert_int_equal(pn_reserve(place, 6 * GIB, A_MINUTE_MS, &other, &fit_bytes), -ENOSPC);
	assert_int_equal(fit_bytes, 2 * GIB);
	assert_int_equal(read_ext().die_reserved_bytes[1], 0);

	/* Nothing newer is known of die 0: committed, and still counted, for its owner too. */
	assert_int_equal(pn_commit(id), 1);
	assert_int_equal(pn_commit(id), -ESTALE);
	assert_int_equal(read_ext().die_reserved_bytes[0], 15 * GIB);
	assert_int_equal(pn_reservations(&line, 1), 1);
	assert_int_equal(line.state, PN_RESERVATION_HELD); /* the other die's is older now */
	pn_memwatch_set_die(0, 5 * GIB, 23 * GIB, 0);
	assert_int_equal(read_ext().die_reserved_bytes[0], 0);
	assert_int_equal(pn_reserve(0, 6 * GIB, A_MINUTE_MS, &id, &fit_bytes), -ENOSPC);
	assert_int_equal(fit_bytes, 5 * GIB);
}

/* ---- threads, forks ------------------------------------------------------------------------- */

#define THREADS 8
#define ROUNDS  50

static pthread_barrier_t barrier;
static _Atomic int won[ROUNDS];

static void *race(void *arg)
{
	for (int n = 0; n < ROUNDS; n++) {
		uint64_t id;
		int r;

		pthread_barrier_wait(&barrier);
		r = reserve(PN_RESERVE_HOST, 10 * GIB, &id);
		won[n] += r == 1;
		pthread_barrier_wait(&barrier);
		if (r == 1)
			pn_release(id);
	}
	return NULL;
}

static void test_threads(void **unused)
{
	pthread_t threads[THREADS];

	assert_int_equal(pn_memwatch_start(), 0);
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, race, NULL), 0);
	/* A reader of all that changes, for the sanitizers; what it may never see is that others
	 * have more than all there is. */
	for (int i = 0; i < 20000; i++)
		assert_in_range(read_ext().host_reserved_bytes, 0, 10 * GIB);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int n = 0; n < ROUNDS; n++)
		assert_int_equal(won[n], 1);
	pthread_barrier_destroy(&barrier);
}

static int child_of_a_fork(uint64_t id)
{
	pn_reservation line;

	if (pn_commit(id) != -ENODATA)
		return 1;
#ifdef __SANITIZE_THREAD__
	return 0; /* it starts no threads after a fork */
#endif
	if (pn_memwatch_start())
		return 1;
	if (pn_commit(id) != -ESTALE || pn_reservations(&line, 1) != 0)
		return 2;
	return reserve(PN_RESERVE_HOST, 15 * GIB, &id) == 1 ? 0 : 3;
}

static void test_fork(void **unused)
{
	uint64_t id;
	int status;
	pid_t pid;

	assert_int_equal(pn_memwatch_start(), 0);
	assert_int_equal(reserve(PN_RESERVE_HOST, 10 * GIB, &id), 1);
	pid = fork();
	if (!pid)
		_exit(child_of_a_fork(id));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(pn_release(id), 1);
}

/* ---- an agent of before there were reservations ---------------------------------------------- */

static bool is_on_agent(void *arg)
{
	return pn_memwatch_source() == PN_SOURCE_AGENT;
}

static void test_old_agent(void **unused)
{
	pn_reservation line;
	uint64_t id, other;
	int hellos;

	agent_start(&agent);
	assert_int_equal(pn_memwatch_start(), 0);
	assert_true(is_on_agent(NULL));
	/* By this process's own look at the host: the agent's numbers are not for this. */
	assert_int_equal(reserve(PN_RESERVE_HOST, 10 * GIB, &id), 1);
	assert_int_equal(reserve(PN_RESERVE_HOST, 10 * GIB, &other), -ENOSPC);
	assert_int_equal(read_ext().host_reserved_bytes, 0);
	assert_int_equal(pn_reservations(&line, 1), 1);
	assert_int_equal(line.id, id);
	/* To one that comes after it, likewise; and it is asked once. */
	agent_stop(&agent);
	agent_start(&agent);
	hellos = agent.hellos;
	assert_true(comes_true(is_on_agent, NULL, 10000));
	assert_int_equal(pn_commit(id), 1);
	assert_int_equal(pn_commit(id), -ESTALE);
	assert_true(is_on_agent(NULL));
	assert_in_range(agent.hellos - hellos, 0, 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_not_running, setup, teardown),
		cmocka_unit_test_setup_teardown(test_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ttl, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dies, setup, teardown),
		cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fork, setup, teardown),
		cmocka_unit_test_setup_teardown(test_old_agent, setup, teardown),
	};

	return cmocka_run_group_tests_name("holdings", tests, NULL, NULL);
}
