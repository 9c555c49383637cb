/* SPDX-License-Identifier: BSD-2-Clause */
/* pnmem trace replay: the recorded numbers with other settings. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/trace/replay/print.h"
#include "cli/trace/trace.h"
#include "cli/trace/views.h"
#include "core/settings.h"
#include "core/u64.h"

/* Keys of --policy: the settings of the environment in lower case, without PN_. */
static const struct {
	const char *key;
	const char *setting;
	uint32_t given;
} keys[] = {
	{ "host_reserve_bytes", "PN_HOST_RESERVE_BYTES", REPLAY_HOST_RESERVE },
	{ "psi_full_reject", "PN_PSI_FULL_REJECT", REPLAY_PSI_FULL_REJECT },
	{ "die_reserve_bytes", "PN_DIE_RESERVE_BYTES", REPLAY_DIE_RESERVE },
	{ "level_hold_ms", "PN_LEVEL_HOLD_MS", REPLAY_LEVEL_HOLD },
	{ "cgroup_level", "PN_CGROUP_LEVEL", REPLAY_CGROUP_LEVEL },
};

#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

struct replay_options {
	struct trace_file_options file;
	uint32_t given;             /* REPLAY_* */
	const char *values[N_KEYS]; /* as the user gave them; NULL: not given */
};

static const char *given_value(void *arg, const char *setting)
{
	const struct replay_options *options = arg;

	for (unsigned i = 0; i < N_KEYS; i++)
		if (!strcmp(keys[i].setting, setting))
			return options->values[i];
	return NULL;
}

/* One KEY=VALUE, in the caller's memory. */
static void parse_setting(struct replay_options *options, char *text, struct argp_state *state)
{
	char *value = strchr(text, '=');

	if (value)
		*value++ = 0;
	for (unsigned i = 0; i < N_KEYS; i++) {
		if (strcmp(keys[i].key, text))
			continue;
		if (!value || !*value)
			argp_error(state, "%s needs a value", text);
		options->values[i] = value;
		options->given |= keys[i].given;
		return;
	}
	argp_error(state, "no such setting: %s", text);
}

