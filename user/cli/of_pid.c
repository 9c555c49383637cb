/* SPDX-License-Identifier: BSD-2-Clause */
/* The option --pid. See of_pid.h. */
#include "cli/of_pid.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "pn_memwatch.h"

enum { OPT_PID = 256 };

static const struct argp_option option_table[] = {
	{ "pid", OPT_PID, "PID", 0, "As the engines of this process's cgroup see it; for root", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct cli_of_pid *options = state->input;
	char *end;
	long pid;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->common;
		return 0;
	case OPT_PID:
		pid = strtol(arg, &end, 10);
		if (end == arg || *end || pid <= 0 || pid > INT32_MAX)
			argp_error(state, "not a process: %s", arg);
		options->pid = (int)pid;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = { { &cli_common_argp, 0, 0, 0 }, { 0 } };

const struct argp cli_of_pid_argp = {
	.options = option_table,
	.parser = parse_option,
	.children = children,
};

/* Only the agent can read another process's snapshot. */
static const char *reason_of(int pid, int err)
{
	if (pid && (err == -ENOENT || err == -ECONNREFUSED))
		return "no agent";
	if (pid && err == -EPERM)
		return "only the administrator may see it: run it as root of the host, with "
		       "CAP_SYS_ADMIN";
	return strerror(-err);
}

int cli_read_of_pid(const struct cli_of_pid *options, pn_mem_state *ret_state, pn_mem_ext *ret_ext)
{
	int r = cli_start();

	if (r)
		return r;
	r = options->pid ? pn_memwatch_read_of(options->pid, ret_state, ret_ext)
			 : pn_memwatch_read_ext(ret_state, ret_ext);
	if (!r)
		return CLI_OK;
	pn_memwatch_stop();
	fprintf(stderr, "pnmem: cannot read the snapshot: %s\n", reason_of(options->pid, r));
	return CLI_FAILED;
}
