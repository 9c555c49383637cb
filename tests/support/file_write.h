/* SPDX-License-Identifier: BSD-2-Clause */
/* Writing a file of the kernel: of a cgroup, of /proc. */
#ifndef PNMEM_SUPPORT_FILE_WRITE_H
#define PNMEM_SUPPORT_FILE_WRITE_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Writes the text to file name in folder dir, in one piece. 0 or -errno. */
static inline int file_write(const char *dir, const char *name, const char *text)
{
	char path[1200];
	int fd, r = 0;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		r = -errno;
	close(fd);
	return r;
}

#endif
