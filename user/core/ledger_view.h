/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ledger against one view's figures: which memory is meant, how much of it is free to promise,
 * what the view publishes of it. The same for the agent and for the in-process fallback. Pure.
 */
#ifndef PNMEM_CORE_LEDGER_VIEW_H
#define PNMEM_CORE_LEDGER_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "core/admission.h"
#include "core/ledger.h"

struct ledger_view {
	const void *name; /* as ledger_where.view */
	const struct die_table *dies;
	uint32_t uid; /* whose it is */
};

/*
 * Host memory (die is LEDGER_HOST), the die of *id where that is known, else the die at place die.
 * Returns 0; -EINVAL (no place); -ENODEV (the view has no such die, or knows no bytes of it).
 */
int ledger_where_find(const struct ledger_view *view, int die, const struct die_id *id,
		      struct ledger_where *ret);

/*
 * Bytes that may be promised: of the host as admission counts them (above the reserve, and within
 * the group's limit), of a die its free bytes; less every reservation. *ext is as ledger_figures
 * left it. where is from ledger_where_find with the same view.
 */
uint64_t ledger_room_bytes(const struct ledger *ledger, const struct ledger_where *where,
			   const struct admission_config *config, const struct ledger_view *view,
			   const pn_mem_state *state, const pn_mem_ext *ext);

/*
 * Dies that the agent has begun to sample (the table is its own) become every user's, but for what
 * does not fit into them beside the reservations that are every user's by then: no user's words
 * count for more than a die has. Returns whether any did.
 */
bool ledger_share(struct ledger *ledger, const struct die_table *sampled);

/* The sums in *ext. group_bytes: of the host's, what counts within the view's cgroup limit. */
void ledger_figures(const struct ledger *ledger, const struct ledger_view *view,
		    uint64_t group_bytes, pn_mem_ext *ext);

/*
 * Is a committed entry's memory part of this view's figures by now? meminfo_ns is when the host's
 * were read. Also true of a die that the view does not know.
 */
bool ledger_visible(const struct ledger_entry *entry, const struct ledger_view *view,
		    uint64_t meminfo_ns);

#endif
