/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading a trace file through one buffer. See file.h. */
#include "cli/trace/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

#define BUFFER_BYTES (1u << 20)

struct trace_file {
	const char *path;
	int fd;
	int err;     /* -errno of a failed read */
	bool at_end; /* the rest of the file is in the buffer */
	bool damaged;
	bool ended;          /* its end record has been read */
	uint64_t unsound;    /* records that trace_decode refused: left out */
	uint64_t read_bytes; /* of the file, before the buffer's first */
	size_t from, to;     /* the part of the buffer that is not taken yet */
	struct trace_head head;
	unsigned char buffer[BUFFER_BYTES];
};

/* Moves the rest of the buffer to its start and reads more. Returns false if nothing was read. */
static bool fill(struct trace_file *file)
{
	ssize_t n;

	if (file->at_end || file->err)
		return false;
	memmove(file->buffer, file->buffer + file->from, file->to - file->from);
	file->read_bytes += file->from;
	file->to -= file->from;
	file->from = 0;
	do
		n = read(file->fd, file->buffer + file->to, BUFFER_BYTES - file->to);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		file->err = -errno;
	else if (n == 0)
		file->at_end = true;
	else
		file->to += (size_t)n;
	return n > 0;
}

static int read_head(struct trace_file *file)
{
	size_t used = 0;
	int r;

	do
		r = trace_read_head(file->buffer, file->to, &file->head, &used);
	while (r == -EAGAIN && fill(file));
	file->from = used;
	return file->err ? file->err : r;
}

struct trace_file *trace_file_open(const char *path)
{
	struct trace_file *file = calloc(1, sizeof(*file));
	int r;

	if (!file) {
		fprintf(stderr, "pnmem: no memory\n");
		return NULL;
	}
	file->path = path;
	file->fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
	if (file->fd < 0) {
		fprintf(stderr, "pnmem: cannot open %s: %s\n", path, strerror(errno));
		free(file);
		return NULL;
	}
	r = read_head(file);
	if (!r && file->head.version > TRACE_VERSION)
		fprintf(stderr,
			"pnmem: %s has a newer version, %u, than this program knows (%u): unknown "
			"records are left out\n",
			path, file->head.version, TRACE_VERSION);
	if (!r)
		return file;
	if (file->err)
		fprintf(stderr, "pnmem: cannot read %s: %s\n", path, strerror(-file->err));
	else if (!file->to)
		fprintf(stderr, "pnmem: %s is empty\n", path);
	else if (r == -EAGAIN)
		fprintf(stderr,
			"pnmem: %s was cut within its first %zu bytes: there is nothing to read\n",
			path, file->to);
	else
		fprintf(stderr, "pnmem: %s is not a pnmem trace, or its head is damaged\n", path);
	trace_file_close(file);
	return NULL;
}

void trace_file_close(struct trace_file *file)
{
	if (!file)
		return;
	if (file->fd > STDIN_FILENO)
		close(file->fd);
	free(file);
}

const struct trace_head *trace_file_head(const struct trace_file *file)
{
	return &file->head;
}

bool trace_file_next(struct trace_file *file, struct trace_item *ret)
{
	struct trace_record record;
	size_t used = 0;
	int r;

again:
	if (file->damaged || file->ended)
		return false;
	do
		r = trace_read_record(file->buffer + file->from, file->to - file->from, &record,
				      &used);
	while (r == -EAGAIN && fill(file));
	if (r == -EBADMSG)
		file->damaged = true;
	if (r)
		return false;
	file->from += used;
	file->ended = record.kind == TRACE_END;
	if (!trace_decode(&record, ret))
		return true;
	file->unsound++;
	goto again;
}

enum trace_file_end trace_file_finish(const struct trace_file *file)
{
	uint64_t at = file->read_bytes + file->from;

	if (file->unsound)
		fprintf(stderr,
			"pnmem: %s: %llu records are left out: a value in each of them is not "
			"finite or "
			"outside its range\n",
			file->path, (unsigned long long)file->unsound);
	if (file->err) {
		fprintf(stderr, "pnmem: cannot read %s beyond byte %llu: %s\n", file->path,
			(unsigned long long)at, strerror(-file->err));
		return TRACE_FILE_FAILED;
	}
	if (file->damaged || (file->ended && file->from < file->to)) {
		fprintf(stderr, "pnmem: %s is damaged at byte %llu: the rest is not read\n",
			file->path, (unsigned long long)at);
		return TRACE_FILE_DAMAGED;
	}
	if (!file->ended) {
		fprintf(stderr,
			"pnmem: %s has no end record: it was cut, or is still being written. It is "
			"read up to byte %llu\n",
			file->path, (unsigned long long)at);
		return TRACE_FILE_CUT;
	}
	return TRACE_FILE_WHOLE;
}

int trace_file_status(const struct trace_file *file, enum trace_file_end end)
{
	return end != TRACE_FILE_WHOLE || file->head.version > TRACE_VERSION ? CLI_FAILED : CLI_OK;
}

int trace_file_make(const char *path, bool readable)
{
	const int flags = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	int fd = open(path, flags | O_CREAT | O_EXCL, readable ? 0666 : 0600), r = 0;
	struct stat st;

	if (fd >= 0)
		return fd;
	if (errno != EEXIST)
		return -errno;
	fd = open(path, flags);
	if (fd < 0 || fstat(fd, &st))
		r = -errno;
	else if (S_ISREG(st.st_mode) && (st.st_uid != geteuid() || st.st_nlink != 1))
		r = -EPERM;
	else if (S_ISREG(st.st_mode) && ftruncate(fd, 0))
		r = -errno;
	else if (!S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode))
		r = -EPERM;
	if (!r)
		return fd;
	if (fd >= 0)
		close(fd);
	return r;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct trace_file_options *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->common;
		return 0;
	case ARGP_KEY_ARG:
		if (options->path)
			argp_error(state, "unexpected argument: %s", arg);
		options->path = arg;
		return 0;
	case ARGP_KEY_END:
		if (!options->path)
			argp_error(state, "a FILE is needed");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = { { &cli_common_argp, 0, 0, 0 }, { 0 } };

const struct argp trace_file_argp = { .parser = parse_option, .children = children };
