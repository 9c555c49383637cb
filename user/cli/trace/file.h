/* SPDX-License-Identifier: BSD-2-Clause */
/* A trace file, read as a stream through a buffer of one megabyte, whatever its length. */
#ifndef PNMEM_CLI_TRACE_FILE_H
#define PNMEM_CLI_TRACE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"
#include "core/trace_decode.h"

struct trace_file;

/* The options of every command that reads a trace, and their parser, an argp child. */
struct trace_file_options {
	struct cli_common common;
	const char *path;
};
extern const struct argp trace_file_argp;

/* How a file ended. */
enum trace_file_end {
	TRACE_FILE_WHOLE = 0,   /* with its end record, and nothing behind it */
	TRACE_FILE_CUT = 1,     /* without one: it was cut, or its writer is not done */
	TRACE_FILE_DAMAGED = 2, /* a record does not match its check word */
	TRACE_FILE_FAILED = 3,  /* it could not be read */
};

/*
 * Opens a file ("-": standard input) and reads its head. Prints a message if the file has a newer
 * version, and opens it. Returns NULL, with a message on stderr, if the file cannot be opened, is
 * empty or is not a trace.
 */
struct trace_file *trace_file_open(const char *path);

/* NULL is allowed. */
void trace_file_close(struct trace_file *file);

const struct trace_head *trace_file_head(const struct trace_file *file);

/*
 * Reads the next record; its text is valid until the next call. Records that trace_decode refuses
 * are left out and counted. Returns false at the end of what can be read.
 */
bool trace_file_next(struct trace_file *file, struct trace_item *ret);

/*
 * After trace_file_next has returned false: says how the file ended, with a message on stderr
 * unless it is whole.
 */
enum trace_file_end trace_file_finish(const struct trace_file *file);

/*
 * The exit status of a command: CLI_FAILED if the file is not whole or is newer than this program,
 * else CLI_OK.
 */
int trace_file_status(const struct trace_file *file, enum trace_file_end end);

/*
 * Creates a file for writing, or empties the user's own file of this name. Does not follow a
 * symbolic link and does not write to another user's file. Returns a descriptor or -errno.
 */
int trace_file_make(const char *path, bool readable);

#endif
