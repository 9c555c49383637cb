/* SPDX-License-Identifier: BSD-2-Clause */
/* See uprobe.h. */
#include "agent/gpu/uprobe.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UPROBE "/sys/bus/event_source/devices/uprobe/"

/* The number in a line such as "9" or "config:0". 0 or -errno. */
static int read_number(const char *path, unsigned *ret)
{
	FILE *file = fopen(path, "re");
	char line[32] = "";
	size_t n;

	if (!file)
		return -errno;
	if (!fgets(line, sizeof(line), file))
		line[0] = 0;
	fclose(file);
	n = strcspn(line, "0123456789");
	*ret = (unsigned)strtoul(line + n, NULL, 10);
	return line[n] ? 0 : -EINVAL;
}

int uprobe_open(int program_fd, const char *path, uint64_t offset)
{
	struct perf_event_attr attr = { .size = sizeof(attr) };
	unsigned return_bit = 0;
	int fd, r;

	r = read_number(UPROBE "type", &attr.type);
	if (!r)
		r = read_number(UPROBE "format/retprobe", &return_bit);
	if (r)
		return r;
	attr.config = 1ull << return_bit;
	attr.uprobe_path = (uintptr_t)path;
	attr.probe_offset = offset;
	fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, program_fd) || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0)) {
		r = -errno;
		close(fd);
		return r;
	}
	return fd;
}
