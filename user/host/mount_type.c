/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading mountinfo. See mount_type.h. */
#include "host/mount_type.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -1 if the kernel does not say. */
static int mount_id(int fd)
{
	char path[48], line[64];
	FILE *file;
	int id = -1;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "re");
	while (file && id < 0 && fgets(line, sizeof(line), file))
		if (sscanf(line, "mnt_id: %d", &id) != 1)
			id = -1;
	if (file)
		fclose(file);
	return id;
}

/* "36 35 98:0 /root /mount options tags - type source options" */
static bool parse_line(const char *line, int id, char ret[MOUNT_TYPE_BYTES])
{
	const char *type = strstr(line, " - ");
	size_t bytes;

	if (atoi(line) != id || !type)
		return false;
	type += 3;
	bytes = strcspn(type, " \n");
	if (!bytes || bytes >= MOUNT_TYPE_BYTES)
		return false;
	memcpy(ret, type, bytes);
	ret[bytes] = 0;
	return true;
}

int mount_type_of(int procfs_fd, int pid, int fd, char ret[MOUNT_TYPE_BYTES])
{
	int id = mount_id(fd), table, r = -ENOENT;
	char path[32], *line = NULL;
	size_t room = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%d/mountinfo", pid);
	table = openat(procfs_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	file = table < 0 ? NULL : fdopen(table, "r");
	if (!file) {
		r = -errno;
		if (table >= 0)
			close(table);
		return r;
	}
	while (id >= 0 && r && getline(&line, &room, file) > 0)
		if (parse_line(line, id, ret))
			r = 0;
	free(line);
	fclose(file);
	return r;
}

bool mount_type_is_local(const char *type)
{
	static const char *const local[] = { "bcachefs", "btrfs", "erofs",  "ext2",
					     "ext3",     "ext4",  "f2fs",   "iso9660",
					     "jfs",      "ramfs", "rootfs", "reiserfs",
					     "squashfs", "tmpfs", "xfs",    "zfs" };

	for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
		if (!strcmp(type, local[i]))
			return true;
	return false;
}