static void bad_value(void *arg, const char *name, const char *value, const char *fallback)
{
	for (unsigned i = 0; i < N_KEYS; i++)
		if (!strcmp(keys[i].setting, name))
			argp_error(arg, "%s cannot be %s", keys[i].key, value);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct replay_options *options = state->input;
	struct level_config unused;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->file;
		return 0;
	case 'p':
		for (char *rest = arg, *text; (text = strsep(&rest, ",")) != NULL;)
			parse_setting(options, text, state);
		return 0;
	case ARGP_KEY_END:
		settings_level(&unused, given_value, options, bad_value, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* A view, and the last difference that was reported for it. */
struct seen_view {
	struct replay_view replay;
	bool any;
	bool differs;
	uint32_t level;
	struct replay_level with;
	uint64_t look_ns;
};

struct run {
	bool json;
	struct replay_policy policy;
	struct level_config settings;
	struct trace_views *views;
	bool started; /* there was a record */
	bool has_config, no_memory;
	struct replay_summary summary;
	struct seen_view *view[TRACE_VIEWS_MAX]; /* by place */
};

/* The view with this number, and its place. NULL: there was no room for it. */
static struct seen_view *view_of(struct run *run, uint32_t id, uint32_t *ret_place)
{
	uint32_t place = trace_views_place(run->views, id);

	*ret_place = place;
	if (place == TRACE_VIEW_NONE)
		return NULL;
	if (!run->view[place]) {
		run->view[place] = calloc(1, sizeof(*run->view[place]));
		run->no_memory = run->no_memory || !run->view[place];
	}
	return run->view[place];
}

static void change(struct run *run, uint64_t ts_ns, uint32_t place, struct replay_change *what)
{
	char label[TRACE_VIEWS_LABEL];

	what->ts_ns = u64_sub(ts_ns, run->summary.start_ns);
	what->view = trace_views_label(run->views, place, label);
	replay_change(run->json, what);
}

/* Levels hold until the next look. */
static void count_time(struct run *run, const struct seen_view *view, uint64_t now_ns)
{
	struct replay_summary *summary = &run->summary;
	uint64_t ns = u64_sub(now_ns, view->look_ns);

	if (!view->any)
		return;
	summary->level_ns[view->level] += ns;
	summary->with_ns[view->with.level] += ns;
	if (view->level != view->with.level)
		summary->differ_ns += ns;
}

static void add_look(struct run *run, const struct trace_item *item)
{
	struct seen_view *view;
	struct replay_level with;
	const struct trace_look *look = &item->look;
	bool differs, same_pair;
	uint32_t place;

	run->summary.look_count++;
	view = view_of(run, look->view, &place);
	if (!view) {
		run->summary.unknown_count++;
		return;
	}
	replay_look(&view->replay, &run->policy, item->ts_ns, look, &with);
	count_time(run, view, item->ts_ns);
	run->summary.unknown_count += !with.replayed;
	differs = with.level != look->level;
	same_pair = view->any && view->level == look->level && view->with.level == with.level;
	if ((differs && !same_pair) || (!differs && view->differs)) {
		struct replay_change what = {
			.over = !differs,
			.level = look->level,
			.reasons = look->reasons,
			.with = with,
		};

		run->summary.change_count += differs && !view->differs;
		change(run, item->ts_ns, place, &what);
	}
	view->any = true;
	view->differs = differs;
	view->level = look->level;
	view->with = with;
	view->look_ns = item->ts_ns;
}

static void add_die(struct run *run, const struct trace_item *item)
{
	uint32_t place;
	struct seen_view *view = view_of(run, item->die.view, &place);

	if (view)
		replay_die(&view->replay, &run->policy, &item->die);
}

static void add_verdict(struct run *run, const struct trace_item *item)
{
	struct replay_summary *summary = &run->summary;
	const struct trace_verdict *verdict = &item->verdict;
	struct seen_view *view;
	pn_admit_result result;
	uint32_t place;
	int r = -ENODATA;

	summary->verdict_count++;
	view = view_of(run, verdict->view, &place);
	if (view)
		r = replay_verdict(&view->replay, &run->policy, verdict, &result);
	if (r < 0) {
		summary->verdict_unknown_count++;
		return;
	}
	if (replay_verdict_same(verdict, &result))
		return;
	summary->verdict_differ_count++;
	summary->verdict_from_to[verdict->verdict][result.verdict]++;
	change(run, item->ts_ns, place,
	       &(struct replay_change){ .verdict = verdict, .result = &result, .estimate = r > 0 });
}

static void add(struct run *run, const struct trace_item *item)
{
	if (!run->started && (item->kind == TRACE_LOOK || item->kind == TRACE_EVENT ||
			      item->kind == TRACE_VERDICT)) {
		run->started = true;
		run->summary.start_ns = item->ts_ns;
	}
	trace_views_add(run->views, item);
	switch (item->kind) {
	case TRACE_CONFIG:
		replay_recorded(&item->config, &run->policy.recorded);
		replay_policy_apply(&run->policy, &run->settings);
		break;
	case TRACE_DIE:
		add_die(run, item);
		break;
	case TRACE_LOOK:
		add_look(run, item);
		break;
	case TRACE_VERDICT:
		add_verdict(run, item);
		break;
	default:
		break;
	}
}

/*
 * The settings come before the records that are judged by them. Without them the defaults are
 * taken.
 */
static bool is_judged(const struct trace_item *item)
{
	return item->kind == TRACE_LOOK || item->kind == TRACE_VERDICT;
}

static int replay_file(struct run *run, const char *path, struct trace_file *file)
{
	struct trace_item item;
	enum trace_file_end end;
	bool begun = false;

	run->policy.recorded = level_config_default;
	replay_policy_apply(&run->policy, &run->settings);
	while (trace_file_next(file, &item) && !run->no_memory) {
		run->has_config = run->has_config || item.kind == TRACE_CONFIG;
		if (!begun && is_judged(&item)) {
			if (!run->has_config)
				fprintf(stderr,
					"pnmem: %s does not have the settings that it was recorded "
					"with: the defaults are taken\n",
					path);
			replay_begin(run->json, path, &run->policy);
			begun = true;
		}
		add(run, &item);
		if (is_judged(&item))
			run->summary.span_ns = u64_max(run->summary.span_ns,
						       u64_sub(item.ts_ns, run->summary.start_ns));
	}
	if (run->no_memory) {
		fprintf(stderr, "pnmem: no memory\n");
		return CLI_FAILED;
	}
	trace_views_complain(run->views);
	end = trace_file_finish(file);
	if (!begun)
		replay_begin(run->json, path, &run->policy);
	replay_end(run->json, &run->summary, end);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "pnmem: cannot write standard output: %s\n", strerror(errno));
		return CLI_FAILED;
	}
	return trace_file_status(file, end);
}

int cmd_trace_replay(int argc, char **argv)
{
	static const struct argp_option option_list[] = {
		{ "policy", 'p', "KEY=VALUE,...", 0,
		  "host_reserve_bytes, psi_full_reject, die_reserve_bytes, level_hold_ms, "
		  "cgroup_level: the settings PN_... of these names; the others stay as "
		  "recorded",
		  1 },
		{ 0 },
	};
	static const struct argp_child children[] = { { &trace_file_argp, 0, 0, 0 }, { 0 } };
	static const struct argp argp = {
		.options = option_list,
		.parser = parse_option,
		.children = children,
		.args_doc = "FILE",
		.doc = "Says where levels and verdicts of a trace would differ with other "
		       "settings. FILE -: standard input.",
	};
	struct replay_options options = { 0 };
	struct trace_file *file;
	struct run *run;
	int status = CLI_FAILED;

	cli_parse(&argp, argc, argv, &options);
	file = trace_file_open(options.file.path);
	if (!file)
		return CLI_FAILED;
	run = calloc(1, sizeof(*run));
	if (run)
		run->views = trace_views_new();
	if (run && run->views) {
		run->json = options.file.common.json;
		run->policy.given = options.given;
		settings_level(&run->settings, given_value, &options, NULL, NULL);
		status = replay_file(run, options.file.path, file);
	} else {
		fprintf(stderr, "pnmem: no memory\n");
	}
	for (unsigned i = 0; run && i < TRACE_VIEWS_MAX; i++)
		free(run->view[i]);
	if (run)
		trace_views_free(run->views);
	free(run);
	trace_file_close(file);
	return status;
}
