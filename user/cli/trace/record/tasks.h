/* SPDX-License-Identifier: BSD-2-Clause */
/* Which processes belong to the command that is recorded. */
#ifndef PNMEM_CLI_TRACE_RECORD_TASKS_H
#define PNMEM_CLI_TRACE_RECORD_TASKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct record_tasks {
	pid_t command;        /* 0: there is none */
	pid_t helper;         /* a child of this process that does not belong to the command */
	uint32_t known[4096]; /* by a hash of the pid: the process that was last asked for */
};

/* Returns true once for each process that is the command or descends from it. */
bool record_tasks_is_new(struct record_tasks *tasks, pid_t pid);

#endif
