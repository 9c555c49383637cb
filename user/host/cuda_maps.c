/* SPDX-License-Identifier: BSD-2-Clause */
/* Finding libcuda in /proc/PID/maps. See cuda_maps.h. */
#include "host/cuda_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX_BYTES (16u << 20)
/* Longer than a line can be: PATH_MAX, escaped. */
#define BUFFER_BYTES 32768

/* One line without its newline, with a zero byte in its place. */
static bool parse_line(const char *line, struct cuda_map *ret)
{
	const char *name = strstr(line, "/libcuda.so");
	unsigned long long start, end, inode;
	unsigned dev_major, dev_minor;
	char mode[5];

	if (!name || strchr(name + 1, '/') || !strchr(". ", name[strlen("/libcuda.so")]))
		return false;
	if (sscanf(line, "%llx-%llx %4s %*x %x:%x %llu /", &start, &end, mode, &dev_major,
		   &dev_minor, &inode) != 6)
		return false;
	if (!strchr(mode, 'x') || !inode || start >= end)
		return false;
	*ret = (struct cuda_map){ start, end, dev_major, dev_minor, inode };
	return true;
}

static bool is_known(const struct cuda_map *maps, size_t count, const struct cuda_map *map)
{
	for (size_t i = 0; i < count; i++)
		if (maps[i].inode == map->inode && maps[i].dev_major == map->dev_major &&
		    maps[i].dev_minor == map->dev_minor)
			return true;
	return false;
}

int cuda_maps_read(int procfs_fd, int pid, struct cuda_map *ret, size_t max)
{
	char path[32], buf[BUFFER_BYTES + 1];
	size_t used = 0, total = 0, count = 0;
	struct cuda_map map;
	ssize_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "%d/maps", pid);
	fd = openat(procfs_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (total < TEXT_MAX_BYTES && count < max) {
		char *line = buf, *newline;

		n = read(fd, buf + used, BUFFER_BYTES - used);
		if (n <= 0)
			break;
		used += (size_t)n;
		total += (size_t)n;
		buf[used] = 0;
		for (; (newline = strchr(line, '\n')); line = newline + 1) {
			*newline = 0;
			if (count < max && parse_line(line, &map) && !is_known(ret, count, &map))
				ret[count++] = map;
		}
		used -= (size_t)(line - buf);
		if (used == BUFFER_BYTES)
			used = 0; /* no line is that long */
		memmove(buf, line, used);
	}
	n = n < 0 ? -errno : 0;
	close(fd);
	return n < 0 ? (int)n : (int)count;
}
