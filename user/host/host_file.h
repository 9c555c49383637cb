/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A small kernel file that is read again and again: opened once, one pread per sample, opened
 * again when it went away. What the bytes mean is left to the parsers.
 */
#ifndef PNMEM_HOST_FILE_H
#define PNMEM_HOST_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A failed open or read is not tried again for this long, so that nothing can spin on it. */
#define HOST_FILE_RETRY_NS 1000000000ull

struct host_file {
	int fd;            /* -1: not open */
	int err;           /* with fd -1: why, -errno */
	bool seen;         /* it has been read at least once */
	uint64_t retry_ns; /* with fd -1: not tried before this */
};

/* A file not opened yet. */
#define HOST_FILE_INIT ((struct host_file){ .fd = -1 })

/*
 * Reads the file at path under dir_fd into buf: one pread, and one open at most. A kept descriptor
 * that fails, or whose file has been deleted, is opened again in the same call; if that fails too,
 * the error is returned from memory until HOST_FILE_RETRY_NS has passed. now_ns is monotonic.
 * Returns 0 with the length; -ENOENT if there never was such a file; -ENODEV if there was and it
 * is gone; -EMSGSIZE if it does not fit; else the -errno of open or read (-EOPNOTSUPP: PSI off).
 */
int host_file_read(struct host_file *file, int dir_fd, const char *path, uint64_t now_ns, char *buf,
		   size_t cap_bytes, size_t *ret_len_bytes);

/* Closes it; it may be read again. */
void host_file_close(struct host_file *file);

#endif
