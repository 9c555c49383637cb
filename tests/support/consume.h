/* SPDX-License-Identifier: BSD-2-Clause */
/* For the tests of the hooks without an agent. Include after cmocka.h. */
#ifndef PNMEM_SUPPORT_CONSUME_H
#define PNMEM_SUPPORT_CONSUME_H

#include <poll.h>
#include <stdint.h>

#include "agent/hooks/hooks.h"
#include "host/clock.h"

/*
 * Consumes until *counter, which the test's callbacks count, is not 0 (NULL: never) or the time is
 * over. Returns how often the descriptor ended a sleep.
 */
static inline unsigned hooks_consume_until(struct hooks *hooks, const uint64_t *counter,
					   uint64_t limit_ms)
{
	uint64_t end_ns = clock_now_ns() + limit_ms * 1000000;
	struct pollfd pollfd = { .fd = hooks_fd(hooks), .events = POLLIN };
	unsigned sleeps_ended = 0;

	for (;;) {
		uint64_t now_ns = clock_now_ns();

		assert_true(hooks_consume(hooks) >= 0);
		if (now_ns >= end_ns || (counter && *counter))
			return sleeps_ended;
		sleeps_ended += poll(&pollfd, 1, (int)((end_ns - now_ns) / 1000000) + 1) > 0;
	}
}

#endif
