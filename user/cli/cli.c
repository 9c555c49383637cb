/* SPDX-License-Identifier: BSD-2-Clause */
/* What the subcommands share. See cli.h. */
#include "cli/cli.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pn_memwatch.h"

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
