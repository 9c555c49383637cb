/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the numbers in trace records stand for, looked up when one is first met, since the cgroup
 * may be gone when the file is read. Names are kept in a ring of their own.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/recorder_memory.h"
#include "host/cgroup_files.h"

/* Each look-up reads a file of /proc: no storm of new cgroups may keep the loop from looking. */
#define LOOKUPS_PER_S 50
#define NAME_BYTES    512

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

static ssize_t read_cgroup(const struct agent *agent, int pid, char *buf, size_t bytes)
{
	char path[48];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%d/cgroup", pid);
	fd = openat(agent->procfs_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, buf, bytes);
	close(fd);
	return n;
}

void recorder_name(struct recorder *recorder, uint32_t of, uint64_t id, const char *text,
		   uint64_t now_ns)
{
	struct trace_name name = { .of = of, .id = id };
	size_t bytes = strlen(text);

	/* Of a path that is too long the end says more. */
	if (bytes >= NAME_BYTES)
		text += bytes - NAME_BYTES + 1;
	trace_ring_put(&recorder->memory->names, recorder->names_block, TRACE_NAME, now_ns, &name,
		       sizeof(name), text);
}

void recorder_name_cgroup(struct agent *agent, uint64_t cgroup_id, int pid, uint64_t now_ns)
{
	struct recorder *recorder = agent->recorder;
	struct cgroup_paths paths;
	char text[8192];
	ssize_t n;

	if (!cgroup_id || !pid || is_known(&recorder->names, cgroup_id) ||
	    !may_look_up(&recorder->names, now_ns))
		return;
	n = read_cgroup(agent, pid, text, sizeof(text) - 1);
	if (n <= 0 || cgroup_files_paths(text, (size_t)n, &paths) || !paths.v2.at)
		return;
	text[paths.v2.end - text] = 0;
	remember(&recorder->names, cgroup_id);
	recorder_name(recorder, TRACE_NAME_CGROUP, cgroup_id, paths.v2.at, now_ns);
}
