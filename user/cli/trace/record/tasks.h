/* SPDX-License-Identifier: BSD-2-Clause */
/* Which processes belong to the command that is recorded. */
#ifndef PNMEM_CLI_TRACE_RECORD_TASKS_H
#define PNMEM_CLI_TRACE_RECORD_TASKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct record_tasks {
	pid_t command;        /* 0: there is none */
	pid_t helper;         /* is not of them, though it is our child too */
	uint32_t known[4096]; /* by place: the process that was last asked for */
};

/* True once for each process that is the command, or descends from it. */
bool record_tasks_is_new(struct record_tasks *tasks, pid_t pid);

#endif
