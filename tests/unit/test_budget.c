/* SPDX-License-Identifier: BSD-2-Clause */
/* Budgets: the burst, the rate after it, and never more than both allow however time passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/budget.h"

#define S_NS 1000000000ull

static const struct budget_limit limit = { .burst = 10, .per_s = 4 };

static unsigned take_all(struct budget *budget, uint64_t now_ns)
{
	unsigned n = 0;

	while (budget_take(budget, &limit, now_ns))
		n++;
	return n;
}

/* Whenever the clock stands: right after boot too. */
static void test_burst_then_rate(void **state)
{
	static const uint64_t starts_ns[] = { 0, 1, S_NS, 1000000 * S_NS };

	for (size_t i = 0; i < sizeof(starts_ns) / sizeof(starts_ns[0]); i++) {
		uint64_t now_ns = starts_ns[i];
		struct budget budget = { 0 };

		assert_true(budget_is_full(&budget, now_ns));
		assert_int_equal(take_all(&budget, now_ns), 10);
		assert_false(budget_is_full(&budget, now_ns));
		assert_int_equal(take_all(&budget, now_ns + S_NS / 4 - 1), 0);
		assert_int_equal(take_all(&budget, now_ns + S_NS / 4), 1);
		assert_int_equal(take_all(&budget, now_ns + S_NS), 3);
		assert_false(budget_is_full(&budget, now_ns + 3 * S_NS));
		assert_true(budget_is_full(&budget, now_ns + 4 * S_NS));
		/* It never holds more than the burst. */
		assert_int_equal(take_all(&budget, now_ns + 1000 * S_NS), 10);
	}
}

static void test_never_more(void **state)
{
	srand(1);
	for (int round = 0; round < 200; round++) {
		const uint64_t start_ns = (uint64_t)rand();
		uint64_t now_ns = start_ns, taken = 0;
		struct budget budget = { 0 };

		for (int i = 0; i < 200; i++) {
			taken += budget_take(&budget, &limit, now_ns);
			assert_true(taken <= 10 + (now_ns - start_ns) * 4 / S_NS);
			now_ns += (uint64_t)rand() % (S_NS / 4);
		}
		assert_true(taken >= (now_ns - start_ns) * 4 / S_NS / 2); /* nor much less */
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_burst_then_rate),
		cmocka_unit_test(test_never_more),
	};

	return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
