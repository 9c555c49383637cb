/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the numbers in trace records stand for, looked up when one is first met, since the cgroup
 * may be gone when the file is read. Names are kept in a ring of their own.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/recorder/recorder_names.h"
#include "host/cgroup_files.h"

/* Each look-up reads a file of /proc: no storm of new cgroups may keep the loop from looking. */
#define LOOKUPS_PER_S 50

/* One of 256: the upper bits of the product depend on all of the number. */
static unsigned set_of(uint64_t cgroup_id)
{
	return cgroup_id * 0x9e3779b97f4a7c15ull >> 56;
}

static bool is_known(const struct recorder_names *names, uint64_t cgroup_id)
{
	unsigned set = set_of(cgroup_id);

	for (unsigned way = 0; way < NAMES_WAYS; way++)
		if (names->set[set].id[way] == cgroup_id)
			return true;
	return false;
}

static void remember(struct recorder_names *names, uint64_t cgroup_id)
{
	unsigned set = set_of(cgroup_id);

	names->set[set].id[names->set[set].next++ % NAMES_WAYS] = cgroup_id;
}

static bool may_look_up(struct recorder_names *names, uint64_t now_ns)
{
	if (now_ns - names->window_ns >= 1000000000) {
		names->window_ns = now_ns;
		names->window_count = 0;
	}
	return names->window_count++ < LOOKUPS_PER_S;
}

static ssize_t read_cgroup(int procfs_fd, int pid, char *buf, size_t bytes)
{
	char path[48];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%d/cgroup", pid);
	fd = openat(procfs_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, buf, bytes);
	close(fd);
	return n;
}

bool recorder_names_find(struct recorder_names *names, int procfs_fd, uint64_t cgroup_id, int pid,
			 uint64_t now_ns, char ret_path[static RECORDER_NAME_BYTES])
{
	struct cgroup_paths paths;
	char text[8192];
	size_t bytes;
	ssize_t n;

	if (!cgroup_id || !pid || is_known(names, cgroup_id) || !may_look_up(names, now_ns))
		return false;
	n = read_cgroup(procfs_fd, pid, text, sizeof(text));
	if (n <= 0 || cgroup_files_paths(text, (size_t)n, &paths) || !paths.v2.at)
		return false;
	remember(names, cgroup_id);
	/* Of a path that is too long the end says more. */
	bytes = (size_t)(paths.v2.end - paths.v2.at);
	if (bytes >= RECORDER_NAME_BYTES) {
		paths.v2.at += bytes - (RECORDER_NAME_BYTES - 1);
		bytes = RECORDER_NAME_BYTES - 1;
	}
	memcpy(ret_path, paths.v2.at, bytes);
	ret_path[bytes] = 0;
	return true;
}
