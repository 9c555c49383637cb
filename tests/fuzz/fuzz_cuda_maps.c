/* SPDX-License-Identifier: BSD-2-Clause */
/* /proc/PID/maps, which holds names that its process chose: no crash, no more than was room for. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/cuda_maps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

static char dir[] = "/tmp/pnmem-fuzz-maps-"
		    "XXXXXX";
static int procfs_fd = -1;

static void remove_tree(void)
{
	unlinkat(procfs_fd, "1/maps", 0);
	unlinkat(procfs_fd, "1", AT_REMOVEDIR);
	rmdir(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
	struct cuda_map maps[4];
	int fd, n;

	if (procfs_fd < 0) {
		if (!mkdtemp(dir))
			abort();
		procfs_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (procfs_fd < 0 || mkdirat(procfs_fd, "1", 0700))
			abort();
		atexit(remove_tree);
	}
	fd = openat(procfs_fd, "1/maps", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, data, len_bytes) != (ssize_t)len_bytes)
		abort();
	close(fd);
	n = cuda_maps_read(procfs_fd, 1, maps, 4);
	if (n > 4)
		abort();
	for (int i = 0; i < n; i++)
		if (maps[i].start >= maps[i].end)
			abort();
	return 0;
}
