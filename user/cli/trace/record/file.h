/* SPDX-License-Identifier: BSD-2-Clause */
/* The trace file that pnmem trace record writes. */
#ifndef PNMEM_CLI_TRACE_RECORD_FILE_H
#define PNMEM_CLI_TRACE_RECORD_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/trace.h"

struct record_file {
	const char *path;
	int fd;
	int err; /* -errno of a failed write: nothing is written from then on */
	uint64_t record_count;
	uint64_t file_bytes;
	struct trace_drops drops; /* as last reported */
	uint32_t level;           /* the level of the newest look */
	bool has_level;
	size_t used;
	unsigned char buffer[256u << 10];
};

/* Creates the file and writes its start. Returns 0 or -errno. */
int record_file_open(struct record_file *file, const char *path);
/* Writes a whole, sealed record as it is. */
void record_file_add(struct record_file *file, const void *record, size_t bytes);
/* Lays out a record with the time of now and writes it. */
void record_file_put(struct record_file *file, uint16_t kind, const void *fixed, size_t bytes,
		     const char *text);
/* Writes the buffer to the file. Returns 0 or file->err. */
int record_file_flush(struct record_file *file);
/*
 * Writes the end record, if the recording is whole and no write has failed, and closes the file.
 * Returns 0 or file->err.
 */
int record_file_close(struct record_file *file, bool whole);

#endif
