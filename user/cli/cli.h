/* SPDX-License-Identifier: BSD-2-Clause */
/* What the subcommands of pnmem share. Public headers only: this is the library's first user. */
#ifndef PNMEM_CLI_H
#define PNMEM_CLI_H

#include <argp.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "pn_memwatch.h"

/* Exit statuses. */
enum {
	CLI_OK = 0,
	CLI_FAILED = 1, /* wait: in vain */
	CLI_USAGE = 2,
	CLI_CAPPED = 3,   /* admit: less than was asked for */
	CLI_REJECTED = 4, /* admit: not now */
};

/* Options of every subcommand; its own parser struct starts with this. */
struct cli_common {
	bool json;
};

/* --socket and --json; a child parser of each subcommand's own. input: struct cli_common. */
extern const struct argp cli_common_argp;

/* Parses a subcommand's arguments; exits with CLI_USAGE on an error. argv[0] is its name. */
void cli_parse(const struct argp *argp, int argc, char **argv, void *input);

/* Starts the watch, its messages on stderr. Returns 0 or, with a message, CLI_FAILED. */
int cli_start(void);

/* of_pid.c: of a subcommand that tells of one snapshot; --pid besides. */
struct cli_of_pid {
	struct cli_common common;
	int pid; /* 0: our own */
};
extern const struct argp cli_of_pid_argp; /* a child parser; input: struct cli_of_pid */

/*
 * Starts the watch, which the caller stops, and reads that snapshot. Returns 0; or, with a message
 * and nothing started, CLI_FAILED.
 */
int cli_read_of_pid(const struct cli_of_pid *options, pn_mem_state *ret_state, pn_mem_ext *ret_ext);

/* From here on, after cli_start, SIGINT and SIGTERM end every pn_memwatch_wait. 0 or CLI_FAILED. */
int cli_stop_on_signal(void);

/* The subcommands: argv[0] is the name. They return the exit status. */
int cmd_status(int argc, char **argv);
int cmd_watch(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_wait(int argc, char **argv);
int cmd_admit(int argc, char **argv);
int cmd_stats(int argc, char **argv);
int cmd_reservations(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_explain(int argc, char **argv);

/* format.c: values as people read them. Each returns its buffer. */
#define FORMAT_BYTES 32
char *format_bytes(char buf[static FORMAT_BYTES], uint64_t bytes); /* "21.3 GiB" */
char *format_duration(char buf[static FORMAT_BYTES], uint64_t ns); /* "3.2 s", "never" */
const char *format_source(pn_memwatch_source_t source);
const char *format_mode(uint32_t mode);         /* "tracepoint" */
const char *format_source_state(uint8_t state); /* "stale" */
/* Comma separated names of PN_REASON_* bits, "none" for 0. */
char *format_reasons(char *buf, size_t buf_bytes, uint32_t reasons);

/* snapshot.c: a whole snapshot for people. */
void snapshot_print(FILE *out, const pn_mem_state *state, const pn_mem_ext *ext,
		    const char *line_end);
/* How long ago t_ns (CLOCK_MONOTONIC) was; UINT64_MAX: it never was. */
uint64_t snapshot_age_ns(uint64_t t_ns);

/* The dies of a snapshot, those of the extension included: 0..snapshot_die_count - 1. */
int snapshot_die_count(const pn_mem_state *state, const pn_mem_ext *ext);
pn_mem_die snapshot_die(const pn_mem_state *state, const pn_mem_ext *ext, int i);
/* The level that a die alone asks for; budget_bytes is not 0. */
pn_mem_level snapshot_die_level(uint64_t free_bytes, uint64_t budget_bytes);

/* snapshot_json.c: a whole snapshot as JSON, which the caller frees. */
json_t *snapshot_json(const pn_mem_state *state, const pn_mem_ext *ext);
/*
 * Reads back what snapshot_json wrote to a file. Keys that it does not know are ignored; without
 * host_total_bytes and host_avail_bytes it is no snapshot, the others have defaults. Returns 0
 * or, with a message that names the key, CLI_FAILED.
 */
int snapshot_load(const char *path, pn_mem_state *ret_state, pn_mem_ext *ret_ext);
/* Writes one JSON value and a newline to stdout, flushed; frees it. pretty: over several lines. */
int json_print(json_t *value, bool pretty);

#endif
