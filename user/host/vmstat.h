/* SPDX-License-Identifier: BSD-2-Clause */
/* /proc/vmstat, the parsers alone: pages that changed hands, what reclaim did, page faults. */
#ifndef PNMEM_HOST_VMSTAT_H
#define PNMEM_HOST_VMSTAT_H

#include <stddef.h>
#include <stdint.h>

#include "core/trace_format.h"

/* 4 KiB today; a counter more costs about 30 bytes. */
#define VMSTAT_TEXT_BYTES 16384

/*
 * Pages allocated (pgalloc_*, of every zone) and pages moved to an active list (pgactivate): the
 * headroom of no cgroup shrinks by more than that, since a charge takes a page and a page that is
 * not reclaimed first was activated. Not counted are charges for pages that were there before:
 * slab objects, pages swapped in by readahead.
 * Returns 0, or -EBADMSG with *ret_pages untouched: cut short, or not one of the counters there.
 */
int vmstat_churn(const char *buf, size_t len_bytes, uint64_t *ret_pages);

/* A line that this kernel does not have is 0. Returns 0, or -EBADMSG for a text that was cut. */
int vmstat_parse(const char *buf, size_t len_bytes, struct trace_vmstat *ret);

#endif
