/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decides how soon work that clients can cause is done again. The wait grows with the duration of
 * the work, so that the work never takes more than a fixed share of the time. Pure; an all-zero
 * pace is due at once.
 */
#ifndef PNMEM_CORE_PACE_H
#define PNMEM_CORE_PACE_H

#include <stdint.h>

struct pace_limit {
	uint32_t part;     /* it may take one in so many of the time ... */
	uint64_t burst_ns; /* ... but at first all of it, until it is so far ahead */
	uint64_t max_ns;   /* what one that took very long adds to that */
};

struct pace {
	uint64_t even_ns; /* when it will have taken no more than its part */
};

/* When it may be done next; in the past: now. */
uint64_t pace_due_ns(const struct pace *pace, const struct pace_limit *limit);

/* The work has just ended; it took this long. */
void pace_took(struct pace *pace, const struct pace_limit *limit, uint64_t took_ns,
	       uint64_t now_ns);

#endif
