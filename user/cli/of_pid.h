/* SPDX-License-Identifier: BSD-2-Clause */
/* The option --pid: a snapshot as the engines of another process's cgroup see it. */
#ifndef PNMEM_CLI_OF_PID_H
#define PNMEM_CLI_OF_PID_H

#include "cli/cli.h"
#include "pn_memwatch.h"

struct cli_of_pid {
	struct cli_common common;
	int pid; /* 0: this process */
};

/* A child parser; input: struct cli_of_pid. */
extern const struct argp cli_of_pid_argp;

/*
 * Starts the watch, which the caller stops, and reads that snapshot. Returns 0; or, with a message
 * and nothing started, CLI_FAILED.
 */
int cli_read_of_pid(const struct cli_of_pid *options, pn_mem_state *ret_state, pn_mem_ext *ret_ext);

#endif
