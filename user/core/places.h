/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sharing a number of places: each user may have as many as it leaves for others. One user alone
 * gets half of them, the next one half of the rest, so that a few hostile users never have all.
 */
#ifndef PNMEM_CORE_PLACES_H
#define PNMEM_CORE_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/u64.h"

/*
 * Whether a user who has n of max places may have one more, where all users together have taken
 * that many. times: the user may have so many times what it leaves, so 3 is three quarters.
 */
static inline bool places_has_one(uint64_t n, uint64_t taken, uint64_t max, unsigned times)
{
	return n < u64_mul(u64_sub(max, taken), times);
}

#endif
