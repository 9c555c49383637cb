/* SPDX-License-Identifier: BSD-2-Clause */
/* The shares of users, over minutes of made-up time; and a ring that hostile users fill. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/share.h"
#include "core/trace.h"

#define S_NS 1000000000ull

static const struct share_limit limit = { .burst_bytes = 60000, .per_min_bytes = 120000 };

static void test_burst_and_rate(void **state)
{
	struct share share = { 0 };
	uint64_t now_ns = 5 * S_NS;

	assert_true(share_is_full(&share, &limit, 1, now_ns));
	assert_true(share_take(&share, &limit, 1, 60000, false, now_ns));
	assert_false(share_take(&share, &limit, 1, 1, false, now_ns));
	now_ns += S_NS; /* 2000 bytes have come back */
	assert_true(share_take(&share, &limit, 1, 2000, false, now_ns));
	assert_false(share_take(&share, &limit, 1, 1, false, now_ns));
	assert_false(share_is_full(&share, &limit, 1, now_ns + 29 * S_NS));
	assert_true(share_is_full(&share, &limit, 1, now_ns + 30 * S_NS));
}

static void test_routine_leaves_half(void **state)
{
	struct share share = { 0 };

	assert_true(share_take(&share, &limit, 1, 30000, true, S_NS));
	assert_false(share_take(&share, &limit, 1, 1, true, S_NS));
	assert_true(share_take(&share, &limit, 1, 30000, false, S_NS));
}

static void test_more_users_have_less_each(void **state)
{
	struct share share = { 0 };

	assert_true(share_take(&share, &limit, 4, 15000, false, S_NS));
	assert_false(share_take(&share, &limit, 4, 1, false, S_NS));
	assert_true(share_take(&share, &limit, 3, 1, false, S_NS));
	share = (struct share){ 0 };
	assert_true(share_take(&share, &limit, 1000000, SHARE_MIN_BYTES, false, S_NS));
	assert_false(share_take(&share, &limit, 1000000, 1, false, S_NS));
}

/* Small steps of time give back as much as large ones. */
static void test_small_steps(void **state)
{
	struct share share = { 0 };
	uint64_t now_ns = S_NS;

	assert_true(share_take(&share, &limit, 1, 60000, false, now_ns));
	for (int i = 0; i < 10000; i++)
		share_is_full(&share, &limit, 1, now_ns += 100000);
	assert_in_range(share.spent_bytes, 58000, 58500);
	assert_false(share_is_full(&share, &limit, 1, 0)); /* a clock does not go back, if it did */
}

#define RING_BYTES   (8ull << 20)
#define USERS        4
#define CLIENTS      10
#define SPAN_S       60
#define HOST_PER_S   50
#define FLOOD_PER_MS 20

/*
 * Ten clients of four users, which come one after another, cause 20 records a millisecond for a
 * minute, with the limits of recorder_users.c. All that the host recorded is there at its end.
 */
static void test_span_of_a_ring(void **state)
{
	static const struct share_limit limits = { RING_BYTES / 8, RING_BYTES / 4 };
	struct share shares[USERS] = { 0 };
	struct trace_ring ring;
	struct trace_look look = { 0 };
	uint64_t *block = calloc(1, RING_BYTES), host = 0;

	trace_ring_init(&ring, RING_BYTES);
	for (uint64_t ms = 0; ms < SPAN_S * 1000; ms++) {
		unsigned n_users = ms < USERS ? (unsigned)ms + 1 : USERS;

		for (unsigned i = 0; i < FLOOD_PER_MS; i++) {
			unsigned user = i % CLIENTS % n_users;

			if (share_take(&shares[user], &limits, n_users,
				       trace_record_bytes(sizeof(look)), false, (ms + 1) * 1000000))
				trace_ring_put(&ring, block, TRACE_LOOK, ms, &look, sizeof(look),
					       NULL);
		}
		if (ms % (1000 / HOST_PER_S) == 0)
			host += trace_ring_put(&ring, block, TRACE_LOOK, ms, &look, sizeof(look),
					       NULL);
	}
	assert_int_equal(host, SPAN_S * HOST_PER_S);
	assert_int_equal(ring.old_count, 0);
	assert_true(ring.put_count > 3 * host); /* the clients did fill their share */
	free(block);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_burst_and_rate),
		cmocka_unit_test(test_routine_leaves_half),
		cmocka_unit_test(test_more_users_have_less_each),
		cmocka_unit_test(test_small_steps),
		cmocka_unit_test(test_span_of_a_ring),
	};

	return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
