/* SPDX-License-Identifier: BSD-2-Clause */
/* pnmem: a table of subcommands. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"

/* argp in libc looks this symbol up, so it must be visible. */
__attribute__((visibility("default"))) const char *argp_program_version = "pnmem " PNMEM_VERSION;

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
} commands[] = {
	{ "status", cmd_status, "one snapshot" },
	{ "watch", cmd_watch, "a line at every change of level" },
	{ "wait", cmd_wait, "hold a command back until the level is low enough" },
	{ "admit", cmd_admit, "may a request or a model load begin? the verdict with its numbers" },
	{ "reservations", cmd_reservations, "memory that engines have been promised" },
	{ "explain", cmd_explain, "why the level is what it is, and what would change it" },
	{ "trace", cmd_trace, "what happened: dump the flight recorder, report on a file" },
	{ "doctor", cmd_doctor, "what works here, what does not, why, and what to do" },
	{ "stats", cmd_stats, "the agent's counters" },
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void usage(FILE *out)
{
	fprintf(out,
		"Usage: pnmem COMMAND [OPTION...]\nMemory pressure of this host, as engines see "
		"it.\n\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].summary);
	fprintf(out,
		"\n'pnmem COMMAND --help' tells a command's options; --version the version.\n");
}

int main(int argc, char **argv)
{
	argp_err_exit_status = CLI_USAGE;
	if (argc < 2) {
		usage(stderr);
		return CLI_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-?") || !strcmp(argv[1], "help")) {
		usage(stdout);
		return CLI_OK;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("%s\n", argp_program_version);
		return CLI_OK;
	}
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	fprintf(stderr, "pnmem: no such command: %s\n", argv[1]);
	usage(stderr);
	return CLI_USAGE;
}
