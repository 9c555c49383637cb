/* SPDX-License-Identifier: BSD-2-Clause */
/* pnmem trace: the table of its subcommands, and the smallest of them, dump. */
#include "cli/trace/trace.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/snapshot_json.h"
#include "pn_trace.h"

/* The agent writes a file of the default size in a tenth of a second. A busy disk takes longer. */
#define DUMP_TIMEOUT_MS 60000

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
} commands[] = {
	{ "record", cmd_trace_record, "record everything, for a time or while a command runs" },
	{ "dump", cmd_trace_dump, "write the agent's flight recorder to a file" },
	{ "report", cmd_trace_report, "report on a trace file in a screenful" },
	{ "export", cmd_trace_export, "write a trace file as a picture, for a viewer" },
	{ "replay", cmd_trace_replay, "show where levels and verdicts differ with other settings" },
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void usage(FILE *out)
{
	fprintf(out, "Usage: pnmem trace COMMAND [OPTION...]\n"
		     "Shows what happened to memory, and which tasks did it.\n\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
	fprintf(out, "\n'pnmem trace COMMAND --help' prints a command's options (--socket, --json "
		     "...); --version the version.\n");
}

int cmd_trace(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	if (!strcmp(name, "--help") || !strcmp(name, "-?")) {
		usage(stdout);
		return CLI_OK;
	}
	if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
		printf("%s\n", argp_program_version);
		return CLI_OK;
	}
	for (size_t i = 0; i < N_COMMANDS; i++) {
		static char full_name[32];

		if (strcmp(name, commands[i].name))
			continue;
		snprintf(full_name, sizeof(full_name), "trace %s", name);
		argv[1] = full_name;
		return commands[i].run(argc - 1, argv + 1);
	}
	if (*name)
		fprintf(stderr, "pnmem: no such trace command: %s\n", name);
	usage(stderr);
	return CLI_USAGE;
}

int cmd_trace_dump(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, 0, 0 }, { 0 } };
	static const struct argp argp = {
		.children = children,
		.doc = "Writes the agent's flight recorder to a file and prints its path. For "
		       "root.",
	};
	struct cli_common common = { 0 };
	char path[256];
	int r;

	cli_parse(&argp, argc, argv, &common);
	r = pn_trace_dump(NULL, DUMP_TIMEOUT_MS, path, sizeof(path));
	switch (r) {
	case 0:
		if (common.json)
			return json_print(json_pack("{ss}", "path", path), true);
		return puts(path) < 0 || fflush(stdout) ? CLI_FAILED : CLI_OK;
	case -ENOENT:
	case -ECONNREFUSED:
		fprintf(stderr,
			"pnmem: no agent runs: this command writes the agent's flight recorder\n");
		break;
	case -EPERM:
		fprintf(stderr, "pnmem: only the administrator may have the trace of a whole "
				"machine: run it as root of the host, with CAP_SYS_ADMIN\n");
		break;
	case -EOPNOTSUPP:
		fprintf(stderr,
			"pnmem: the agent's flight recorder is off (PN_RECORDER_BYTES=0)\n");
		break;
	default:
		fprintf(stderr, "pnmem: cannot dump the flight recorder: %s\n", strerror(-r));
	}
	return CLI_FAILED;
}
