/* SPDX-License-Identifier: BSD-2-Clause */
/* Which libcuda a process has mapped, from /proc/PID/maps. */
#ifndef PNMEM_HOST_CUDA_MAPS_H
#define PNMEM_HOST_CUDA_MAPS_H

#include <stddef.h>
#include <stdint.h>

/* An executable mapping of a file named libcuda.so, .so.1 or the like. */
struct cuda_map {
	uint64_t start, end; /* addresses: with them /proc/PID/map_files/START-END is that file */
	unsigned dev_major, dev_minor;
	uint64_t inode; /* as maps says it, which on some file systems is not stat's device */
};

/*
 * At most max in ret[]. Returns their number, or -errno: -ENOENT and -ESRCH (it has ended), -EACCES
 * and others of open and read. A process with more maps than 16 MiB of text is read so far.
 */
int cuda_maps_read(int procfs_fd, int pid, struct cuda_map *ret, size_t max);

#endif
