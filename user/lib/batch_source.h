/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the batch gate hears the live level: pn_memwatch, or a test's own. Not installed.
 */
#ifndef PNMEM_LIB_BATCH_SOURCE_H
#define PNMEM_LIB_BATCH_SOURCE_H

#include "pn_batch.h"

struct bs_pressure_source {
	/* As pn_memwatch_read; called with the gate locked, so it must not block. */
	int (*read)(void *ctx, pn_mem_state *ret);
	/* As pn_memwatch_wait for PN_WAIT_LEVEL. */
	int (*wait)(void *ctx, const pn_mem_state *seen, uint64_t deadline_ns);
	void *ctx;
	uint64_t denial_ns; /* how long one denial counts */
};

/* bs_new with another source, which is copied; its ctx must outlive the gate. */
int bs_new_from(bs_sched **ret, int slots, int ceiling, const struct bs_pressure_source *source);

#endif
