/* SPDX-License-Identifier: BSD-2-Clause */
/* Goes through processes and tells which have libcuda mapped. See finder_children.h. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/gpu/child.h"
#include "agent/gpu/finder_children.h"
#include "agent/privileges.h"
#include "host/clock.h"

/* It reads for so long at a time and then pauses: a process's maps take some 50 us. */
#define SLICE_NS       1000000ull
#define SLICE_PAUSE_NS 20000000ull

/*
 * The user who started it: a program can hide from the owner of its files in /proc, not from this.
 */
static uint32_t uid_of(int pid)
{
	char path[32], text[4096], *line;
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "%d/status", pid);
	fd = openat(CHILD_KEPT_FD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = 0;
	line = strstr(text, "\nUid:");
	return line ? (uint32_t)strtoul(line + strlen("\nUid:"), NULL, 10) : NO_UID;
}

static void say(const struct reader_found *found)
{
	if (send(CHILD_FD, found, sizeof(*found), MSG_NOSIGNAL) < 0)
		_exit(0);
}

static void read_process(const struct reader_task *task, int pid, bool *skipped)
{
	struct reader_found found = { .pid = pid };
	int n;

	task->place->uid = NO_UID;
	task->place->pid = pid;
	task->place->step++;
	found.uid = uid_of(pid);
	task->place->uid = found.uid;
	if (task->skip(pid, found.uid)) {
		*skipped = true;
		return;
	}
	n = cuda_maps_read(CHILD_KEPT_FD, pid, found.map, READER_MAPS_MAX);
	if (n <= 0)
		return;
	found.count = (uint32_t)n;
	say(&found);
}

static void read_all(const struct reader_task *task, bool *skipped)
{
	const struct timespec pause = { .tv_nsec = SLICE_PAUSE_NS };
	int fd = openat(CHILD_KEPT_FD, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	uint64_t end_ns = clock_now_ns() + SLICE_NS;
	struct dirent *entry;

	if (!dir)
		_exit(0);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		read_process(task, atoi(entry->d_name), skipped);
		if (clock_now_ns() < end_ns)
			continue;
		nanosleep(&pause, NULL);
		end_ns = clock_now_ns() + SLICE_NS;
	}
	closedir(dir);
}

void finder_reader_run(const struct reader_task *task)
{
	struct reader_found last = { 0 };

	if (privileges_step(PRIVILEGES_READ))
		return;
	for (size_t i = 0; i < task->pid_count; i++)
		read_process(task, task->pids[i], &last.skipped);
	if (!task->pids)
		read_all(task, &last.skipped);
	say(&last);
}
