/* SPDX-License-Identifier: BSD-2-Clause */
/* What the agent asks of a reader of pn_host_signals.h beyond what engines do. Linux only. */
#ifndef PNMEM_HOST_SIGNALS_H
#define PNMEM_HOST_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

#include "pn_host_signals.h"

/* For pn_host_signals_open, whose -1 is the machine's own folder: there is no such folder. */
#define SIGNALS_NO_DIR (-2)

/* From here on the group that the process was in at the last read is meant (cgroup_pin). */
void signals_pin(pn_host_signals *hs);

/* Is the group with this id (its folder's inode number) the own one or one of its ancestors? */
bool signals_within(const pn_host_signals *hs, uint64_t cgroup_id);

/* Are the own group's limits for those who stall in its memory.pressure (cgroup.h)? */
bool signals_limit_pressure(const pn_host_signals *hs);

/*
 * Does memory of hs count towards the limit that leaves limited its headroom, both as last read?
 * False where limited has no limit, and where one of them is of no process.
 */
bool signals_count_within(const pn_host_signals *hs, const pn_host_signals *limited);

#endif
