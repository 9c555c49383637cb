/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How soon something that clients can cause is done again: so late that it takes no more than a
 * part of the time, however long it takes. Pure; all zero is due.
 */
#ifndef PNMEM_CORE_PACE_H
#define PNMEM_CORE_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct pace_limit {
	uint32_t part;   /* it may take one in so many of the time */
	uint64_t min_ns; /* between the end of one and the begin of the next */
	uint64_t max_ns;
};

struct pace {
	uint64_t due_ns;
};

bool pace_is_due(const struct pace *pace, uint64_t now_ns);

/* It was done, which took so long, and has ended now. */
void pace_took(struct pace *pace, const struct pace_limit *limit, uint64_t took_ns,
	       uint64_t now_ns);

#endif
