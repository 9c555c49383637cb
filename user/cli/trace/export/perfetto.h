/* SPDX-License-Identifier: BSD-2-Clause */
/* Trace-event JSON, for the Perfetto UI and chrome://tracing, written as records come. */
#ifndef PNMEM_CLI_TRACE_EXPORT_PERFETTO_H
#define PNMEM_CLI_TRACE_EXPORT_PERFETTO_H

#include <stdio.h>

#include "cli/trace/names.h"
#include "cli/trace/views.h"
#include "core/trace_decode.h"

struct perfetto;

/*
 * out, names and views stay the caller's. Before a record is added here, it is added to names and
 * views. Returns NULL without memory. Freeing takes NULL.
 */
struct perfetto *perfetto_new(FILE *out, const struct trace_head *head,
			      const struct trace_names *names, const struct trace_views *views);
void perfetto_add(struct perfetto *perfetto, const struct trace_item *item);
void perfetto_finish(struct perfetto *perfetto);
void perfetto_free(struct perfetto *perfetto);

#endif
