/* SPDX-License-Identifier: BSD-2-Clause */
/* Sums of reclaim. See reclaim.h. */
#include "cli/trace/report/reclaim.h"

#include "core/u64.h"

void reclaim_sample(struct reclaim *reclaim, const struct trace_vmstat *vmstat)
{
	reclaim->last = *vmstat;
	if (!reclaim->sample_count++)
		reclaim->first = *vmstat;
}

void reclaim_memcg(struct reclaim *reclaim, const struct pn_event *event)
{
	for (int i = 0; i < PN_MEMCG_COUNT; i++)
		reclaim->memcg_count[i] += event->value >> i & 1;
}

void reclaim_did(const struct reclaim *reclaim, struct trace_vmstat *ret)
{
	const struct trace_vmstat *a = &reclaim->first, *b = &reclaim->last;

	*ret = (struct trace_vmstat){
		.scan_direct_pages = u64_sub(b->scan_direct_pages, a->scan_direct_pages),
		.steal_direct_pages = u64_sub(b->steal_direct_pages, a->steal_direct_pages),
		.scan_kswapd_pages = u64_sub(b->scan_kswapd_pages, a->scan_kswapd_pages),
		.steal_kswapd_pages = u64_sub(b->steal_kswapd_pages, a->steal_kswapd_pages),
		.scan_all_pages = u64_sub(b->scan_all_pages, a->scan_all_pages),
		.steal_all_pages = u64_sub(b->steal_all_pages, a->steal_all_pages),
	};
}

void reclaim_for_limits(const struct reclaim *reclaim, uint64_t *ret_scanned, uint64_t *ret_taken)
{
	struct trace_vmstat did;

	reclaim_did(reclaim, &did);
	*ret_scanned =
		u64_sub(u64_sub(did.scan_all_pages, did.scan_direct_pages), did.scan_kswapd_pages);
	*ret_taken = u64_sub(u64_sub(did.steal_all_pages, did.steal_direct_pages),
			     did.steal_kswapd_pages);
}
