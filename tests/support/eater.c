// SPDX-License-Identifier: BSD-2-Clause
/* What eats the machine's memory. See eater.h. */
#include "support/eater.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "host/clock.h"
#include "host/meminfo.h"
#include "support/observers.h"
#include "support/pressure.h"

#define STEP_BYTES (256ul * 1024)
#define NEAR_BYTES (4ul << 20)
#define PAGE       4096ul
#define ALL_BYTES  (16ul << 30)

/* Address space whose pages come one by one, as they are touched. */
static volatile uint8_t *reserve(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		_exit(1);
	madvise(at, bytes, MADV_NOHUGEPAGE);
	return at;
}

static void touch(volatile uint8_t *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += PAGE)
		at[i] = 1;
}

/* A child that the OOM killer may take, whatever its parent is. */
static pid_t child_start(void)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		return -errno;
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || process_expose())
		_exit(1);
	return 0;
}

/* In large steps, and from page to page near the line, so that the crossing is known exactly. */
static void eater_run(struct eater *eater)
{
	int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	volatile uint8_t *bytes = reserve(ALL_BYTES);
	size_t step_bytes = PAGE;
	struct meminfo meminfo;
	char text[4096];

	for (size_t taken = 0; taken + STEP_BYTES <= ALL_BYTES; taken += step_bytes) {
		uint64_t now_ns;
		ssize_t n;

		touch(bytes + taken, step_bytes);
		if (eater->crossed_ns)
			continue;
		now_ns = clock_now_ns();
		n = pread(fd, text, sizeof(text), 0);
		if (n < 0 || meminfo_parse(text, (size_t)n, &meminfo))
			_exit(1);
		if (meminfo.avail_bytes <= eater->line_bytes)
			eater->crossed_ns = now_ns;
		step_bytes =
			meminfo.avail_bytes > eater->line_bytes + NEAR_BYTES ? STEP_BYTES : PAGE;
	}
}

pid_t eater_start(struct eater *eater)
{
	pid_t pid = child_start();

	if (pid)
		return pid;
	eater_run(eater);
	_exit(1);
}

pid_t eater_start_small(size_t take_bytes)
{
	int done[2];
	pid_t pid;
	char byte;

	if (pipe2(done, O_CLOEXEC))
		return -errno;
	pid = child_start();
	if (!pid) {
		touch(reserve(take_bytes), take_bytes);
		if (write(done[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(done[1]);
	/* An end without the byte: it has been killed, which its parent sees for itself. */
	if (pid > 0 && read(done[0], &byte, 1) < 0)
		pid = -errno;
	close(done[0]);
	return pid;
}

int process_memory(pid_t pid, uint64_t *ret_resident_bytes, uint64_t *ret_major_faults)
{
	unsigned long long major_faults, resident_pages;
	char path[32], text[1024], *after_name;
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[n] = '\0';
	after_name = strrchr(text, ')');
	/* state ppid pgrp session tty tpgid flags minflt cminflt majflt, and rss 12 further on */
	if (!after_name ||
	    sscanf(after_name + 1,
		   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %llu %*u %*u %*u %*d %*d %*d %*d %*d %*d "
		   "%*u %*u %llu",
		   &major_faults, &resident_pages) != 2)
		return -EBADMSG;
	*ret_resident_bytes = resident_pages * (uint64_t)sysconf(_SC_PAGESIZE);
	*ret_major_faults = major_faults;
	return 0;
}
