/* SPDX-License-Identifier: BSD-2-Clause */
/* See pace.h. */
#include "core/pace.h"

#include "core/u64.h"

uint64_t pace_due_ns(const struct pace *pace, const struct pace_limit *limit)
{
	return u64_sub(pace->even_ns, limit->burst_ns);
}

void pace_took(struct pace *pace, const struct pace_limit *limit, uint64_t took_ns, uint64_t now_ns)
{
	pace->even_ns = u64_max(pace->even_ns, now_ns) +
			u64_min(took_ns, limit->max_ns / limit->part) * limit->part;
}
