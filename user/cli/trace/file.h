/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A trace file, read as a stream in a fixed amount of memory: a megabyte, whatever its length.
 */
#ifndef PNMEM_CLI_TRACE_FILE_H
#define PNMEM_CLI_TRACE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"
#include "core/trace_decode.h"

struct trace_file;

/* What every command that reads a trace is given, and its parser, an argp child. */
struct trace_file_options {
	struct cli_common common;
	const char *path;
};
extern const struct argp trace_file_argp;

/* How a file ended. */
enum trace_file_end {
	TRACE_FILE_WHOLE = 0,   /* with its end record, and nothing behind it */
	TRACE_FILE_CUT = 1,     /* without one: cut, or its writer is not done */
	TRACE_FILE_DAMAGED = 2, /* a record does not match its check word */
	TRACE_FILE_FAILED = 3,  /* it could not be read */
};

/*
 * Opens a file ("-": standard input) and reads its head. A file of a newer version is opened, with
 * a message. NULL, with a message on stderr, if it cannot be opened, is empty or no trace.
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
 * After trace_file_next has returned false: how it ended, with a message on stderr unless it is
 * whole.
 */
enum trace_file_end trace_file_finish(const struct trace_file *file);

/*
 * The exit status that follows from the two: CLI_OK, or CLI_FAILED if it is not whole or newer
 * than this program.
 */
int trace_file_status(const struct trace_file *file, enum trace_file_end end);

/*
 * Opens a file for writing: a new one, or an own one that is there, which is emptied. Does not
 * follow a symbolic link and does not write to another user's file: -errno.
 */
int trace_file_make(const char *path, bool readable);

#endif
