/* SPDX-License-Identifier: BSD-2-Clause */
/* See group.h. */
#include "support/group.h"

#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/file_write.h"

static bool has_memory(const char *dir)
{
	char path[1200], text[512] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.controllers", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	return strstr(text, "memory");
}

int group_root(struct group *ret)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	struct mntent *mount;

	memset(ret, 0, sizeof(*ret));
	while (mounts && (mount = getmntent(mounts))) {
		bool is_v2 = !strcmp(mount->mnt_type, "cgroup2");

		if (is_v2 && !has_memory(mount->mnt_dir)) {
			snprintf(ret->v2, sizeof(ret->v2), "%s", mount->mnt_dir);
		} else if (is_v2 ||
			   (!strcmp(mount->mnt_type, "cgroup") && hasmntopt(mount, "memory"))) {
			snprintf(ret->memory, sizeof(ret->memory), "%s", mount->mnt_dir);
			ret->is_v1 = !is_v2;
		}
	}
	if (mounts)
		endmntent(mounts);
	return ret->memory[0] ? 0 : -ENOENT;
}

static int make_below(char ret_path[static 1024], const char *parent, const char *name)
{
	int n = snprintf(ret_path, 1024, "%s/pnmem-%d-%s", parent, (int)getpid(), name);
	int r = n >= 1024 ? -ENAMETOOLONG : 0;

	if (!r && mkdir(ret_path, 0755))
		r = -errno;
	if (r)
		ret_path[0] = '\0';
	return r;
}

int group_create(struct group *ret, const struct group *parent, const char *name)
{
	int r = 0;

	memset(ret, 0, sizeof(*ret));
	ret->is_v1 = parent->is_v1;
	if (!ret->is_v1)
		r = file_write(parent->memory, "cgroup.subtree_control", "+memory");
	if (!r)
		r = make_below(ret->memory, parent->memory, name);
	if (!r && parent->v2[0])
		r = make_below(ret->v2, parent->v2, name);
	if (r)
		group_destroy(ret);
	return r;
}

int group_set_max(const struct group *group, uint64_t bytes)
{
	char text[32];
	int r;

	snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
	r = file_write(group->memory, group->is_v1 ? "memory.limit_in_bytes" : "memory.max", text);
	/* A kernel without swap accounting has no such file, which is as good here. */
	file_write(group->memory, group->is_v1 ? "memory.memsw.limit_in_bytes" : "memory.swap.max",
		   group->is_v1 ? text : "0");
	return r;
}

static int set_bytes(const struct group *group, const char *file, uint64_t bytes)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
	return file_write(group->memory, file, text);
}

int group_set_low(const struct group *group, uint64_t bytes)
{
	return set_bytes(group, "memory.low", bytes);
}

int group_set_high(const struct group *group, uint64_t bytes)
{
	return set_bytes(group, "memory.high", bytes);
}

int group_join(const struct group *group, pid_t pid)
{
	char text[16];
	int r;

	snprintf(text, sizeof(text), "%d", pid);
	r = file_write(group->memory, "cgroup.procs", text);
	if (!r && group->v2[0])
		r = file_write(group->v2, "cgroup.procs", text);
	return r;
}

/* An exited process may hold the group for a moment after it was waited for. */
static void remove_folder(const char *path)
{
	for (int i = 0; path[0] && rmdir(path) && errno == EBUSY && i < 100; i++)
		usleep(10000);
}

void group_destroy(struct group *group)
{
	remove_folder(group->memory);
	remove_folder(group->v2);
	memset(group, 0, sizeof(*group));
}
