/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pnmem explain: why the level is what it is now, and what would change it. It calls the same
 * functions of core that derive the level.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/of_pid.h"
#include "cli/snapshot.h"
#include "cli/snapshot_json.h"
#include "core/explain.h"
#include "core/settings.h"
#include "pn_memwatch.h"

static const char *get_env(void *arg, const char *name)
{
	return getenv(name);
}

static void warn_setting(void *arg, const char *name, const char *value, const char *fallback)
{
	fprintf(stderr, "pnmem: %s=%s is not valid, using %s\n", name, value, fallback);
}

static const char *level_name(uint32_t level)
{
	return pn_mem_level_name((pn_mem_level)level);
}

static char *format_value(char buf[static FORMAT_BYTES], const struct explain_source *source,
			  double value)
{
	if (!source->percent)
		return format_bytes(buf, (uint64_t)value);
	snprintf(buf, FORMAT_BYTES, "%.2f %%", value);
	return buf;
}

static void print_source(const struct explain_source *source)
{
	char a[FORMAT_BYTES], b[FORMAT_BYTES], reason[64];
	const struct explain_line *line;

	printf("%c %-11s %-8s ", source->decides ? '*' : ' ',
	       format_reasons(reason, sizeof(reason), source->reason), level_name(source->level));
	if (source->percent)
		printf("%s stalled (the kernel's file: %.2f)\n",
		       format_value(a, source, source->value), source->file_value);
	else
		printf("%s left of %s\n", format_value(a, source, source->value),
		       format_value(b, source, source->of));
	line = &source->better;
	if (line->exists && source->percent)
		printf("    %-8s %s %s, %.2f away: about %.0f s without a stall\n",
		       level_name(line->level), line->at > 0 ? "below" : "at",
		       format_value(a, source, line->at), line->distance, ceil(line->seconds));
	else if (line->exists)
		printf("    %-8s at %s, %s more\n", level_name(line->level),
		       format_value(a, source, line->at), format_value(b, source, line->distance));
	line = &source->worse;
	if (line->exists)
		printf("    %-8s %s %s, %s away\n", level_name(line->level),
		       source->percent ? (line->at > 0 ? "from" : "above") : "below",
		       format_value(a, source, line->at), format_value(b, source, line->distance));
}

static void print_all(const pn_mem_state *state, const pn_mem_ext *ext,
		      const struct level_config *config, const struct explain_source *sources,
		      int n)
{
	char since[FORMAT_BYTES], reasons[160];
	bool any = false;

	printf("level %s since %s, because: %s\n", level_name(state->level),
	       format_duration(since, snapshot_age_ns(ext->level_since_ns)),
	       format_reasons(reasons, sizeof(reasons), ext->reasons));
	if (ext->wanted_level < state->level)
		printf("held: the numbers say %s, and a lower level must hold for %llu ms\n",
		       level_name(ext->wanted_level),
		       (unsigned long long)config->hold_ns / 1000000);
	if (ext->reasons & PN_REASON_STALE)
		printf("stale: some source cannot be read, its last good value is in use\n");
	for (int i = 0; i < n; i++)
		any = any || sources[i].decides;
	if (any)
		printf("the level falls when every source with a * falls\n");
	printf("\n");
	for (int i = 0; i < n; i++)
		print_source(&sources[i]);
}

static json_t *line_json(const struct explain_line *line, bool percent)
{
	json_t *object;

	if (!line->exists)
		return json_null();
	object = json_pack("{si ss sf sf}", "level", (int)line->level, "level_name",
			   level_name(line->level), "at", line->at, "distance", line->distance);
	if (percent)
		json_object_set_new(object, "seconds_without_stall", json_real(line->seconds));
	return object;
}

static json_t *all_json(const pn_mem_state *state, const pn_mem_ext *ext,
			const struct explain_source *sources, int n)
{
	json_t *list = json_array();
	char reasons[160];

	for (int i = 0; i < n; i++) {
		const struct explain_source *s = &sources[i];

		json_array_append_new(
			list,
			json_pack("{ss si ss sb ss sf so so}", "reason",
				  format_reasons(reasons, sizeof(reasons), s->reason), "level",
				  (int)s->level, "level_name", level_name(s->level), "decides",
				  (int)s->decides, "unit", s->percent ? "percent" : "bytes",
				  "value", s->value, "better", line_json(&s->better, s->percent),
				  "worse", line_json(&s->worse, false)));
	}
	return json_pack("{si ss si sI ss so}", "level", (int)state->level, "level_name",
			 level_name(state->level), "wanted_level", (int)ext->wanted_level,
			 "level_since_ns", (json_int_t)ext->level_since_ns, "reasons",
			 format_reasons(reasons, sizeof(reasons), ext->reasons), "sources", list);
}

int cmd_explain(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_of_pid_argp, 0, 0, 0 }, { 0 } };
	static const struct argp argp = {
		.children = children,
		.doc = "Why the level is what it is: each source with its number, the level that "
		       "it asks for, and how far the lines are at which that would change. The "
		       "environment's PN_PSI_FULL_REJECT and PN_CGROUP_LEVEL are taken to be the "
		       "agent's.",
	};
	struct cli_of_pid options = { 0 };
	struct explain_source sources[EXPLAIN_MAX];
	struct level_config config;
	pn_mem_state state;
	pn_mem_ext ext;
	int n, r;

	cli_parse(&argp, argc, argv, &options);
	r = cli_read_of_pid(&options, &state, &ext);
	if (r)
		return r;
	pn_memwatch_stop();
	settings_level(&config, get_env, NULL, warn_setting, NULL);
	n = explain(&state, &ext, &config, sources);
	if (options.common.json)
		return json_print(all_json(&state, &ext, sources, n), true);
	print_all(&state, &ext, &config, sources, n);
	return fflush(stdout) || ferror(stdout) ? CLI_FAILED : CLI_OK;
}
