/* SPDX-License-Identifier: BSD-2-Clause */
/* The helper process, which has the kernel hooks. */
#ifndef PNMEM_CLI_TRACE_RECORD_HELPER_H
#define PNMEM_CLI_TRACE_RECORD_HELPER_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/trace.h"

struct record_helper {
	pid_t pid;
	int in_fd;  /* the helper ends when it is closed */
	int out_fd; /* its records; -1: it has ended */
	int status; /* wait status, once pid is 0 */
	size_t from, to;
	unsigned char buffer[1u << 20];
};

/* Starts the helper. Returns 0 or, with a message, CLI_FAILED. */
int record_helper_start(struct record_helper *helper);
/* Reads once, and calls fn for each whole record. Returns false at the helper's end. */
bool record_helper_read(struct record_helper *helper,
			void (*fn)(void *arg, const struct trace_record *record, const void *raw,
				   size_t bytes),
			void *arg);
/* Waits for the helper's end. */
void record_helper_end(struct record_helper *helper);

#endif
