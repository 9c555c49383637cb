/* SPDX-License-Identifier: BSD-2-Clause */
/* pnmem trace report: reads a file once, as a stream, and reports what happened. */

#include <jansson.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/snapshot_json.h"
#include "cli/trace/report/json.h"
#include "cli/trace/report/print.h"
#include "cli/trace/trace.h"

int cmd_trace_report(int argc, char **argv)
{
	static const struct argp_child children[] = { { &trace_file_argp, 0, 0, 0 }, { 0 } };
	static const struct argp argp = {
		.children = children,
		.args_doc = "FILE",
		.doc = "Reports what happened in a trace: levels, peaks, the tasks that stalled, "
		       "the cgroups that took memory, the requests that were refused, and what "
		       "would have admitted them. FILE -: standard "
		       "input.",
	};
	struct trace_file_options options = { 0 };
	struct trace_item item;
	struct trace_file *file;
	enum trace_file_end end;
	struct story *story;
	int status;

	cli_parse(&argp, argc, argv, &options);
	file = trace_file_open(options.path);
	if (!file)
		return CLI_FAILED;
	story = story_new(trace_file_head(file));
	if (!story) {
		fprintf(stderr, "pnmem: no memory\n");
		trace_file_close(file);
		return CLI_FAILED;
	}
	while (trace_file_next(file, &item))
		story_add(story, &item);
	story_finish(story);
	end = trace_file_finish(file);
	status = trace_file_status(file, end);
	if (options.common.json) {
		if (json_print(report_json(options.path, story, end), true))
			status = CLI_FAILED;
	} else {
		report_print(stdout, options.path, story, end);
		if (fflush(stdout) || ferror(stdout))
			status = CLI_FAILED;
	}
	story_free(story);
	trace_file_close(file);
	return status;
}
