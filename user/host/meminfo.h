/* SPDX-License-Identifier: BSD-2-Clause */
/* /proc/meminfo: the parser alone; reading the file is host_file's. */
#ifndef PNMEM_HOST_MEMINFO_H
#define PNMEM_HOST_MEMINFO_H

#include <stddef.h>
#include <stdint.h>

struct meminfo {
	uint64_t total_bytes;     /* MemTotal, above 0 */
	uint64_t avail_bytes;     /* MemAvailable, at most total_bytes */
	uint64_t swap_free_bytes; /* SwapFree, 0 if there is no such line */
};

/*
 * Parses the whole file. MemAvailable is never estimated from other fields: without it, or with
 * any of the three lines broken, the file is garbled. Values after "kB" are ignored.
 * Returns 0, or -EBADMSG with *ret untouched.
 */
int meminfo_parse(const char *buf, size_t len_bytes, struct meminfo *ret);

#endif
