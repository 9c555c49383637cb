/* SPDX-License-Identifier: BSD-2-Clause */
/* How soon something is done again, by how long it took. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/pace.h"

#define MS_NS 1000000ull

static const struct pace_limit limit = { .part = 20, .max_ns = 500 * MS_NS };
static const struct pace_limit with_burst = { .part = 20,
					      .max_ns = 500 * MS_NS,
					      .burst_ns = 1000 * MS_NS };

static void test_gap(void **state)
{
	static const struct {
		uint64_t took_ns, gap_ns;
	} rows[] = {
		{ 0, 0 },
		{ MS_NS, 20 * MS_NS },
		{ 5 * MS_NS, 100 * MS_NS },
		{ 25 * MS_NS, 500 * MS_NS },
		{ 30 * MS_NS, 500 * MS_NS },
		{ UINT64_MAX, 500 * MS_NS },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pace pace = { 0 };
		uint64_t now_ns = 7777 * MS_NS;

		assert_true(pace_due_ns(&pace, &limit) <= now_ns);
		pace_took(&pace, &limit, rows[i].took_ns, now_ns);
		assert_int_equal(pace_due_ns(&pace, &limit), now_ns + rows[i].gap_ns);
	}
}

/* Whoever asks as often as it may is given one in 20 of the time, and the burst at first. */
static void expect_part(const struct pace_limit *of)
{
	const uint64_t begin_ns = 5000 * MS_NS, end_ns = 100000 * MS_NS;
	uint64_t now_ns = begin_ns, busy_ns = 0;
	struct pace pace = { 0 };

	while (now_ns < end_ns) {
		uint64_t took_ns = (1 + now_ns % 7) * MS_NS;

		if (pace_due_ns(&pace, of) <= now_ns) {
			now_ns += took_ns;
			busy_ns += took_ns;
			pace_took(&pace, of, took_ns, now_ns);
		}
		now_ns += MS_NS / 10;
	}
	assert_in_range(busy_ns, (end_ns - begin_ns) / 24,
			(end_ns - begin_ns) / 20 + of->burst_ns / 20 + 14 * MS_NS);
}

static void test_part(void **state)
{
	expect_part(&limit);
	expect_part(&with_burst);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gap),
		cmocka_unit_test(test_part),
	};

	return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}
