/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why the level is what it is: each source of a snapshot with its number, the level that it asks
 * for by itself, and the lines at which that would be better or worse. Pure.
 */
#ifndef PNMEM_CORE_EXPLAIN_H
#define PNMEM_CORE_EXPLAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/dies.h"
#include "core/level.h"
#include "pn_mem_state.h"

/* A line of a source and the level on its other side. */
struct explain_line {
	bool exists;
	pn_mem_level level;
	double at;       /* bytes or percent */
	double distance; /* from the source's value, above 0; 0: on the line itself */
	/*
	 * Percent, and coming down: how long until the average is there if nothing stalls from now
	 * on, from its decay.
	 */
	double seconds;
};

struct explain_source {
	uint32_t reason;    /* PN_REASON_*, one bit */
	int32_t die;        /* its place in the snapshot, -1: not a die */
	bool percent;       /* value is percent, else bytes */
	double value;       /* bytes that are left, or the average stall */
	double file_value;  /* percent: what the kernel's file says; value is the larger one */
	double of;          /* bytes: the total, limit or budget that they are left of */
	pn_mem_level level; /* what it asks for */
	bool decides;       /* that is the level that the numbers want */
	struct explain_line better; /* the nearest line at which it would ask for less */
	struct explain_line worse;
};

#define EXPLAIN_MAX (4 + DIE_TABLE_MAX)

/*
 * The sources that there are, at most EXPLAIN_MAX, in the order of the reason bits. config is what
 * the publisher derives the level with; the host's reserve is taken from the snapshot.
 */
int explain(const pn_mem_state *state, const pn_mem_ext *ext, const struct level_config *config,
	    struct explain_source ret[static EXPLAIN_MAX]);

#endif
