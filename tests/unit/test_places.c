/* SPDX-License-Identifier: BSD-2-Clause */
/* How many of some places each user gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/places.h"

#define MAX 4096

/* How many a user gets that has none, where so many are taken. */
static unsigned get_all(unsigned taken, unsigned times)
{
	unsigned n = 0;

	while (places_has_one(n, taken + n, MAX, times))
		n++;
	return n;
}

static void test_shares(void **state)
{
	assert_int_equal(get_all(0, 1), MAX / 2);
	assert_int_equal(get_all(MAX / 2, 1), MAX / 4);
	assert_int_equal(get_all(0, 3), MAX * 3 / 4);
	assert_int_equal(get_all(MAX - 1, 1), 1);
	assert_int_equal(get_all(MAX, 1), 0);
}

/* Four users leave a sixteenth, in whatever order they come. */
static void test_four_users(void **state)
{
	unsigned n[4] = { 0 }, taken = 0, refused = 0;

	for (unsigned i = 0; refused < 4; i = (i + 1) % 4) {
		if (places_has_one(n[i], taken, MAX, 1)) {
			n[i]++;
			taken++;
			refused = 0;
		} else {
			refused++;
		}
	}
	assert_in_range(MAX - taken, MAX / 16, MAX / 2);
	assert_false(places_has_one(0, MAX + 1, MAX, 1));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_four_users),
	};

	return cmocka_run_group_tests_name("places", tests, NULL, NULL);
}
