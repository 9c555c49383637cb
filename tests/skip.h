/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A skip with its reason: the runner shows "# skip: ..." lines on the closing report. Only for
 * what a machine may lack; include after cmocka.h.
 */
#ifndef PNMEM_TESTS_SKIP_H
#define PNMEM_TESTS_SKIP_H

#include <stdio.h>

#define skip_because(...)                                                                          \
	do {                                                                                       \
		printf("# skip: %s: ", __func__);                                                  \
		printf(__VA_ARGS__);                                                               \
		printf("\n");                                                                      \
		fflush(stdout);                                                                    \
		skip();                                                                            \
	} while (0)

#endif
