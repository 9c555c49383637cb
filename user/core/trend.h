/* SPDX-License-Identifier: BSD-2-Clause */
/* How fast bytes are being used up, for the time to exhaustion. Pure. */
#ifndef PNMEM_CORE_TREND_H
#define PNMEM_CORE_TREND_H

#include <stdint.h>

struct trend {
	uint64_t at_ns; /* 0: nothing seen yet */
	uint64_t avail_bytes;
	double fall_bytes_per_s; /* average over about a second; negative while it rises */
};

/* Takes what is available at now_ns. */
void trend_update(struct trend *trend, uint64_t now_ns, uint64_t avail_bytes);

/* How long slack_bytes last at that rate, ns; UINT64_MAX if it is not falling. */
uint64_t trend_exhaustion_ns(const struct trend *trend, uint64_t slack_bytes);

#endif
