/* SPDX-License-Identifier: BSD-2-Clause */
/* What pnmem trace export writes: two formats. */
#ifndef PNMEM_CLI_TRACE_EXPORT_EXPORT_H
#define PNMEM_CLI_TRACE_EXPORT_EXPORT_H

#include <stdio.h>

#include "cli/trace/names.h"
#include "cli/trace/views.h"
#include "core/trace_decode.h"

/*
 * perfetto.c: trace-event JSON, written as records come. out, names and views stay the
 * caller's; these have taken every record that was given before, and views that one too. NULL
 * without memory. Freeing takes NULL.
 */
struct perfetto;
struct perfetto *perfetto_new(FILE *out, const struct trace_head *head,
			      const struct trace_names *names, const struct trace_views *views);
void perfetto_add(struct perfetto *perfetto, const struct trace_item *item);
void perfetto_finish(struct perfetto *perfetto);
void perfetto_free(struct perfetto *perfetto);

/*
 * html.c: a page of the timeline, whose notes it puts in order. end: how the file ended, as
 * report_end says.
 */
struct timeline;
void html_write(FILE *out, struct timeline *timeline, const char *end);

#endif
