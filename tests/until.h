/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waits for what another thread is about to do, by looking; a test that looks in vain for 30 s
 * fails. Include after cmocka.h.
 */
#ifndef PNMEM_TESTS_UNTIL_H
#define PNMEM_TESTS_UNTIL_H

#include <pthread.h>
#include <sched.h>
#include <stdint.h>

#include "host/clock.h"

#define SECOND_NS 1000000000ull

#define until(condition)                                                                           \
	do {                                                                                       \
		uint64_t give_up_ns = clock_now_ns() + 30 * SECOND_NS;                             \
		while (!(condition)) {                                                             \
			if (clock_now_ns() > give_up_ns)                                           \
				fail_msg("30 s in vain for: %s", #condition);                      \
			sched_yield();                                                             \
		}                                                                                  \
	} while (0)

#endif
