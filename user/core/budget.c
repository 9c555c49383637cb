/* SPDX-License-Identifier: BSD-2-Clause */
/* The bucket, kept as the time at which it will be full. See budget.h. */
#include "core/budget.h"

#define S_NS 1000000000ull

bool budget_is_full(const struct budget *budget, uint64_t now_ns)
{
	return now_ns >= budget->full_ns;
}

bool budget_take(struct budget *budget, const struct budget_limit *limit, uint64_t now_ns)
{
	const uint64_t one_ns = S_NS / limit->per_s;

	if (budget_is_full(budget, now_ns))
		budget->full_ns = now_ns;
	if (budget->full_ns - now_ns > (limit->burst - 1) * one_ns)
		return false;
	budget->full_ns += one_ns;
	return true;
}
