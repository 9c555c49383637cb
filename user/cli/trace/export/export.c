/* SPDX-License-Identifier: BSD-2-Clause */
/* pnmem trace export: a trace file in a format that shows it as a picture. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/trace/export/html.h"
#include "cli/trace/export/perfetto.h"
#include "cli/trace/export/timeline.h"
#include "cli/trace/file.h"
#include "cli/trace/trace.h"
#include "cli/trace/words.h"

enum format {
	FORMAT_NONE = 0,
	FORMAT_PERFETTO = 1,
	FORMAT_HTML = 2,
};

struct export_options {
	struct trace_file_options file;
	enum format format;
	const char *out_path;
};

#define OPTION_FORMAT 256 /* plus enum format */

static const struct argp_option option_list[] = {
	{ "html", OPTION_FORMAT + FORMAT_HTML, 0, 0,
	  "One page with the timeline, which needs no network", 1 },
	{ "perfetto", OPTION_FORMAT + FORMAT_PERFETTO, 0, 0,
	  "Trace-event JSON, for the Perfetto UI (ui.perfetto.dev) and chrome://tracing", 1 },
	{ "output", 'o', "FILE", 0, "Write this file (standard output)", 1 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct export_options *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->file;
		return 0;
	case OPTION_FORMAT + FORMAT_HTML:
	case OPTION_FORMAT + FORMAT_PERFETTO:
		if (options->format)
			argp_error(state, "one format at a time");
		options->format = (enum format)(key - OPTION_FORMAT);
		return 0;
	case 'o':
		options->out_path = arg;
		return 0;
	case ARGP_KEY_END:
		if (!options->format || options->file.common.json)
			argp_error(state, "a format is needed: --html or --perfetto");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Each returns false without memory; the file's end is told on stderr and in *ret_end. */
static bool write_perfetto(struct trace_file *file, struct trace_names *names,
			   struct trace_views *views, FILE *out, enum trace_file_end *ret_end)
{
	struct perfetto *perfetto = perfetto_new(out, trace_file_head(file), names, views);
	struct trace_item item;

	if (!perfetto)
		return false;
	while (trace_file_next(file, &item)) {
		trace_names_add(names, &item);
		trace_views_add(views, &item);
		perfetto_add(perfetto, &item);
	}
	*ret_end = trace_file_finish(file);
	perfetto_finish(perfetto);
	perfetto_free(perfetto);
	return true;
}

static bool write_html(struct trace_file *file, struct trace_names *names,
		       struct trace_views *views, FILE *out, enum trace_file_end *ret_end)
{
	struct timeline *timeline = timeline_new(trace_file_head(file), names, views);
	struct trace_item item;

	if (!timeline)
		return false;
	while (trace_file_next(file, &item)) {
		trace_names_add(names, &item);
		trace_views_add(views, &item);
		timeline_add(timeline, &item);
	}
	*ret_end = trace_file_finish(file);
	html_write(out, timeline, words_end(*ret_end));
	timeline_free(timeline);
	return true;
}

static int write_out(const struct export_options *options, struct trace_file *file, FILE *out)
{
	const char *to = options->out_path ? options->out_path : "standard output";
	struct trace_names *names = trace_names_new();
	struct trace_views *views = trace_views_new();
	enum trace_file_end end = TRACE_FILE_FAILED;
	bool done = false;

	if (names && views && options->format == FORMAT_HTML)
		done = write_html(file, names, views, out, &end);
	else if (names && views)
		done = write_perfetto(file, names, views, out, &end);
	if (done)
		trace_views_complain(views);
	trace_names_free(names);
	trace_views_free(views);
	if (!done || fflush(out) || ferror(out)) {
		fprintf(stderr, "pnmem: cannot write %s: %s\n", to,
			done ? strerror(errno) : "no memory");
		return CLI_FAILED;
	}
	return trace_file_status(file, end);
}

int cmd_trace_export(int argc, char **argv)
{
	static const struct argp_child children[] = { { &trace_file_argp, 0, 0, 0 }, { 0 } };
	static const struct argp argp = {
		.options = option_list,
		.parser = parse_option,
		.children = children,
		.args_doc = "FILE",
		.doc = "Writes a trace in a format that shows it as a picture. FILE -: standard "
		       "input.",
	};
	struct export_options options = { 0 };
	struct trace_file *file;
	FILE *out = stdout;
	int status;

	cli_parse(&argp, argc, argv, &options);
	file = trace_file_open(options.file.path);
	if (!file)
		return CLI_FAILED;
	if (options.out_path) {
		int fd = trace_file_make(options.out_path, true);

		errno = fd < 0 ? -fd : 0;
		out = fd < 0 ? NULL : fdopen(fd, "w");
	}
	if (!out) {
		fprintf(stderr, "pnmem: cannot write %s: %s\n", options.out_path, strerror(errno));
		trace_file_close(file);
		return CLI_FAILED;
	}
	status = write_out(&options, file, out);
	if (options.out_path)
		fclose(out);
	trace_file_close(file);
	return status;
}
