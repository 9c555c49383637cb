/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Host memory signals as the kernel gives them. This module computes no level and no average, and
 * of the past it keeps only the last good value.
 *
 * Linux: /proc/meminfo, /proc/pressure/memory and the cgroup of a process (v2 files; v1 usage and
 * limit where the memory controller is on v1). macOS and others: total and available only, the
 * PSI and cgroup fields stay 0, and cgroup_headroom_bytes UINT64_MAX.
 *
 * A source that was never there is PN_SRC_ABSENT. One that was read and then fails is
 * PN_SRC_STALE, and its last good values stay. If the cgroup was removed, the source is PN_SRC_GONE
 * and its last good values stay too. A source that exists and was never parsed successfully is
 * PN_SRC_STALE with source_ns 0. A pressure file that opens but cannot be read because PSI is off
 * is PN_SRC_UNSUPPORTED: its fields are 0, and its error is -EOPNOTSUPP.
 * Other errors: -EBADMSG: the text cannot be parsed (it is cut short, a field is missing, or a
 * number does not fit). -ENOENT: the source never existed. -ENODEV: the source existed and is gone
 * (a removed cgroup). A file that could not be opened or read is tried again once a second at most.
 */
#ifndef PN_HOST_SIGNALS_H
#define PN_HOST_SIGNALS_H

#include <stdint.h>

#include "pn_mem_state.h"
#include "pn_memwatch.h" /* PN_API */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
	uint64_t total_bytes;     /* MemTotal */
	uint64_t avail_bytes;     /* MemAvailable, at most total_bytes; never estimated */
	uint64_t swap_free_bytes; /* SwapFree */

	double psi_some_avg10; /* percent, 0..100 */
	double psi_full_avg10; /* 0 where the file has no "full" line, as its total */
	double psi_some_avg60; /* a change in any average shows that the kernel updated them */
	double psi_some_avg300;
	uint64_t psi_some_total_us;
	uint64_t psi_full_total_us;

	/*
	 * Of the own group; current is 0 where the group has no accounting of its own (v2's root).
	 * Limits: 0 is unset, and a limit of 0 shows as 1.
	 */
	uint64_t cgroup_current_bytes;
	uint64_t cgroup_high_bytes;
	uint64_t cgroup_max_bytes;
	/*
	 * Least over the group and its ancestors (the 32 nearest and the root) that have a max or
	 * high of limit - current + inactive file pages, within 0..limit. UINT64_MAX: no limit.
	 */
	uint64_t cgroup_headroom_bytes;
	uint64_t cgroup_limit_bytes; /* the limit behind that headroom; 0: no limit anywhere */

	double cgroup_psi_some_avg10;
	double cgroup_psi_full_avg10;
	uint64_t cgroup_psi_some_total_us;
	uint64_t cgroup_psi_full_total_us;

	uint64_t source_ns[8];   /* by PN_SRC_*: CLOCK_MONOTONIC of the last good read, 0: never */
	uint8_t source_state[8]; /* by PN_SRC_*: PN_SRC_ABSENT, _OK, _STALE, _UNSUPPORTED, _GONE */
	int32_t source_err[8];   /* by PN_SRC_*: -errno of the last failed read, 0 if it was good */
} pn_host_sample;

/*
 * Reads everything once for the calling process. Opens and closes the files: about a millisecond
 * at most; use a reader (below) to sample often.
 * Returns 0 if at least the bytes (total and available) are valid, else -errno as from open and
 * read below, with what could be read in *ret. Any thread.
 */
PN_API int pn_host_signals_sample(pn_host_sample *ret);

/* A reader that keeps its files open, and the last good value of each. */
typedef struct pn_host_signals pn_host_signals;

/* What a call to pn_host_signals_read is to read. */
enum {
	PN_HOST_READ_BYTES = 1u << 0,  /* /proc/meminfo */
	PN_HOST_READ_PSI = 1u << 1,    /* /proc/pressure/memory: not more often than every 100 ms */
	PN_HOST_READ_CGROUP = 1u << 2, /* the cgroup's bytes and limits */
	PN_HOST_READ_CGROUP_PSI = 1u << 3,
	PN_HOST_READ_ALL = 15u,
};

/*
 * Opens a reader. procfs_fd and cgroupfs_fd are directory descriptors that stay the caller's and
 * must stay open until the reader is closed (-1: /proc and /sys/fs/cgroup); pid is the process
 * whose cgroup is meant, 0 for the caller, -1 for none. The process must be there now: one that
 * takes over its pid later is another. Moves to another cgroup are followed within a second.
 * Every file may be missing: that source is then absent.
 * One reader belongs to one thread at a time. Returns 0; -ENOMEM; -EBADF for a closed descriptor;
 * -EINVAL for another pid below 0; -errno of opening /proc or /sys/fs/cgroup if it is there.
 */
PN_API int pn_host_signals_open(pn_host_signals **ret, int procfs_fd, int cgroupfs_fd, int pid);

/*
 * Reads the sources in `what` (PN_HOST_READ_*); the others keep their last values. now_ns is
 * CLOCK_MONOTONIC, above 0. A file that cannot be read or understood leaves its last good values
 * in place and marks its source stale. Costs one pread a file, a few microseconds each.
 * Returns 0 if the bytes (total and available) are or were valid, -ENODATA if they have not been
 * asked for yet, else the -errno of their source; *ret is filled either way.
 */
PN_API int pn_host_signals_read(pn_host_signals *hs, unsigned what, uint64_t now_ns,
				pn_host_sample *ret);

/* Closes it. NULL is allowed. */
PN_API void pn_host_signals_close(pn_host_signals *hs);

#ifdef __cplusplus
}
#endif

#endif
