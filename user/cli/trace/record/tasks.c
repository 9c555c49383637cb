/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which processes belong to the command that is recorded: its descendants, and the orphans that the
 * kernel gives to this process. A process is looked up when a record first names it. If the process
 * has ended by then, it is not marked.
 */
#include "cli/trace/record/tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS     4096
#define DEPTH_MAX 64

/* The fourth field of /proc/PID/stat. The name before it may hold any character. 0: not known. */
static pid_t parent_of(pid_t pid)
{
	char path[32], text[512], *close_paren;
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[n] = 0;
	close_paren = strrchr(text, ')');
	return close_paren && strlen(close_paren) > 4 ? (pid_t)strtol(close_paren + 4, NULL, 10)
						      : 0;
}

static bool descends(const struct record_tasks *tasks, pid_t pid)
{
	for (int depth = 0; pid > 1 && depth < DEPTH_MAX; depth++) {
		if (pid == tasks->helper)
			return false;
		if (pid == tasks->command || (depth && pid == getpid()))
			return true;
		pid = parent_of(pid);
	}
	return false;
}

bool record_tasks_is_new(struct record_tasks *tasks, pid_t pid)
{
	unsigned slot = (unsigned)pid % SLOTS;

	/* Two processes that share a place replace each other, and may be marked twice. */
	if (!tasks->command || tasks->known[slot] == (uint32_t)pid)
		return false;
	tasks->known[slot] = (uint32_t)pid;
	return descends(tasks, pid);
}
