/* SPDX-License-Identifier: BSD-2-Clause */
/* The kept file of host_file.h. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/host_file.h"

/* Returns the length or -errno. */
static ssize_t host_file_pread(int fd, char *buf, size_t cap_bytes)
{
	ssize_t len = pread(fd, buf, cap_bytes, 0);

	if (len < 0)
		return -errno;
	return (size_t)len < cap_bytes ? len : -EMSGSIZE;
}

/*
 * A removed cgroup answers ENODEV by itself. In a made-up tree (--procfs DIR) the old descriptor
 * of a replaced file would go on reading the old text: the link count shows it.
 */
static bool host_file_deleted(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_nlink == 0;
}

int host_file_read(struct host_file *file, int dir_fd, const char *path, uint64_t now_ns, char *buf,
		   size_t cap_bytes, size_t *ret_len_bytes)
{
	ssize_t len;

	if (file->fd >= 0) {
		len = host_file_pread(file->fd, buf, cap_bytes);
		if (len >= 0 && !host_file_deleted(file->fd)) {
			*ret_len_bytes = (size_t)len;
			return 0;
		}
		host_file_close(file);
	} else if (now_ns < file->retry_ns) {
		return file->err;
	}

	file->fd = dir_fd < 0 ? -1 : openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	if (file->fd >= 0)
		len = host_file_pread(file->fd, buf, cap_bytes);
	else
		len = dir_fd < 0 ? -ENOENT : -errno;
	if (len >= 0) {
		file->seen = true;
		*ret_len_bytes = (size_t)len;
		return 0;
	}
	host_file_close(file);
	if (len == -ENOENT || len == -ENOTDIR)
		len = file->seen ? -ENODEV : -ENOENT;
	file->err = (int)len;
	file->retry_ns = now_ns + HOST_FILE_RETRY_NS;
	return file->err;
}

void host_file_close(struct host_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
	file->retry_ns = 0;
}
