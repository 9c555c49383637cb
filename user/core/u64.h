/* SPDX-License-Identifier: BSD-2-Clause */
/* Arithmetic on bytes and nanoseconds that stays in range: sums and products saturate. */
#ifndef PNMEM_CORE_U64_H
#define PNMEM_CORE_U64_H

#include <stdint.h>

static inline uint64_t u64_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t u64_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* a - b, at least 0. */
static inline uint64_t u64_sub(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static inline uint64_t u64_add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static inline uint64_t u64_mul(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

#endif
