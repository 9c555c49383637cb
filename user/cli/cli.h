/* SPDX-License-Identifier: BSD-2-Clause */
/* What the subcommands of pnmem share: exit statuses, options, and the library's start. */
#ifndef PNMEM_CLI_CLI_H
#define PNMEM_CLI_CLI_H

#include <argp.h>
#include <stdbool.h>

/* Exit statuses. */
enum {
	CLI_OK = 0,
	CLI_FAILED = 1, /* wait: the level did not come down in time */
	CLI_USAGE = 2,
	CLI_CAPPED = 3,   /* admit: less than was asked for */
	CLI_REJECTED = 4, /* admit: not now */
};

/* The options of every subcommand. The struct that a subcommand's parser fills begins with it. */
struct cli_common {
	bool json;
};

/* The parser of --socket and --json, a child of each subcommand's. input: struct cli_common. */
extern const struct argp cli_common_argp;

/* Parses a subcommand's arguments; exits with CLI_USAGE on an error. argv[0] is its name. */
void cli_parse(const struct argp *argp, int argc, char **argv, void *input);

/*
 * Starts the watch. The library's messages go to stderr. Returns 0 or, with a message, CLI_FAILED.
 */
int cli_start(void);

/*
 * After cli_start: from here on SIGINT and SIGTERM end every pn_memwatch_wait. Returns 0 or, with a
 * message, CLI_FAILED.
 */
int cli_stop_on_signal(void);

#endif
