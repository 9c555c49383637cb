/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flight recorder's child. It starts the writer, and starts it again if that is killed: the
 * agent itself may not fork any more. The writer sleeps until it is asked for a file, and also
 * writes one when the agent ends without saying so. It may wait for the disk or for memory as long
 * as that takes.
 */
#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/recorder/recorder_files.h"
#include "agent/recorder/recorder_memory.h"
#include "core/u64.h"
#include "host/clock.h"

#define CHUNK_BYTES (64u << 10)
#define NICE        10
/* After the writer was killed; twice as long each time, until one has lived for the longest. */
#define RESTART_MIN_MS 100
#define RESTART_MAX_MS 60000

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

/*
 * Under another name until it is whole, so that a reader never meets half of it. name: the file to
 * replace, "" for a new one of this group; the name of what was written goes there.
 */
static int write_file(const struct recorder_memory *memory, const char *dir, const char *group,
		      char name[static RECORDER_FILE_BYTES], const char *why,
		      struct recorder_answer *answer)
{
	uint64_t rings_bytes = RECORDER_FILES_RINGS * memory->records.bytes;
	struct recorder_part part;
	struct file file = { 0 };
	int dir_fd, r;

	if (!__atomic_load_n(&memory->live, __ATOMIC_ACQUIRE))
		return -EAGAIN;
	dir_fd = recorder_files_open(dir);
	if (dir_fd < 0)
		return dir_fd;
	r = recorder_files_begin(dir_fd, group, name, &part);
	if (!r) {
		file.fd = part.fd;
		r = write_contents(&file, memory, why);
		r = recorder_files_finish(dir_fd, &part, r);
	}
	if (!r) {
		memcpy(name, part.name, sizeof(part.name));
		recorder_files_rotate(dir_fd, name, u64_max(RECORDER_FILES_BYTES, rings_bytes));
	}
	close(dir_fd);
	answer->record_count = file.record_count;
	answer->file_bytes = file.bytes;
	return r;
}

/* ---- its life -------------------------------------------------------------------------------- */

/* It writes files in a folder of root's, which root may without any capability. */
static void drop_privileges(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	syscall(SYS_capset, &header, none);
}

static void clean(const char *dir)
{
	int dir_fd = recorder_files_open(dir);

	if (dir_fd < 0)
		return;
	recorder_files_clean(dir_fd);
	close(dir_fd);
}

/*
 * A request stays in the socket until it has been answered, so that the next writer finds it there
 * if this one is killed.
 */
static void write_until_the_end(const struct recorder_memory *memory, int sock, const char *dir)
{
	struct recorder_request request;
	struct recorder_answer answer;
	char name[RECORDER_FILE_BYTES] = "";
	ssize_t n;

	clean(dir);
	for (;;) {
		n = recv(sock, &request, sizeof(request), MSG_PEEK);
		/* The agent has gone and left an answer unread: what it said before comes next. */
		if (n < 0 && (errno == ECONNRESET || errno == EINTR))
			continue;
		if (n != sizeof(request))
			break;
		if (!request.number)
			return;
		answer = (struct recorder_answer){ .number = request.number };
		answer.status =
			write_file(memory, dir, request.group, request.name, request.why, &answer);
		memcpy(answer.name, request.name, sizeof(answer.name));
		send(sock, &answer, sizeof(answer), MSG_NOSIGNAL);
		while (recv(sock, &request, sizeof(request), 0) < 0 &&
		       (errno == ECONNRESET || errno == EINTR))
			;
	}
	write_file(memory, dir, RECORDER_GROUP_END, name, "the agent ended without saying so",
		   &answer);
}

/* Returns whether the agent has gone meanwhile. */
static bool pause_for(int sock, int ms)
{
	struct pollfd gone = { .fd = sock, .events = POLLRDHUP };

	return poll(&gone, 1, ms) > 0;
}

void recorder_child_run(const struct recorder_memory *memory, int sock, const char *dir)
{
	int pause_ms = RESTART_MIN_MS;
	bool gone = false;

	prctl(PR_SET_NAME, "pnmem-recorder");
	drop_privileges();
	setpriority(PRIO_PROCESS, 0, NICE);
	for (;;) {
		uint64_t begin_ns = clock_now_ns();
		int status = 0;
		pid_t pid = fork();

		if (!pid) {
			write_until_the_end(memory, sock, dir);
			_exit(0);
		}
		if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status))
			return;
		/* The writer of the last file is started again once. */
		if (gone)
			return;
		if (clock_now_ns() - begin_ns > RESTART_MAX_MS * 1000000ull)
			pause_ms = RESTART_MIN_MS;
		gone = pause_for(sock, pause_ms);
		pause_ms = pause_ms * 2 < RESTART_MAX_MS ? pause_ms * 2 : RESTART_MAX_MS;
	}
}
