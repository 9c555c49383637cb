/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The text files of the memory cgroup, v2 and v1: parsers alone. Which files to read, and what
 * follows from them, is cgroup.c's.
 */
#ifndef PNMEM_HOST_CGROUP_FILES_H
#define PNMEM_HOST_CGROUP_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "host/scan.h"

/* A limit that is not set. */
#define CGROUP_NO_LIMIT UINT64_MAX

/*
 * From here on a v1 limit means none: v1 shows LONG_MAX rounded down to a page for that, which is
 * 0x7ffffffffffff000 with 4 KiB pages and this with 64 KiB ones.
 */
#define CGROUP_V1_NO_LIMIT_BYTES 0x7fffffffffff0000ull

/* memory.current, memory.usage_in_bytes: one number. Returns 0 or -EBADMSG. */
int cgroup_files_usage(const char *buf, size_t len_bytes, uint64_t *ret_bytes);

/*
 * memory.max, memory.high, memory.limit_in_bytes: a number or "max"; *ret_bytes is
 * CGROUP_NO_LIMIT where there is none. Returns 0 or -EBADMSG.
 */
int cgroup_files_limit(const char *buf, size_t len_bytes, uint64_t *ret_bytes);

/* The value of one key of memory.stat. Returns 0, or -EBADMSG also if the key is not there. */
int cgroup_files_stat(const char *buf, size_t len_bytes, const char *key, uint64_t *ret_bytes);

/* Paths out of /proc/PID/cgroup, in the caller's buffer; both ends NULL where there is no line. */
struct cgroup_paths {
	struct scan v2;        /* "0::PATH" */
	struct scan v1_memory; /* "N:...,memory,...:PATH" */
};

/*
 * Parses /proc/PID/cgroup. Returns 0, or -EBADMSG for a line that is not ID:CONTROLLERS:/PATH or
 * a file without any.
 */
int cgroup_files_paths(const char *buf, size_t len_bytes, struct cgroup_paths *ret);

#endif
