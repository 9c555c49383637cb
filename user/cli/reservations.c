/* SPDX-License-Identifier: BSD-2-Clause */
/* pnmem reservations: the engines that have reserved memory and not allocated it yet. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/snapshot_json.h"
#include "pn_memwatch.h"
#include "pn_reserve.h"

/* More than an agent keeps. */
#define LINES_MAX 1024

static const char *where_text(char buf[static FORMAT_BYTES], const pn_reservation *r)
{
	if (r->is_host)
		return "host";
	if (r->die >= 0)
		snprintf(buf, FORMAT_BYTES, "die %d", r->die);
	else
		snprintf(buf, FORMAT_BYTES, "%s", *r->pci ? r->pci : "a die");
	return buf;
}

static const char *state_text(const pn_reservation *r)
{
	return r->state == PN_RESERVATION_COMMITTED ? "committed" : "held";
}

static int print_text(const pn_reservation *lines, int count)
{
	for (int i = 0; i < count; i++) {
		const pn_reservation *r = &lines[i];
		char a[FORMAT_BYTES], b[FORMAT_BYTES], c[FORMAT_BYTES], pid[16] = "?";

		if (r->pid)
			snprintf(pid, sizeof(pid), "%d", r->pid);
		if (!i)
			printf("%-8s %-6s %-8s %-14s %-12s %-10s %s\n", "pid", "uid", "id", "where",
			       "bytes", "state", "ends in");
		printf("%-8s %-6u %-8llu %-14s %-12s %-10s %s\n", pid, r->uid,
		       (unsigned long long)r->id, where_text(a, r), format_bytes(b, r->bytes),
		       state_text(r), format_duration(c, r->left_ms * 1000000ull));
	}
	if (!count)
		printf("none\n");
	return fflush(stdout) ? CLI_FAILED : CLI_OK;
}

static json_t *line_json(const pn_reservation *r)
{
	char uuid[2 * sizeof(r->uuid) + 1];

	for (size_t i = 0; i < sizeof(r->uuid); i++)
		sprintf(uuid + 2 * i, "%02x", r->uuid[i]);
	return json_pack("{s:I, s:o, s:I, s:b, s:o, s:s, s:s, s:I, s:s, s:I}", "id",
			 (json_int_t)r->id, "pid", r->pid ? json_integer(r->pid) : json_null(),
			 "uid", (json_int_t)r->uid, "host", r->is_host, "die",
			 r->die >= 0 ? json_integer(r->die) : json_null(), "pci", r->pci, "uuid",
			 r->is_host ? "" : uuid, "bytes", (json_int_t)r->bytes, "state",
			 state_text(r), "left_ms", (json_int_t)r->left_ms);
}

static int print_json(const pn_reservation *lines, int count)
{
	json_t *array = json_array();

	for (int i = 0; i < count; i++)
		json_array_append_new(array, line_json(&lines[i]));
	return json_print(json_pack("{s:s, s:o}", "source", format_source(pn_memwatch_source()),
				    "reservations", array),
			  true);
}

int cmd_reservations(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, 0, 0 }, { 0 } };
	static const struct argp argp = {
		.children = children,
		.doc = "Lists the memory that engines have reserved and not allocated yet: to root "
		       "all of it, to another user that user's own.",
	};
	struct cli_common common = { 0 };
	pn_reservation *lines;
	int r, count;

	cli_parse(&argp, argc, argv, &common);
	r = cli_start();
	if (r)
		return r;
	lines = calloc(LINES_MAX, sizeof(*lines));
	count = lines ? pn_reservations(lines, LINES_MAX) : -ENOMEM;
	if (count < 0) {
		fprintf(stderr, "pnmem: cannot list reservations: %s\n", strerror(-count));
		r = CLI_FAILED;
	} else {
		r = common.json ? print_json(lines, count) : print_text(lines, count);
	}
	free(lines);
	pn_memwatch_stop();
	return r;
}
