/* SPDX-License-Identifier: BSD-2-Clause */
/* The trace file that pnmem trace record writes. See file.h. */
#include "cli/trace/record/file.h"

#include <errno.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "cli/trace/file.h"
#include "pn_mem_state.h"

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int record_file_open(struct record_file *file, const char *path)
{
	struct trace_head head = {
		.n_cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN),
		.mono_ns = now_ns(CLOCK_MONOTONIC),
		.wall_ns = now_ns(CLOCK_REALTIME),
		.total_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE),
		.agent = "pnmem " PNMEM_VERSION,
	};
	struct utsname uts;

	uname(&uts);
	/* The fields are one byte shorter than uname's, so that their last byte stays 0. */
	memcpy(head.kernel, uts.release, sizeof(head.kernel) - 1);
	memcpy(head.host, uts.nodename, sizeof(head.host) - 1);
	memset(file, 0, sizeof(*file));
	file->path = path;
	file->fd = trace_file_make(path, false);
	if (file->fd < 0)
		return file->fd;
	file->used = trace_put_start(file->buffer, &head, &file->record_count);
	return record_file_flush(file);
}

int record_file_flush(struct record_file *file)
{
	size_t at = 0;

	while (at < file->used && !file->err) {
		ssize_t n = write(file->fd, file->buffer + at, file->used - at);

		if (n > 0)
			at += (size_t)n;
		else if (!n || errno != EINTR)
			file->err = n ? -errno : -EIO;
	}
	file->file_bytes += at;
	file->used = 0;
	return file->err;
}

void record_file_add(struct record_file *file, const void *record, size_t bytes)
{
	if (sizeof(file->buffer) - file->used < bytes)
		record_file_flush(file);
	memcpy(file->buffer + file->used, record, bytes);
	file->used += bytes;
	file->record_count++;
}

void record_file_put(struct record_file *file, uint16_t kind, const void *fixed, size_t bytes,
		     const char *text)
{
	unsigned char record[TRACE_RING_RECORD_MAX];
	size_t n = trace_put(record, kind, now_ns(CLOCK_MONOTONIC), fixed, bytes, text);

	trace_seal(record);
	record_file_add(file, record, n);
}

int record_file_close(struct record_file *file, bool whole)
{
	struct trace_end end;

	if (!file->err) {
		record_file_put(file, TRACE_DROPS, &file->drops, sizeof(file->drops), NULL);
		end.record_count = file->record_count;
		if (whole)
			record_file_put(file, TRACE_END, &end, sizeof(end), NULL);
		record_file_flush(file);
	}
	if (close(file->fd) && !file->err)
		file->err = -errno;
	return file->err;
}
