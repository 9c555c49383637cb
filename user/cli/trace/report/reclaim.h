/* SPDX-License-Identifier: BSD-2-Clause */
/* What reclaim achieved, and what cgroups were told of their limits. */
#ifndef PNMEM_CLI_TRACE_REPORT_RECLAIM_H
#define PNMEM_CLI_TRACE_REPORT_RECLAIM_H

#include "core/trace_decode.h"

struct reclaim {
	uint64_t sample_count; /* of /proc/vmstat */
	struct trace_vmstat first, last;
	uint64_t memcg_count[PN_MEMCG_COUNT];
};

void reclaim_sample(struct reclaim *reclaim, const struct trace_vmstat *vmstat);
void reclaim_memcg(struct reclaim *reclaim, const struct pn_event *event);

/* What reclaim did between the first sample of /proc/vmstat and the last. */
void reclaim_did(const struct reclaim *reclaim, struct trace_vmstat *ret);

/*
 * Pages that were scanned and reclaimed for the limits of cgroups. The kernel counts them in its
 * sums only. The few that khugepaged reclaims are among them.
 */
void reclaim_for_limits(const struct reclaim *reclaim, uint64_t *ret_scanned, uint64_t *ret_taken);

#endif
