/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits how often something may happen: a burst first, and then a number of times a second (a
 * bucket of tokens that fills at a steady rate). Pure; an all-zero budget is full.
 */
#ifndef PNMEM_CORE_BUDGET_H
#define PNMEM_CORE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct budget_limit {
	uint32_t burst;
	uint32_t per_s; /* not 0 */
};

struct budget {
	uint64_t full_ns; /* when all that was taken will have come back */
};

/* Takes a token if one is left. now_ns must not go backwards. */
bool budget_take(struct budget *budget, const struct budget_limit *limit, uint64_t now_ns);

/* True if the bucket is full again. */
bool budget_is_full(const struct budget *budget, uint64_t now_ns);

#endif
