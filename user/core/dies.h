/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is known of the dies, from engines' pushes or the sampler, before it is merged.
 */
#ifndef PNMEM_CORE_DIES_H
#define PNMEM_CORE_DIES_H

#include <stdint.h>

#include "pn_mem_state.h"

struct die {
	uint64_t free_bytes;
	uint64_t budget_bytes; /* 0: no such die */
	uint64_t used_bytes;
	uint64_t sample_ns; /* CLOCK_MONOTONIC */
};

struct die_table {
	struct die die[PN_MEM_MAX_DIES];
};

/*
 * One push, clamped to what can be: a die has no more free than budget + reserve, and no engine
 * uses more than that. Returns 0 or -EINVAL for an index outside the table.
 */
int die_table_set(struct die_table *table, int die_id, uint64_t free_bytes, uint64_t budget_bytes,
		  uint64_t used_bytes, uint64_t reserve_bytes, uint64_t now_ns);

/* Highest known die + 1. */
int die_table_count(const struct die_table *table);

/* Usable budget of a die of total_bytes. */
uint64_t die_budget_bytes(uint64_t total_bytes, uint64_t reserve_bytes);

#endif
