/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pressure: makes real memory stalls in a small cgroup of its own, to watch pnmem react. The rest
 * of the machine is left alone: a file larger than the group's limit is read over and over, so
 * that its pages have to be thrown out and read again. Needs root.
 */
#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/pressure.h"

#define MIB ((size_t)1 << 20)

/* Found by argp in libc, so it must be visible. */
__attribute__((visibility("default"))) const char *argp_program_version = "pressure " PNMEM_VERSION;

struct options {
	unsigned seconds;
	size_t limit_bytes;
	size_t file_bytes;
};

static const struct argp_option option_table[] = {
	{ "seconds", 's', "N", 0, "How long (10)", 0 },
	{ "limit", 'l', "MIB", 0, "Limit of the group (40)", 0 },
	{ "file", 'f', "MIB", 0, "Size of the file (200)", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;
	char *end = NULL;
	unsigned long value = arg ? strtoul(arg, &end, 10) : 0;

	switch (key) {
	case 's':
		options->seconds = (unsigned)value;
		break;
	case 'l':
		options->limit_bytes = value * MIB;
		break;
	case 'f':
		options->file_bytes = value * MIB;
		break;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument: %s", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (!value || value > 1 << 20 || *end)
		argp_error(state, "not a number from 1 to 1048576: %s", arg);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = option_table,
		.parser = parse_option,
		.doc = "Makes memory stalls in a cgroup of its own.",
	};
	struct options options = { 10, 40 * MIB, 200 * MIB };
	struct pressure_group group;
	struct timespec end = { 0 };
	sigset_t signals;
	pid_t reader;
	int r;

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &options);
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL); /* they end the wait below, so all is removed */
	r = pressure_group_create(&group, options.limit_bytes);
	if (r) {
		fprintf(stderr, "pressure: cannot make a memory cgroup: %s\n", strerror(-r));
		return EXIT_FAILURE;
	}
	reader = pressure_start_reader(&group, options.file_bytes);
	if (reader < 0) {
		fprintf(stderr, "pressure: cannot start: %s\n", strerror(-reader));
		pressure_group_destroy(&group);
		return EXIT_FAILURE;
	}
	printf("stalls for %u s: reading %zu MiB in a group of %zu MiB\n", options.seconds,
	       options.file_bytes / MIB, options.limit_bytes / MIB);
	fflush(stdout);
	end.tv_sec = options.seconds;
	sigtimedwait(&signals, NULL, &end);
	pressure_stop(reader);
	pressure_group_destroy(&group);
	return EXIT_SUCCESS;
}
