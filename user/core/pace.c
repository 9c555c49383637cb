/* SPDX-License-Identifier: BSD-2-Clause */
/* See pace.h. */
#include "core/pace.h"

#include "core/u64.h"

bool pace_is_due(const struct pace *pace, uint64_t now_ns)
{
	return now_ns >= pace->due_ns;
}

void pace_took(struct pace *pace, const struct pace_limit *limit, uint64_t took_ns, uint64_t now_ns)
{
	uint64_t gap_ns = u64_min(took_ns, limit->max_ns / limit->part) * limit->part;

	pace->due_ns = now_ns + u64_max(gap_ns, limit->min_ns);
}
