/* SPDX-License-Identifier: BSD-2-Clause */
/* The die table. See dies.h. */
#include "core/dies.h"

#include <errno.h>

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

int die_table_set(struct die_table *table, int die_id, uint64_t free_bytes, uint64_t budget_bytes,
		  uint64_t used_bytes, uint64_t reserve_bytes, uint64_t now_ns)
{
	uint64_t total_bytes;

	if (die_id < 0 || die_id >= PN_MEM_MAX_DIES)
		return -EINVAL;
	total_bytes = budget_bytes > UINT64_MAX - reserve_bytes ? UINT64_MAX
								: budget_bytes + reserve_bytes;
	table->die[die_id] = (struct die){
		.free_bytes = min_u64(free_bytes, total_bytes),
		.budget_bytes = budget_bytes,
		.used_bytes = min_u64(used_bytes, total_bytes),
		.sample_ns = now_ns,
	};
	return 0;
}

int die_table_count(const struct die_table *table)
{
	int n = PN_MEM_MAX_DIES;

	while (n && !table->die[n - 1].budget_bytes)
		n--;
	return n;
}

uint64_t die_budget_bytes(uint64_t total_bytes, uint64_t reserve_bytes)
{
	return total_bytes > reserve_bytes ? total_bytes - reserve_bytes : 0;
}
