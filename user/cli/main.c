/* SPDX-License-Identifier: BSD-2-Clause */
/* pnmem: a table of subcommands. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* Found by argp in libc, so it must be visible. */
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

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
	struct cli_common *common = state->input;

	switch (key) {
	case 's':
		setenv("PN_SOCKET", arg, 1);
		return 0;
	case 'j':
		common->json = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument: %s", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option common_options[] = {
	{ "socket", 's', "PATH", 0, "The agent's socket (PN_SOCKET, else " PN_SOCKET_DEFAULT ")",
	  9 },
	{ "json", 'j', 0, 0, "JSON on stdout", 9 },
	{ 0 },
};

const struct argp cli_common_argp = { .options = common_options, .parser = parse_common };

void cli_parse(const struct argp *argp, int argc, char **argv, void *input)
{
	static char name[32];

	/* So that messages and --help name the whole command. */
	snprintf(name, sizeof(name), "pnmem %s", argv[0]);
	argv[0] = name;
	argp_parse(argp, argc, argv, 0, NULL, input);
}

static void log_to_stderr(void *arg, const char *line)
{
	fprintf(stderr, "pnmem: %s\n", line);
}

int cli_start(void)
{
	int r;

	pn_memwatch_log_to(log_to_stderr, NULL);
	r = pn_memwatch_start();
	if (!r)
		return 0;
	fprintf(stderr, "pnmem: cannot start: %s\n", strerror(-r));
	return CLI_FAILED;
}

static void *stop_on_signal(void *arg)
{
	const sigset_t *set = arg;
	int signal_number;

	sigwait(set, &signal_number);
	pn_memwatch_stop();
	return NULL;
}

int cli_stop_on_signal(void)
{
	static sigset_t set;
	pthread_t thread;
	int r;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	r = pthread_create(&thread, NULL, stop_on_signal, &set);
	if (r) {
		fprintf(stderr, "pnmem: cannot start a thread: %s\n", strerror(r));
		return CLI_FAILED;
	}
	pthread_detach(thread);
	return 0;
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
