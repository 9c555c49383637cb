/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many bytes of something each user may take, where all users together are to stay below a
 * limit: the burst and the rate are divided by the number of users. Pure; all zero is a full share.
 */
#ifndef PNMEM_CORE_SHARE_H
#define PNMEM_CORE_SHARE_H

#include <stdbool.h>
#include <stdint.h>

/* Of all users together. */
struct share_limit {
	uint64_t burst_bytes;
	uint64_t per_min_bytes;
};

struct share {
	uint64_t spent_bytes; /* what has not come back yet */
	uint64_t ns;          /* until when it has come back */
};

/* A user has at least so much of the burst, however many users there are. */
#define SHARE_MIN_BYTES 4096

/*
 * Takes bytes from the share of one of n_users (at least 1) users. Routine takes leave half of the
 * user's burst for those that are not. Returns false, and takes nothing, if there is not enough.
 */
bool share_take(struct share *share, const struct share_limit *limit, unsigned n_users,
		uint64_t bytes, bool routine, uint64_t now_ns);

/* All that was taken has come back. */
bool share_is_full(struct share *share, const struct share_limit *limit, unsigned n_users,
		   uint64_t now_ns);

#endif
