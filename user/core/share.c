/* SPDX-License-Identifier: BSD-2-Clause */
/* A bucket of bytes for each user. See share.h. */
#include "core/share.h"

#include "core/u64.h"

#define US_NS  1000ull
#define MIN_US 60000000ull

static void give_back(struct share *share, const struct share_limit *limit, unsigned n_users,
		      uint64_t now_ns)
{
	/* A minute gives back more than a burst: no product gets too large. */
	uint64_t us = u64_min(u64_sub(now_ns, share->ns) / US_NS, MIN_US);
	uint64_t bytes = us * (limit->per_min_bytes / n_users) / MIN_US;

	if (!bytes)
		return;
	share->spent_bytes = u64_sub(share->spent_bytes, bytes);
	share->ns = now_ns;
}

bool share_take(struct share *share, const struct share_limit *limit, unsigned n_users,
		uint64_t bytes, bool routine, uint64_t now_ns)
{
	uint64_t burst_bytes = u64_max(limit->burst_bytes / n_users, SHARE_MIN_BYTES);

	give_back(share, limit, n_users, now_ns);
	if (share->spent_bytes + bytes > (routine ? burst_bytes / 2 : burst_bytes))
		return false;
	if (!share->spent_bytes)
		share->ns = now_ns;
	share->spent_bytes += bytes;
	return true;
}

bool share_is_full(struct share *share, const struct share_limit *limit, unsigned n_users,
		   uint64_t now_ns)
{
	give_back(share, limit, n_users, now_ns);
	return !share->spent_bytes;
}
