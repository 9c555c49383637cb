// SPDX-License-Identifier: BSD-2-Clause
/* Memory pressure inside a cgroup, see pressure.h. */
#include "support/pressure.h"

#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/file_write.h"

static bool file_has_word(const char *dir, const char *name, const char *word)
{
	char path[512], text[512] = "";
	FILE *file;
	bool found = false;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && fscanf(file, "%511s", text) == 1)
		found = strcmp(text, word) == 0;
	fclose(file);
	return found;
}

/* Where the memory controller is mounted. Returns 0 or -errno. */
static int controller_find(char *ret_root, size_t root_bytes, bool *ret_is_v1)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	struct mntent *mount;
	int err = -ENOENT;

	if (!mounts)
		return -errno;
	while (err && (mount = getmntent(mounts))) {
		bool is_v1 = strcmp(mount->mnt_type, "cgroup") == 0 && hasmntopt(mount, "memory");
		bool is_v2 = strcmp(mount->mnt_type, "cgroup2") == 0 &&
			     file_has_word(mount->mnt_dir, "cgroup.controllers", "memory");

		if (!is_v1 && !is_v2)
			continue;
		snprintf(ret_root, root_bytes, "%s", mount->mnt_dir);
		*ret_is_v1 = is_v1;
		err = 0;
	}
	endmntent(mounts);
	return err;
}

int pressure_group_create(struct pressure_group *group, size_t limit_bytes)
{
	static unsigned int serial;
	char root[128], limit[32];
	int err;

	memset(group, 0, sizeof(*group));
	group->file_fd = -1;
	err = controller_find(root, sizeof(root), &group->is_v1);
	if (err)
		return err;
	if (!group->is_v1) {
		err = file_write(root, "cgroup.subtree_control", "+memory");
		if (err)
			return err;
	}
	snprintf(group->path, sizeof(group->path), "%s/pnmem-test-%d-%u", root, (int)getpid(),
		 serial++);
	if (mkdir(group->path, 0755)) {
		err = -errno;
		group->path[0] = '\0';
		return err;
	}
	group->limit_bytes = limit_bytes;
	snprintf(limit, sizeof(limit), "%zu", limit_bytes);
	err = file_write(group->path, group->is_v1 ? "memory.limit_in_bytes" : "memory.max", limit);
	/* No swap; a kernel without swap accounting has no such file, which is as good here. */
	file_write(group->path, group->is_v1 ? "memory.memsw.limit_in_bytes" : "memory.swap.max",
		   group->is_v1 ? limit : "0");
	if (err)
		pressure_group_destroy(group);
	return err;
}

void pressure_group_none(struct pressure_group *group)
{
	memset(group, 0, sizeof(*group));
	group->file_fd = -1;
}

void pressure_group_destroy(struct pressure_group *group)
{
	if (!group)
		return;
	if (group->file_fd > 0)
		close(group->file_fd);
	/* An exited process may hold the group for a moment after it was waited for. */
	for (int i = 0; group->path[0] && rmdir(group->path) && errno == EBUSY && i < 100; i++)
		usleep(10000);
	memset(group, 0, sizeof(*group));
}

int pressure_group_join(const struct pressure_group *group)
{
	return file_write(group->path, "cgroup.procs", "0");
}

/* Its pages must not stay in the cache charged to someone else: written out, then dropped. */
static int reader_file_make(struct pressure_group *group, size_t file_bytes)
{
	static const char block[1 << 20] = { 1 };
	const char *dir = getenv("TMPDIR");
	char path[256];
	int fd, err = 0;

	snprintf(path, sizeof(path), "%s/pnmem-pressure-XXXXXX", dir ? dir : "/var/tmp");
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	for (size_t done = 0; done < file_bytes && !err; done += sizeof(block))
		if (write(fd, block, sizeof(block)) != (ssize_t)sizeof(block))
			err = -ENOSPC;
	if (!err && fsync(fd))
		err = -errno;
	if (!err)
		err = -posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (err)
		close(fd);
	else
		group->file_fd = fd;
	return err;
}

/* A child in the group that dies with its parent. Returns as fork does. */
static pid_t child_start(const struct pressure_group *group)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || (group->path[0] && pressure_group_join(group)))
		_exit(1);
	return 0;
}

static void reader_run(int fd, unsigned pass_gap_us)
{
	volatile const uint8_t *bytes;
	struct stat st;

	if (fstat(fd, &st))
		_exit(1);
	bytes = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED)
		_exit(1);
	for (;;) {
		for (off_t i = 0; i < st.st_size; i += 4096)
			(void)bytes[i];
		if (pass_gap_us)
			usleep(pass_gap_us);
	}
}

pid_t pressure_start_reader(struct pressure_group *group, size_t file_bytes)
{
	pid_t pid;
	int err;

	if (group->file_fd < 0) {
		err = reader_file_make(group, file_bytes);
		if (err)
			return err;
	}
	pid = child_start(group);
	if (pid == 0)
		reader_run(group->file_fd, group->pass_gap_us);
	return pid;
}

int pressure_group_set_high(const struct pressure_group *group, size_t high_bytes)
{
	char text[32];

	snprintf(text, sizeof(text), "%zu", high_bytes);
	return file_write(group->path, "memory.high", text);
}

static void touch_anon(size_t bytes)
{
	volatile uint8_t *at =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		_exit(1);
	for (size_t i = 0; i < bytes; i += 4096)
		at[i] = 1;
}

pid_t pressure_start_anon(const struct pressure_group *group, size_t take_bytes)
{
	pid_t pid = child_start(group);

	if (pid)
		return pid;
	touch_anon(take_bytes);
	for (;;)
		pause();
}

void pressure_stop(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static size_t available_bytes(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	size_t kib = 0;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %zu kB", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib * 1024;
}

void pressure_make_bytes_short(void)
{
	char text[32];

	snprintf(text, sizeof(text), "%zu", available_bytes() / 10 * 7);
	setenv("PN_HOST_RESERVE_BYTES", text, 1);
}

pid_t pressure_start_hog(size_t leave_bytes)
{
	const struct pressure_group none = { .path = "" };
	size_t available = available_bytes();
	size_t take = available > leave_bytes ? available - leave_bytes : 0;
	int done[2];
	pid_t pid;
	char byte;

	if (pipe2(done, O_CLOEXEC))
		return -errno;
	pid = child_start(&none);
	if (pid == 0) {
		/* Populated: one call, where a page fault for each page would take seconds. */
		void *bytes = mmap(NULL, take, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

		if (bytes == MAP_FAILED || write(done[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(done[1]);
	if (pid > 0 && read(done[0], &byte, 1) != 1) {
		pressure_stop(pid);
		pid = -ENOMEM;
	}
	close(done[0]);
	return pid;
}

pid_t pressure_oom(const struct pressure_group *group)
{
	pid_t pid = child_start(group);
	int status;

	if (pid < 0)
		return pid;
	if (pid == 0) {
		touch_anon(2 * group->limit_bytes);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? pid : -ECHILD;
}
