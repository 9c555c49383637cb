/* SPDX-License-Identifier: BSD-2-Clause */
/* How the groups of two pn_host_signals lie to each other: for reservations, not for engines. */
#ifndef PNMEM_HOST_GROUP_H
#define PNMEM_HOST_GROUP_H

#include <stdbool.h>

#include "pn_host_signals.h"

/*
 * Does memory of hs count towards the limit that leaves limited its headroom, both as last read?
 * False where limited has no limit, and where one of them is of no process.
 */
bool host_group_counts_within(const pn_host_signals *hs, const pn_host_signals *limited);

#endif
