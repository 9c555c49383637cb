/* SPDX-License-Identifier: BSD-2-Clause */
/* How soon something is done again, by how long it took. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/pace.h"

#define MS_NS 1000000ull

static const struct pace_limit limit = { .part = 20, .min_ns = 10 * MS_NS, .max_ns = 500 * MS_NS };

static void test_gap(void **state)
{
	static const struct {
		uint64_t took_ns, gap_ns;
	} rows[] = {
		{ 0, 10 * MS_NS },           { MS_NS / 2, 10 * MS_NS },
		{ MS_NS, 20 * MS_NS },       { 5 * MS_NS, 100 * MS_NS },
		{ 25 * MS_NS, 500 * MS_NS }, { 30 * MS_NS, 500 * MS_NS },
		{ UINT64_MAX, 500 * MS_NS },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pace pace = { 0 };
		uint64_t now_ns = 7777 * MS_NS;

		assert_true(pace_is_due(&pace, now_ns));
		pace_took(&pace, &limit, rows[i].took_ns, now_ns);
		assert_false(pace_is_due(&pace, now_ns + rows[i].gap_ns - 1));
		assert_true(pace_is_due(&pace, now_ns + rows[i].gap_ns));
	}
}

/* Whoever asks as often as it may is given one in 20 of the time. */
static void test_part(void **state)
{
	uint64_t now_ns = 1, busy_ns = 0;
	struct pace pace = { 0 };

	while (now_ns < 100000 * MS_NS) {
		uint64_t took_ns = (1 + now_ns % 7) * MS_NS;

		if (pace_is_due(&pace, now_ns)) {
			now_ns += took_ns;
			busy_ns += took_ns;
			pace_took(&pace, &limit, took_ns, now_ns);
		}
		now_ns += MS_NS / 10;
	}
	assert_in_range(busy_ns, now_ns / 24, now_ns / 20);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gap),
		cmocka_unit_test(test_part),
	};

	return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}
