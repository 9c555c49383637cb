/* SPDX-License-Identifier: BSD-2-Clause */
/* The rate of fall. See trend.h. */
#include "core/trend.h"

#include <math.h>

#define WINDOW_NS 1e9
/* Looks can be microseconds apart; over less than this the rate is noise. */
#define STEP_MIN_NS 10000000ull
/* Slower than this is drift, not a fill: 1 MiB/s. */
#define FALL_MIN_BYTES_PER_S 1048576.0

void trend_update(struct trend *trend, uint64_t now_ns, uint64_t avail_bytes)
{
	uint64_t dt_ns = now_ns - trend->at_ns;
	double rate, left;

	if (trend->at_ns && dt_ns < STEP_MIN_NS)
		return;
	if (trend->at_ns) {
		rate = ((double)trend->avail_bytes - (double)avail_bytes) * 1e9 / (double)dt_ns;
		left = exp(-(double)dt_ns / WINDOW_NS);
		trend->fall_bytes_per_s = trend->fall_bytes_per_s * left + rate * (1 - left);
	}
	trend->at_ns = now_ns;
	trend->avail_bytes = avail_bytes;
}

uint64_t trend_exhaustion_ns(const struct trend *trend, uint64_t slack_bytes)
{
	double ns;

	if (trend->fall_bytes_per_s < FALL_MIN_BYTES_PER_S)
		return UINT64_MAX;
	ns = (double)slack_bytes * 1e9 / trend->fall_bytes_per_s;
	return ns < 9e18 ? (uint64_t)ns : UINT64_MAX;
}
