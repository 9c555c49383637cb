/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Turns the sources of one look into one pn_mem_state and one pn_mem_ext to publish. It serves the
 * agent's views and for the in-process fallback. Pure.
 */
#ifndef PNMEM_CORE_MERGE_H
#define PNMEM_CORE_MERGE_H

#include <stdint.h>

#include "core/dies.h"
#include "core/level.h"
#include "core/trend.h"
#include "pn_host_signals.h"
#include "pn_mem_state.h"

/* The sources as one look read them. */
struct merge_input {
	uint64_t now_ns;
	const pn_host_sample *host;   /* meminfo and host PSI */
	const pn_host_sample *cgroup; /* cgroup bytes and PSI; may be the same sample */
	double live_some_pct;         /* as psi_live_shown() */
	double live_full_pct;
	const struct die_table *dies;
	int n_dies; /* die_table_count() of them */
};

/* The state kept from look to look, one for each publisher's page. All zero is the start. */
struct merge_state {
	struct level_hold hold;
	struct trend trend;
	uint32_t level_changes;
	uint64_t level_since_ns;
};

/*
 * Fills *ret_state but for .seq, and the fields of *ret_ext that follow from the sources; the
 * publisher's own (mode, times, counters) are left as they are. Returns the level.
 */
pn_mem_level merge_look(struct merge_state *carry, const struct level_config *config,
			const struct merge_input *in, pn_mem_state *ret_state, pn_mem_ext *ret_ext);

#endif
