/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of pnmem trace record: the file being written, the helper, the command. */
#ifndef PNMEM_CLI_TRACE_RECORD_RECORD_H
#define PNMEM_CLI_TRACE_RECORD_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/trace.h"

/* file.c */
struct record_file {
	const char *path;
	int fd;
	int err; /* -errno of a failed write: nothing is written from then on */
	uint64_t record_count;
	uint64_t file_bytes;
	struct trace_drops drops; /* as last told */
	uint32_t level; /* worst of the last looks of each view, roughly: the last one's */
	bool has_level;
	size_t used;
	unsigned char buffer[256u << 10];
};

/* Creates the file and writes its start. 0, or -errno. */
int record_file_open(struct record_file *file, const char *path);
/* Writes a whole, sealed record as it is. */
void record_file_add(struct record_file *file, const void *record, size_t bytes);
/* Lays out and writes one, at this moment. */
void record_file_put(struct record_file *file, uint16_t kind, const void *fixed, size_t bytes,
		     const char *text);
/* To the disk. Returns 0 or file->err. */
int record_file_flush(struct record_file *file);
/* Writes the end, if all is there and no write has failed; closes. Returns 0 or file->err. */
int record_file_close(struct record_file *file, bool whole);

/* tasks.c: which processes belong to the command. */
struct record_tasks {
	pid_t command;        /* 0: there is none */
	pid_t helper;         /* is not of them, though it is our child too */
	uint32_t known[4096]; /* by place: the process that was last asked for */
};

/* True once for each process that is the command, or descends from it. */
bool record_tasks_is_new(struct record_tasks *tasks, pid_t pid);

/* helper.c: the program that has the hooks. */
struct record_helper {
	pid_t pid;
	int in_fd;  /* closed: it is to end */
	int out_fd; /* records; -1: it has ended */
	int status; /* wait status, once pid is 0 */
	size_t from, to;
	unsigned char buffer[1u << 20];
};

/* Starts it. 0, or with a message CLI_FAILED. */
int record_helper_start(struct record_helper *helper);
/* Takes all whole records that one read gives. False at its end. */
bool record_helper_read(struct record_helper *helper,
			void (*fn)(void *arg, const struct trace_record *record, const void *raw,
				   size_t bytes),
			void *arg);
/* Waits for its end. */
void record_helper_end(struct record_helper *helper);

#endif
