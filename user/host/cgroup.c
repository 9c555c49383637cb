/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory cgroup of cgroup.h: finding the groups. Reading them is cgroup_read.c's.
 *
 * A path of /proc/PID/cgroup that is not under the mount means a container that sees the host's
 * paths with its own group mounted as the root, so the root group is taken. But not when that
 * path has been there before: then the group is gone, and its parent's numbers are not its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/cgroup.h"

#define CGROUP_CHECK_NS 1000000000ull
/* Up to 13 v1 hierarchies, paths of a few hundred bytes each. */
#define CGROUP_PROC_TEXT_BYTES 16384

/* Returns a descriptor; -ENOENT also for what is no directory, and under none (-1); -errno. */
static int cgroup_opendir(int dir_fd, const char *path)
{
	int fd;

	if (dir_fd < 0)
		return -ENOENT;
	fd = openat(dir_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	return errno == ENOTDIR ? -ENOENT : -errno;
}

static const char *cgroup_skip_slashes(const char *path)
{
	return path + strspn(path, "/");
}

/* Components of a path, or -ENOENT with one that leaves it: "/../..", outside of a namespace. */
static int cgroup_depth(const char *path)
{
	int depth = 0;

	for (path = cgroup_skip_slashes(path); *path; path = cgroup_skip_slashes(path)) {
		size_t len = strcspn(path, "/");

		if (len == 2 && path[0] == '.' && path[1] == '.')
			return -ENOENT;
		depth++;
		path += len;
	}
	return depth;
}

/* The kernel's mark on the path of a group that has been removed. */
static bool cgroup_path_deleted(const char *path)
{
	static const char mark[] = " (deleted)";
	size_t len = strlen(path);

	return len >= sizeof(mark) - 1 && !strcmp(path + len - (sizeof(mark) - 1), mark);
}

/* Opens the group of a place. Returns the descriptor with its depth below root_fd, or -errno. */
static int cgroup_open_own(int root_fd, struct cgroup_place *place, int *ret_depth)
{
	const char *below = cgroup_skip_slashes(place->path);
	int depth = cgroup_depth(place->path);
	int fd = depth < 0 ? depth : cgroup_opendir(root_fd, *below ? below : ".");

	if (fd == -ENOENT) {
		if (place->found || cgroup_path_deleted(place->path))
			return -ENODEV;
		*ret_depth = 0;
		return cgroup_opendir(root_fd, ".");
	}
	if (fd >= 0) {
		place->found = true;
		*ret_depth = depth;
	}
	return fd;
}

/* Notes the path. Returns whether its group must be opened (again). */
static bool cgroup_place_changed(struct cgroup_place *place, struct scan path)
{
	size_t len = path.at ? (size_t)(path.end - path.at) : 0;

	if (!len || len >= sizeof(place->path)) {
		place->err = len ? -ENAMETOOLONG : -ENOENT;
		place->path[0] = '\0';
		place->found = place->has_usage = false;
		return false;
	}
	if (strlen(place->path) == len && !memcmp(place->path, path.at, len))
		return place->err != 0;
	memcpy(place->path, path.at, len);
	place->path[len] = '\0';
	place->found = place->has_usage = false;
	return true;
}

static void cgroup_close_memory(struct cgroup *cg)
{
	for (int i = 0; i < cg->n_groups; i++) {
		struct cgroup_group *group = &cg->groups[i];

		host_file_close(&group->max);
		host_file_close(&group->high);
		host_file_close(&group->current);
		host_file_close(&group->stat);
		close(group->dir_fd);
	}
	cg->n_groups = 0;
}

static void cgroup_close_psi(struct cgroup *cg)
{
	host_file_close(&cg->psi_file);
	if (cg->psi_dir_fd >= 0)
		close(cg->psi_dir_fd);
	cg->psi_dir_fd = -1;
	cg->psi_id = 0;
}

/* 0 if it cannot be told: no group has that. */
static uint64_t cgroup_id(int dir_fd)
{
	struct stat st;

	return fstat(dir_fd, &st) ? 0 : st.st_ino;
}

static void cgroup_add_group(struct cgroup *cg, int dir_fd)
{
	cg->groups[cg->n_groups++] = (struct cgroup_group){
		.dir_fd = dir_fd,
		.id = cgroup_id(dir_fd),
		.max = HOST_FILE_INIT,
		.high = HOST_FILE_INIT,
		.current = HOST_FILE_INIT,
		.stat = HOST_FILE_INIT,
	};
}

/* Opens the own group and its ancestors. Returns 0 or -errno, then with none open. */
static int cgroup_open_memory(struct cgroup *cg, int root_fd)
{
	int depth;
	int fd = cgroup_open_own(root_fd, &cg->memory, &depth);

	if (fd < 0)
		return fd;
	cgroup_add_group(cg, fd);
	while (depth-- > 0) {
		if (cg->n_groups < CGROUP_MAX_GROUPS - 1)
			fd = cgroup_opendir(cg->groups[cg->n_groups - 1].dir_fd, "..");
		else
			fd = cgroup_opendir(root_fd, ".");
		if (fd < 0) {
			cgroup_close_memory(cg);
			return fd;
		}
		cgroup_add_group(cg, fd);
		if (cg->n_groups == CGROUP_MAX_GROUPS)
			break;
	}
	return 0;
}

static int cgroup_open_v2_root(const struct cgroup *cg)
{
	bool unified = faccessat(cg->cgroupfs_fd, "cgroup.controllers", F_OK, 0) == 0;

	return cgroup_opendir(cg->cgroupfs_fd, unified ? "." : "unified");
}

static void cgroup_find_memory(struct cgroup *cg, const struct cgroup_paths *paths)
{
	bool v1 = paths->v1_memory.at && faccessat(cg->cgroupfs_fd, "memory", F_OK, 0) == 0;
	int root_fd;

	if (v1 != cg->v1)
		cg->memory.err = -ENOENT;
	cg->v1 = v1;
	if (!cgroup_place_changed(&cg->memory, v1 ? paths->v1_memory : paths->v2))
		return;
	cgroup_close_memory(cg);
	root_fd = v1 ? cgroup_opendir(cg->cgroupfs_fd, "memory") : cgroup_open_v2_root(cg);
	if (root_fd < 0) {
		cg->memory.err = cg->memory.found ? -ENODEV : root_fd;
		return;
	}
	cg->memory.err = cgroup_open_memory(cg, root_fd);
	close(root_fd);
}

static void cgroup_find_psi(struct cgroup *cg, const struct cgroup_paths *paths)
{
	int root_fd, fd, depth;

	if (!cgroup_place_changed(&cg->psi, paths->v2))
		return;
	cgroup_close_psi(cg);
	if (!cg->psi.found)
		cg->psi_file = HOST_FILE_INIT;
	root_fd = cgroup_open_v2_root(cg);
	if (root_fd < 0) {
		cg->psi.err = cg->psi.found ? -ENODEV : root_fd;
		return;
	}
	fd = cgroup_open_own(root_fd, &cg->psi, &depth);
	close(root_fd);
	cg->psi.err = fd < 0 ? fd : 0;
	if (fd < 0)
		return;
	cg->psi_dir_fd = fd;
	cg->psi_id = cgroup_id(fd);
}

static struct scan cgroup_path_scan(const char *path)
{
	return *path ? (struct scan){ path, path + strlen(path) } : (struct scan){ NULL, NULL };
}

/* The paths as last found, of a process that cannot be asked any more. */
static struct cgroup_paths cgroup_last_paths(const struct cgroup *cg)
{
	return (struct cgroup_paths){
		.v2 = cgroup_path_scan(cg->psi.path),
		.v1_memory = cgroup_path_scan(cg->v1 ? cg->memory.path : ""),
	};
}

void cgroup_find(struct cgroup *cg, uint64_t now_ns)
{
	char text[CGROUP_PROC_TEXT_BYTES];
	struct cgroup_paths paths;
	size_t len;
	int err;

	if (now_ns < cg->check_ns)
		return;
	cg->check_ns = now_ns + CGROUP_CHECK_NS;
	err = host_file_read(&cg->proc_file, cg->proc_fd, "cgroup", now_ns, text, sizeof(text),
			     &len);
	if (!err)
		err = cgroup_files_paths(text, len, &paths);
	/* An exited process says nothing of the group it was in: that is still read. */
	if (err)
		paths = cgroup_last_paths(cg);
	if (!err || paths.v1_memory.at || paths.v2.at) {
		cgroup_find_memory(cg, &paths);
		cgroup_find_psi(cg, &paths);
	} else {
		cg->memory.err = cg->psi.err = err;
	}
}

void cgroup_pin(struct cgroup *cg)
{
	host_file_close(&cg->proc_file);
	if (cg->proc_fd >= 0)
		close(cg->proc_fd);
	cg->proc_fd = -1;
}

bool cgroup_is_within(const struct cgroup *cg, uint64_t id)
{
	if (!id)
		return false;
	if (cg->psi_id == id)
		return true;
	for (int i = 0; i < cg->n_groups; i++)
		if (cg->groups[i].id == id)
			return true;
	return false;
}

bool cgroup_limits_pressure(const struct cgroup *cg)
{
	if (cg->memory.err || cg->psi.err)
		return false;
	return !cg->v1 || (cg->psi.path[1] && !strcmp(cg->memory.path, cg->psi.path));
}

void cgroup_init(struct cgroup *cg, int procfs_fd, int cgroupfs_fd, int pid)
{
	char name[16] = "self";

	if (pid)
		snprintf(name, sizeof(name), "%d", pid);
	memset(cg, 0, sizeof(*cg));
	cg->cgroupfs_fd = cgroupfs_fd;
	cg->proc_fd = cgroup_opendir(procfs_fd, name);
	cg->proc_file = HOST_FILE_INIT;
	cg->psi_file = HOST_FILE_INIT;
	cg->psi_dir_fd = -1;
	cg->limit_group = -1;
	cg->memory.err = cg->psi.err = -ENOENT;
}

void cgroup_close(struct cgroup *cg)
{
	cgroup_close_memory(cg);
	cgroup_close_psi(cg);
	cgroup_pin(cg);
}
