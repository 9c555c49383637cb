/* SPDX-License-Identifier: BSD-2-Clause */
/* Arming a PSI trigger. See psi_trigger.h. */
#include "host/psi_trigger.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

/*
 * Smallest first: 10 ms windows are for CAP_SYS_RESOURCE from 6.5 on, 500 ms for anyone before
 * 6.5 (root before 6.4), and N * 2 s for anyone from then on.
 */
static const struct {
	const char *text;
	unsigned window_ms;
} triggers[] = {
	{ "some 1000 10000", 10 },
	{ "some 25000 500000", 500 },
	{ "some 100000 2000000", 2000 },
};

int psi_trigger_open(int procfs_fd, unsigned *ret_window_ms)
{
	struct statfs fs;
	int err = -EINVAL;

	if (fstatfs(procfs_fd, &fs))
		return -errno;
	if (fs.f_type != PROC_SUPER_MAGIC)
		return -EOPNOTSUPP;
	for (size_t i = 0; i < sizeof(triggers) / sizeof(triggers[0]); i++) {
		int fd = openat(procfs_fd, "pressure/memory", O_RDWR | O_NONBLOCK | O_CLOEXEC);

		if (fd < 0)
			return -errno;
		/* The kernel overwrites the last byte with NUL, so it must be part of the write. */
		if (write(fd, triggers[i].text, strlen(triggers[i].text) + 1) > 0) {
			*ret_window_ms = triggers[i].window_ms;
			return fd;
		}
		err = -errno;
		/* A descriptor whose write failed polls POLLERR for ever: never hand it out. */
		close(fd);
	}
	return err;
}
