/* SPDX-License-Identifier: BSD-2-Clause */
/* What pnmem trace report says of a story, for people and as JSON. */
#ifndef PNMEM_CLI_TRACE_REPORT_REPORT_H
#define PNMEM_CLI_TRACE_REPORT_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "cli/trace/file.h"
#include "cli/trace/report/story.h"

/* print.c: a screenful. */
void report_print(FILE *out, const char *path, const struct story *story, enum trace_file_end end);

/* json.c: the same as JSON, which the caller frees. */
json_t *report_json(const char *path, const struct story *story, enum trace_file_end end);

/* words.c: what both say. Each returns its buffer. */
#define REPORT_TEXT 320

/* "12.345 s" from the start of the trace, "?" before it. */
char *report_at(char buf[static REPORT_TEXT], const struct story *story, uint64_t ts_ns);
/* The path of a cgroup, or of a view by its place; the number where there is no name. */
char *report_cgroup(char buf[static REPORT_TEXT], const struct story *story, uint64_t cgroup_id);
char *report_view(char buf[static REPORT_TEXT], const struct story *story, uint32_t view);
const char *report_end(enum trace_file_end end); /* "whole" */
const char *report_ask(uint32_t ask);            /* "request" */
const char *report_check(uint32_t check);        /* "host" */
/* Are there settings that would have admitted all of them? */
bool report_has_settings(const struct refusal *refusal);
/* What would have admitted them, "not known" if nothing in the trace says. */
char *report_prevented(char buf[static REPORT_TEXT], const struct story *story,
		       const struct refusal *refusal);

#endif
