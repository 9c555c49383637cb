/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * This process's own part of the sums of reservations on the page that it reads: engines want to
 * know what others have reserved. Any number of readers without a lock, one writer at a time.
 */
#ifndef PNMEM_LIB_OWN_RESERVED_H
#define PNMEM_LIB_OWN_RESERVED_H

#include <stdatomic.h>

#include "core/ledger.h"

/*
 * The held entries of the ledger (only_told: of those, what the agent has too) are the process's
 * own from here on, on the page where where.die are their places. An entry must be on that page
 * before this call, and may leave it only after a call without it: readers then never take off
 * more than is there.
 */
void own_reserved_set(const struct ledger *ledger, bool only_told);

/* Private: here so that a process that holds nothing pays two loads. */
struct own_reserved_words {
	_Atomic uint32_t version; /* odd: being changed */
	_Atomic uint32_t count;
};
extern struct own_reserved_words own_reserved_words;
void own_reserved_take_off_some(uint32_t begun, uint32_t count, pn_mem_ext *ext);

/* Before a page is read: what own_reserved_take_off must be told. */
static inline uint32_t own_reserved_begin(void)
{
	return atomic_load_explicit(&own_reserved_words.version, memory_order_acquire);
}

/*
 * Takes the own part off the sums of *ext, read since; all of it stays in if it changed meanwhile.
 */
static inline void own_reserved_take_off(uint32_t begun, pn_mem_ext *ext)
{
	uint32_t count = atomic_load_explicit(&own_reserved_words.count, memory_order_relaxed);

	if (count)
		own_reserved_take_off_some(begun, count, ext);
}

#endif
