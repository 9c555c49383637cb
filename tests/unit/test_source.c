/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host source where the kernel keeps no PSI: `some` from the hooks' clock, and from nothing
 * else; and where it does keep it, the file and not the clock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "host/source.h"
#include "host_tree.h"

#define S        1000000000ull
#define MS       1000000ull
#define NO_CLOCK UINT64_MAX

static struct host_tree tree;
static struct host_source source;

static int setup(void **state)
{
	tree_make(&tree);
	tree_write(&tree, "meminfo", "MemTotal: 8388608 kB\nMemAvailable: 8000000 kB\n");
	return host_source_open(&source, tree.fd);
}

static int teardown(void **state)
{
	host_source_close(&source);
	tree_free(&tree);
	return 0;
}

static uint8_t psi_state(void)
{
	return source.sample.source_state[PN_SRC_PSI];
}

/* The kernel's figures for a task that stalls all the time: 18.1, 32.9, 45.1 after 2, 4, 6 s. */
static void test_estimate(void **state)
{
	static const double want_pct[] = { 18.11, 32.94, 45.09 };
	uint64_t now_ns = 100 * S, clock_ns = 5 * S; /* a clock that ran before we looked */

	host_source_look(&source, now_ns, 0, 0, clock_ns, true);
	assert_int_equal(psi_state(), PN_SRC_ESTIMATED);
	assert_true(source.live_some_pct == 0);
	for (int tick = 0; tick < 3; tick++) {
		for (int i = 0; i < 20; i++) {
			now_ns += 100 * MS;
			clock_ns += 100 * MS;
			host_source_look(&source, now_ns, now_ns, clock_ns, clock_ns, false);
			assert_int_equal(psi_state(), PN_SRC_ESTIMATED);
			assert_int_equal(source.sample.source_ns[PN_SRC_PSI], now_ns);
		}
		assert_true(source.live_some_pct > want_pct[tick] - 0.05 &&
			    source.live_some_pct < want_pct[tick] + 0.05);
	}
	assert_true(source.live_full_pct == 0);
	assert_true(source.sample.psi_some_avg10 == 0); /* what the file says, and there is none */
	assert_int_equal(source.sample.psi_some_total_us, clock_ns / 1000);

	/* A clock read a little behind takes nothing back; a standing one lets it decay to 0. */
	host_source_look(&source, now_ns + MS, 0, 0, clock_ns - MS, false);
	assert_true(source.live_some_pct > 45);
	for (int i = 0; i < 120; i++)
		host_source_look(&source, now_ns += S, 0, 0, clock_ns, false);
	assert_true(source.live_some_pct == 0);
	assert_int_equal(psi_state(), PN_SRC_ESTIMATED);
}

static void test_no_estimate(void **state)
{
	host_source_look(&source, 100 * S, 0, 0, NO_CLOCK, true);
	assert_int_equal(psi_state(), PN_SRC_ABSENT);
	host_source_look(&source, 101 * S, 101 * S, S, NO_CLOCK, true);
	assert_int_equal(psi_state(), PN_SRC_ABSENT);
	assert_true(source.sample.psi_some_total_us == 0);
}

/* The kernel's own figures, good or stale, are never replaced. */
static void test_file_first(void **state)
{
	tree_write(&tree, "pressure/memory", "some avg10=1.00 avg60=0.00 avg300=0.00 total=7\n");
	host_source_look(&source, 100 * S, 0, 0, 50 * S, true);
	assert_int_equal(psi_state(), PN_SRC_OK);
	assert_int_equal(source.sample.psi_some_total_us, 7);
	assert_true(source.live_some_pct == 1);
	tree_write(&tree, "pressure/memory", "some avg10=");
	host_source_look(&source, 101 * S, 0, 0, 51 * S, true);
	assert_int_equal(psi_state(), PN_SRC_STALE);
	assert_int_equal(source.sample.psi_some_total_us, 7);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_estimate, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_estimate, setup, teardown),
		cmocka_unit_test_setup_teardown(test_file_first, setup, teardown),
	};

	return cmocka_run_group_tests_name("source", tests, NULL, NULL);
}
