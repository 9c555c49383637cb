/* SPDX-License-Identifier: BSD-2-Clause */
/* Parser of /proc/vmstat: what reclaim scanned and reclaimed, and page faults. */
#ifndef PNMEM_HOST_VMSTAT_H
#define PNMEM_HOST_VMSTAT_H

#include <stddef.h>

#include "core/trace_format.h"

/* A line that this kernel does not have is 0. Returns 0, or -EBADMSG for a text that was cut. */
int vmstat_parse(const char *buf, size_t len_bytes, struct trace_vmstat *ret);

#endif
