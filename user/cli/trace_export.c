/* SPDX-License-Identifier: BSD-2-Clause */
/* pnmem trace export: a trace file in a format that shows it as a picture. */
#include "cli/trace_export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/trace.h"
#include "cli/trace_file.h"

enum format {
	FORMAT_NONE = 0,
	FORMAT_PERFETTO = 1,
};

struct export_options {
	struct cli_common common;
	enum format format;
	const char *path;
	const char *out_path;
};

#define OPTION_PERFETTO 256

static const struct argp_option option_list[] = {
	{ "perfetto", OPTION_PERFETTO, 0, 0,
	  "Trace-event JSON, for the Perfetto UI (ui.perfetto.dev) and chrome://tracing", 1 },
	{ "output", 'o', "FILE", 0, "Where to (standard output)", 1 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct export_options *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->common;
		return 0;
	case OPTION_PERFETTO:
		if (options->format)
			argp_error(state, "one format at a time");
		options->format = FORMAT_PERFETTO;
		return 0;
	case 'o':
		options->out_path = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (options->path)
			argp_error(state, "unexpected argument: %s", arg);
		options->path = arg;
		return 0;
	case ARGP_KEY_END:
		if (!options->path)
			argp_error(state, "which file?");
		if (!options->format || options->common.json)
			argp_error(state, "which format? --perfetto");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Returns what is wrong, NULL if nothing. */
static const char *write_perfetto(struct trace_file *file, struct trace_names *names, FILE *out)
{
	struct perfetto *perfetto = perfetto_new(out, trace_file_head(file), names);
	struct trace_record record;

	if (!perfetto)
		return "no memory";
	while (trace_file_next(file, &record)) {
		if (record.kind == TRACE_NAME)
			trace_names_add(names, &record);
		perfetto_add(perfetto, &record);
	}
	perfetto_finish(perfetto);
	perfetto_free(perfetto);
	return fflush(out) || ferror(out) ? strerror(errno) : NULL;
}

static int write_out(const struct export_options *options, struct trace_file *file, FILE *out)
{
	const char *to = options->out_path ? options->out_path : "standard output", *wrong;
	struct trace_names *names = trace_names_new();
	int status;

	wrong = names ? write_perfetto(file, names, out) : "no memory";
	trace_names_free(names);
	if (wrong) {
		fprintf(stderr, "pnmem: cannot write %s: %s\n", to, wrong);
		return CLI_FAILED;
	}
	status = trace_file_status(file, trace_file_finish(file));
	return status;
}

int cmd_trace_export(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, 0, 0 }, { 0 } };
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
	file = trace_file_open(options.path);
	if (!file)
		return CLI_FAILED;
	if (options.out_path)
		out = fopen(options.out_path, "we");
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
