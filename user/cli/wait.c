/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pnmem wait: sleeps until the level is low enough, then becomes the command. Signals have their
 * usual effect, so the user can call the command off.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/snapshot_json.h"
#include "pn_memwatch.h"

/* The exit status of a command that cannot be run, as in a shell. */
#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND  127

#define TIMEOUT_MAX_S 1e9 /* 30 years */

struct wait_options {
	struct cli_common common;
	int at_most; /* -1: not said */
	double timeout_s;
	char **command; /* NULL: none */
};

enum { OPT_AT_MOST = 256, OPT_TIMEOUT };

static const struct argp_option option_table[] = {
	{ "at-most", OPT_AT_MOST, "LEVEL", 0, "Until the level is OK, WATCH or TIGHT, or lower",
	  0 },
	{ "timeout", OPT_TIMEOUT, "SECONDS", 0, "Give up after so long, with status 1 (never)", 0 },
	{ 0 },
};

static int parse_level(const char *text)
{
	for (int level = PN_MEM_LEVEL_OK; level <= PN_MEM_LEVEL_CRITICAL; level++)
		if (!strcasecmp(text, pn_mem_level_name((pn_mem_level)level)))
			return level;
	return -1;
}

static bool parse_seconds(const char *text, double *ret)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= 0 && value <= TIMEOUT_MAX_S))
		return false;
	*ret = value;
	return true;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct wait_options *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->common;
		return 0;
	case OPT_AT_MOST:
		options->at_most = parse_level(arg);
		if (options->at_most < 0)
			argp_error(state, "no such level: %s", arg);
		return 0;
	case OPT_TIMEOUT:
		if (!parse_seconds(arg, &options->timeout_s))
			argp_error(state, "not a time in seconds: %s", arg);
		return 0;
	case ARGP_KEY_ARG:
		/* The command. The arguments behind it are its own. */
		options->command = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	case ARGP_KEY_END:
		if (options->at_most < 0)
			argp_error(state, "--at-most LEVEL is needed");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static uint64_t deadline_ns(double timeout_s)
{
	struct timespec now;

	if (isinf(timeout_s))
		return UINT64_MAX;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec +
	       (uint64_t)(timeout_s * 1e9);
}

/* The message names the last level that was too high. */
static int give_up(const struct wait_options *options)
{
	pn_mem_state state = { 0 };
	pn_mem_ext ext = { 0 };
	char reasons[160];

	pn_memwatch_read_ext(&state, &ext);
	fprintf(stderr, "pnmem: the level is still %s (%s) after %g s, not %s\n",
		pn_mem_level_name(state.level),
		format_reasons(reasons, sizeof(reasons), ext.reasons), options->timeout_s,
		pn_mem_level_name((pn_mem_level)options->at_most));
	return CLI_FAILED;
}

static int wait_and_show(const struct wait_options *options)
{
	pn_mem_state state;
	pn_mem_ext ext;
	int r;

	r = pn_memwatch_wait_at(PN_AT_MOST, (pn_mem_level)options->at_most,
				deadline_ns(options->timeout_s), NULL);
	if (r == -ETIMEDOUT)
		return give_up(options);
	if (!r && options->common.json) {
		r = pn_memwatch_read_ext(&state, &ext);
		return r ? CLI_FAILED : json_print(snapshot_json(&state, &ext), false);
	}
	return r ? CLI_FAILED : CLI_OK;
}

int cmd_wait(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, 0, 0 }, { 0 } };
	static const struct argp argp = {
		.options = option_table,
		.parser = parse_option,
		.children = children,
		.args_doc = "[COMMAND...]",
		.doc = "Waits until the level is low enough, then runs the command.",
	};
	struct wait_options options = { .at_most = -1, .timeout_s = INFINITY };
	int status;

	cli_parse(&argp, argc, argv, &options);
	status = cli_start();
	if (status)
		return status;
	status = wait_and_show(&options);
	pn_memwatch_stop();
	if (status || !options.command)
		return status;
	execvp(options.command[0], options.command);
	status = errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
	fprintf(stderr, "pnmem: cannot run %s: %s\n", options.command[0], strerror(errno));
	return status;
}
