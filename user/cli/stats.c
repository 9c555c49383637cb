/* SPDX-License-Identifier: BSD-2-Clause */
/* pnmem stats: the agent's counters. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/snapshot_json.h"
#include "pn_memwatch.h"

static const struct {
	const char *name;
	size_t offset;
	const char *meaning;
} counters[] = {
#define COUNTER(field, text)                                                                       \
	{                                                                                          \
#field, offsetof(pn_agent_stats, field), text                                      \
	}
	COUNTER(looks, "times it looked at its sources"),
	COUNTER(publishes, "snapshots of the host's own page"),
	COUNTER(wakeups, "times its loop woke up"),
	COUNTER(events, "kernel records"),
	COUNTER(event_drops, "kernel records lost"),
	COUNTER(accepted, "clients taken since it started"),
	COUNTER(refused, "clients turned away"),
	COUNTER(dropped, "clients dropped for what they did"),
	COUNTER(requests, "requests"),
	COUNTER(told, "events sent to subscribers"),
#undef COUNTER
};

static uint64_t counter(const pn_agent_stats *stats, size_t i)
{
	uint64_t value;

	memcpy(&value, (const char *)stats + counters[i].offset, sizeof(value));
	return value;
}

static int print_text(const pn_agent_stats *stats)
{
	char uptime[FORMAT_BYTES];

	printf("agent    up %s, %u views\n", format_duration(uptime, stats->uptime_ns),
	       stats->views);
	printf("clients  %u of %u users, %u subscribers\n", stats->clients, stats->uids,
	       stats->subscribers);
	for (uint32_t i = 0; i < stats->uid_count; i++)
		printf("uid      %-10u %u clients, %llu refused\n", stats->uid[i].uid,
		       stats->uid[i].clients, (unsigned long long)stats->uid[i].refused);
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		printf("%-12s %-12llu %s\n", counters[i].name,
		       (unsigned long long)counter(stats, i), counters[i].meaning);
	return fflush(stdout) ? CLI_FAILED : CLI_OK;
}

static int print_json(const pn_agent_stats *stats)
{
	json_t *object = json_object(), *uids = json_array();

	json_object_set_new(object, "uptime_ns", json_integer((json_int_t)stats->uptime_ns));
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		json_object_set_new(object, counters[i].name,
				    json_integer((json_int_t)counter(stats, i)));
	json_object_set_new(object, "clients", json_integer(stats->clients));
	json_object_set_new(object, "subscribers", json_integer(stats->subscribers));
	json_object_set_new(object, "views", json_integer(stats->views));
	json_object_set_new(object, "uids", json_integer(stats->uids));
	for (uint32_t i = 0; i < stats->uid_count; i++)
		json_array_append_new(uids, json_pack("{s:I, s:I, s:I}", "uid",
						      (json_int_t)stats->uid[i].uid, "clients",
						      (json_int_t)stats->uid[i].clients, "refused",
						      (json_int_t)stats->uid[i].refused));
	json_object_set_new(object, "uid", uids);
	return json_print(object, true);
}

int cmd_stats(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, 0, 0 }, { 0 } };
	static const struct argp argp = { .children = children,
					  .doc = "Prints the agent's counters." };
	struct cli_common common = { 0 };
	pn_agent_stats stats;
	int r, status;

	cli_parse(&argp, argc, argv, &common);
	status = cli_start();
	if (status)
		return status;
	r = pn_memwatch_stats(&stats);
	pn_memwatch_stop();
	if (!r)
		return common.json ? print_json(&stats) : print_text(&stats);
	fprintf(stderr, "pnmem: no counters: %s\n", r == -ENODATA ? "no agent" : strerror(-r));
	return CLI_FAILED;
}
