/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hundred engine processes ask for the last slot at once, a thousand times over: one gets it each
 * time, never two, and never none. The machine is made up (reserve_host.h): 15 GiB are free, each
 * wants 10.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/clock.h"
#include "support/reserve_host.h"
#include "pn_reserve.h"

#define ENGINES 100
#define ROUNDS  1000
/* A barrier that an engine never reaches would hold all the others for ever. */
#define GIVE_UP_S 120

/* Shared by all of them. */
struct race {
	pthread_barrier_t start, asked;
	_Atomic int won[ROUNDS];     /* told yes */
	_Atomic int refused[ROUNDS]; /* told no, with what would fit beside the winner's */
	_Atomic int other;           /* anything else */
};

static struct reserve_host host;
static struct race *race;

static int setup(void **state)
{
	pthread_barrierattr_t shared;
	int r = reserve_host_open(&host);

	if (r)
		return r;
	race = mmap(NULL, sizeof(*race), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (race == MAP_FAILED)
		return -errno;
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&race->start, &shared, ENGINES);
	pthread_barrier_init(&race->asked, &shared, ENGINES);
	reserve_host_start(&host);
	return 0;
}

static int teardown(void **state)
{
	reserve_host_close(&host);
	munmap(race, sizeof(*race));
	return 0;
}

/* Ends its reservation in one of the two ways: both have to make room for the next round. */
static void round_of(int n)
{
	uint64_t id = 0, fit_bytes = 0;
	int r;

	pthread_barrier_wait(&race->start);
	r = pn_reserve(PN_RESERVE_HOST, 10 * GIB, 60000, &id, &fit_bytes);
	if (r == 0)
		race->won[n]++;
	else if (r == -ENOSPC && fit_bytes == 5 * GIB)
		race->refused[n]++;
	else
		race->other++;
	pthread_barrier_wait(&race->asked);
	if (r == 0 && (n % 2 ? pn_release(id) : pn_commit(id)))
		race->other++;
}

static void engine(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(GIVE_UP_S);
	if (pn_memwatch_start() || pn_memwatch_source() != PN_SOURCE_AGENT)
		race->other++;
	for (int n = 0; n < ROUNDS; n++)
		round_of(n);
	_exit(0);
}

static void test_the_last_slot(void **state)
{
	pid_t pids[ENGINES];
	uint64_t began_ns;
	int status, twice = 0, never = 0, refused = 0;

	began_ns = clock_now_ns();
	for (int i = 0; i < ENGINES; i++) {
		pids[i] = fork();
		if (!pids[i])
			engine();
		assert_true(pids[i] > 0);
	}
	for (int i = 0; i < ENGINES; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	for (int n = 0; n < ROUNDS; n++) {
		twice += race->won[n] > 1;
		never += race->won[n] < 1;
		refused += race->refused[n];
	}
	print_message("# %d processes, %d rounds in %.1f s; %d refused, %d other\n", ENGINES,
		      ROUNDS, (double)(clock_now_ns() - began_ns) / 1e9, refused, race->other);
	assert_int_equal(twice, 0);
	assert_int_equal(never, 0);
	assert_int_equal(race->other, 0);
	assert_int_equal(refused, ROUNDS * (ENGINES - 1));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_the_last_slot, setup, teardown),
	};

	return cmocka_run_group_tests_name("reserve_race", tests, NULL, NULL);
}
