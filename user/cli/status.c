/* SPDX-License-Identifier: BSD-2-Clause */
/* pnmem status: one snapshot, of this process's cgroup or of another process's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

struct status_options {
	struct cli_common common;
	int pid; /* 0: our own */
};

enum { OPT_PID = 256 };

static const struct argp_option option_table[] = {
	{ "pid", OPT_PID, "PID", 0, "As the engines of this process's cgroup see it; for root", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct status_options *options = state->input;
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

/* No poll of our own can stand in for the agent there. */
static const char *reason_of(int pid, int err)
{
	if (pid && (err == -ENOENT || err == -ECONNREFUSED))
		return "no agent";
	return strerror(-err);
}

int cmd_status(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, 0, 0 }, { 0 } };
	static const struct argp argp = { .options = option_table,
					  .parser = parse_option,
					  .children = children,
					  .doc = "Prints one snapshot of memory pressure." };
	struct status_options options = { 0 };
	pn_mem_state state;
	pn_mem_ext ext;
	int r;

	cli_parse(&argp, argc, argv, &options);
	r = cli_start();
	if (r)
		return r;
	r = options.pid ? pn_memwatch_read_of(options.pid, &state, &ext)
			: pn_memwatch_read_ext(&state, &ext);
	if (r) {
		fprintf(stderr, "pnmem: cannot read the snapshot: %s\n", reason_of(options.pid, r));
		r = CLI_FAILED;
	} else if (options.common.json) {
		r = json_print(snapshot_json(&state, &ext), true);
	} else {
		snapshot_print(stdout, &state, &ext, "\n");
		r = fflush(stdout) ? CLI_FAILED : CLI_OK;
	}
	pn_memwatch_stop();
	return r;
}
