/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * PN_TEST_FILTER: only the tests whose name matches (cmocka's * and ?), for the kernel matrix,
 * which has not the time to run each of them in each of its cases. Include after cmocka.h.
 */
#ifndef PNMEM_TESTS_FILTER_H
#define PNMEM_TESTS_FILTER_H

#include <stdlib.h>

static inline void filter_from_environment(void)
{
	const char *filter = getenv("PN_TEST_FILTER");

	if (filter)
		cmocka_set_test_filter(filter);
}

#endif
