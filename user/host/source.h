/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host-wide source: meminfo at every look, the pressure file at the pace that spares other
 * programs' triggers, and the live averages carried in between.
 */
#ifndef PNMEM_HOST_SOURCE_H
#define PNMEM_HOST_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/psi_live.h"
#include "core/schedule.h"
#include "pn_host_signals.h"

struct host_source {
	pn_host_signals *signals;
	pn_host_sample sample;
	struct psi_live live;
	struct psi_pace pace;
	uint64_t stall_clock_ns; /* the hooks' clock at the last read of the pressure file */
	bool psi_was_read;       /* in the last look */
	uint64_t some_clock_ns;  /* as of the last look; never goes back */
	double live_some_pct;    /* as of the last look */
	double live_full_pct;
};

/* procfs_fd stays the caller's. Returns 0 or -errno. */
int host_source_open(struct host_source *source, int procfs_fd);

/*
 * One look. stall_ns is the time of the newest stall that the hooks know of and stall_clock_ns the
 * stall time that they have counted, both 0 without hooks. some_clock_ns is the time in which at
 * least one task was stalled, UINT64_MAX if no hook sees that: where the kernel keeps no PSI, the
 * sample's PSI source becomes PN_SRC_ESTIMATED from it. force reads the pressure file whatever the
 * pace says (a caller asked for it).
 */
void host_source_look(struct host_source *source, uint64_t now_ns, uint64_t stall_ns,
		      uint64_t stall_clock_ns, uint64_t some_clock_ns, bool force);

void host_source_close(struct host_source *source);

#endif
