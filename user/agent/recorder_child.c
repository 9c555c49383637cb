/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flight recorder's child: sleeps until it is asked for a file, and writes one also when the
 * agent is gone without having said so, which is when it is wanted most. It may wait for the disk
 * or for memory as long as that takes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/recorder_memory.h"
#include "host/clock.h"

#define CHUNK_BYTES (64u << 10)
/* What is kept of files: so many, and not more than this in all. */
#define FILES_MAX       8
#define FILES_BYTES_MAX (256ull << 20)
#define NICE            10

struct file {
	int fd;
	uint64_t bytes;
	uint64_t record_count;
};

static int write_all(struct file *file, const void *buf, size_t bytes)
{
	const char *p = buf;

	while (bytes) {
		ssize_t n = write(file->fd, p, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		p += n;
		bytes -= (size_t)n;
		file->bytes += (size_t)n;
	}
	return 0;
}

static int write_record(struct file *file, uint16_t kind, const void *fixed, size_t bytes,
			const char *text)
{
	unsigned char buf[TRACE_RING_RECORD_MAX];
	size_t n = trace_put(buf, kind, clock_now_ns(), fixed, bytes, text);

	trace_seal(buf);
	file->record_count++;
	return write_all(file, buf, n);
}

static int write_ring(struct file *file, const struct trace_ring *ring, const void *block)
{
	static unsigned char buf[CHUNK_BYTES];
	uint64_t pos = 0, head = __atomic_load_n(&ring->head_pos, __ATOMIC_ACQUIRE);
	size_t bytes;
	int r = 0;

	/* What is put in from now on is for the next file: this one must end. */
	while (!r && pos < head) {
		bytes = trace_ring_copy(ring, block, &pos, buf, sizeof(buf), &file->record_count);
		if (!bytes)
			break;
		r = write_all(file, buf, bytes);
	}
	return r;
}

static uint64_t wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int write_contents(struct file *file, const struct recorder_memory *memory, const char *why)
{
	struct trace_mark mark = { .of = TRACE_MARK_DUMP };
	struct trace_drops drops = memory->drops;
	static unsigned char start[TRACE_START_BYTES];
	struct trace_head head = memory->head;
	struct trace_end end;
	int r;

	/* Of now: the wall clock may have been set, or the machine slept, since the agent began. */
	head.mono_ns = clock_now_ns();
	head.wall_ns = wall_ns();
	r = write_all(file, start, trace_put_start(start, &head, &file->record_count));
	if (!r)
		r = write_record(file, TRACE_CONFIG, &memory->config, sizeof(memory->config), NULL);
	if (!r)
		r = write_ring(file, &memory->names, (char *)memory + memory->names_offset);
	if (!r)
		r = write_ring(file, &memory->records, (char *)memory + memory->records_offset);
	drops.old_count = memory->records.old_count;
	if (!r)
		r = write_record(file, TRACE_DROPS, &drops, sizeof(drops), NULL);
	if (!r)
		r = write_record(file, TRACE_MARK, &mark, sizeof(mark), why);
	end.record_count = file->record_count;
	if (!r)
		r = write_record(file, TRACE_END, &end, sizeof(end), NULL);
	return r || !fdatasync(file->fd) ? r : -errno;
}

/* Under another name until it is whole, so that a reader never meets half of it. */
static int write_file(const struct recorder_memory *memory, const char *path, const char *why,
		      struct recorder_answer *answer)
{
	char part[RECORDER_PATH_BYTES + 8];
	struct file file = { 0 };
	int r;

	if (!__atomic_load_n(&memory->live, __ATOMIC_ACQUIRE))
		return -EAGAIN;
	snprintf(part, sizeof(part), "%s.part", path);
	file.fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (file.fd < 0)
		return -errno;
	r = write_contents(&file, memory, why);
	close(file.fd);
	if (!r && rename(part, path))
		r = -errno;
	if (r)
		unlink(part);
	answer->record_count = file.record_count;
	answer->file_bytes = file.bytes;
	return r;
}

/* ---- rotation -----------------------------------------------------------------------------------
 */

static int is_ours(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);

	return !strncmp(entry->d_name, "pnmem-", 6) && length > 8 &&
	       !strcmp(entry->d_name + length - 8, ".pntrace");
}

/* The names tell the time, so their order is that of the files. The newest always stays. */
static void rotate(const char *dir)
{
	uint64_t bytes = 0;
	struct dirent **names;
	int n = scandir(dir, &names, is_ours, alphasort), kept = 0;

	for (int i = n - 1; i >= 0; i--) {
		char path[RECORDER_PATH_BYTES + 256];
		struct stat st;

		snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
		if (!lstat(path, &st))
			bytes += (uint64_t)st.st_size;
		if (kept++ && (kept > FILES_MAX || bytes > FILES_BYTES_MAX))
			unlink(path);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
}

/* ---- its life -----------------------------------------------------------------------------------
 */

/* It writes files in a folder of root's, which root may without any capability. */
static void drop_privileges(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	syscall(SYS_capset, &header, none);
}

static void write_last(const struct recorder_memory *memory, const char *dir)
{
	struct recorder_answer answer;
	char path[RECORDER_PATH_BYTES];

	recorder_path(path, dir);
	if (!write_file(memory, path, "the agent ended without saying so", &answer))
		rotate(dir);
}

void recorder_child_run(const struct recorder_memory *memory, int sock, const char *dir)
{
	struct recorder_request request;
	ssize_t n;

	prctl(PR_SET_NAME, "pnmem-recorder");
	drop_privileges();
	setpriority(PRIO_PROCESS, 0, NICE);
	for (;;) {
		struct recorder_answer answer = { 0 };

		n = recv(sock, &request, sizeof(request), 0);
		/* The agent has gone and left an answer unread: what it said before comes next. */
		if (n < 0 && (errno == ECONNRESET || errno == EINTR))
			continue;
		if (n != sizeof(request))
			break;
		if (!request.path[0])
			return;
		answer.status = write_file(memory, request.path, request.why, &answer);
		if (!answer.status)
			rotate(dir);
		send(sock, &answer, sizeof(answer), MSG_NOSIGNAL);
	}
	write_last(memory, dir);
}
