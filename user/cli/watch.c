/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pnmem watch: a line at every change of level, or at every publish, or a table that redraws.
 * Ends with status 0 on SIGINT and SIGTERM.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/snapshot.h"
#include "cli/snapshot_json.h"
#include "pn_memwatch.h"

#define CURSOR_HOME "\033[H"
#define CLEAR_LINE  "\033[K"
#define CLEAR_BELOW "\033[J"
#define CLEAR_ALL   "\033[2J"

struct watch_options {
	struct cli_common common;
	bool all;
	bool table;
};

enum { OPT_ALL = 256, OPT_TABLE };

static const struct argp_option option_table[] = {
	{ "all", OPT_ALL, 0, 0, "A line at every publish", 0 },
	{ "table", OPT_TABLE, 0, 0, "A table that redraws, where stdout is a terminal", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct watch_options *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->common;
		return 0;
	case OPT_ALL:
		options->all = true;
		return 0;
	case OPT_TABLE:
		options->table = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int print_line(const pn_mem_state *s, const pn_mem_ext *e)
{
	char clock[16], avail[FORMAT_BYTES], reasons[160];
	struct timeval tv;
	struct tm tm;

	gettimeofday(&tv, NULL);
	localtime_r(&tv.tv_sec, &tm);
	strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	printf("%s.%03d %-8s available %s, some %.2f (live %.2f), full %.2f (live %.2f), "
	       "because: %s\n",
	       clock, (int)(tv.tv_usec / 1000), pn_mem_level_name(s->level),
	       format_bytes(avail, s->host_avail_bytes), s->host_psi_some_avg10,
	       e->live_psi_some_avg10, s->host_psi_full_avg10, e->live_psi_full_avg10,
	       format_reasons(reasons, sizeof(reasons), e->reasons));
	return fflush(stdout) ? CLI_FAILED : CLI_OK;
}

static int print_table(const pn_mem_state *s, const pn_mem_ext *e)
{
	fputs(CURSOR_HOME, stdout);
	snapshot_print(stdout, s, e, CLEAR_LINE "\n");
	fputs(CLEAR_BELOW, stdout);
	return fflush(stdout) ? CLI_FAILED : CLI_OK;
}

static int show(const struct watch_options *options, const pn_mem_state *state,
		const pn_mem_ext *ext)
{
	if (options->common.json)
		return json_print(snapshot_json(state, ext), false);
	return options->table ? print_table(state, ext) : print_line(state, ext);
}

int cmd_watch(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, 0, 0 }, { 0 } };
	static const struct argp argp = {
		.options = option_table,
		.parser = parse_option,
		.children = children,
		.doc = "Prints the level, and a line whenever it changes.",
	};
	struct watch_options options = { 0 };
	pn_memwatch_wait_t what;
	pn_mem_state state;
	pn_mem_ext ext;
	int r, status;

	cli_parse(&argp, argc, argv, &options);
	options.table = options.table && isatty(STDOUT_FILENO) && !options.common.json;
	what = options.all || options.table ? PN_WAIT_SNAPSHOT : PN_WAIT_LEVEL;
	status = cli_start();
	if (!status)
		status = cli_stop_on_signal();
	if (status)
		return status;
	if (options.table)
		fputs(CLEAR_ALL, stdout);
	do {
		r = pn_memwatch_read_ext(&state, &ext);
		if (!r)
			status = show(&options, &state, &ext);
		if (!r && !status)
			r = pn_memwatch_wait(what, &state, UINT64_MAX, NULL);
	} while ((!r || r == -EAGAIN) && !status);
	pn_memwatch_stop();
	return status;
}
