/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The views of a trace, by place. The agent may give a view any number, and gives it to another
 * view when the first one has ended. A place belongs to one view; the first place is the host's.
 * Readers keep what they know of a view by its place.
 */
#ifndef PNMEM_CLI_TRACE_VIEWS_H
#define PNMEM_CLI_TRACE_VIEWS_H

#include <stdbool.h>

#include "core/trace_decode.h"

/* Records of further views are counted and left out, since a file may be hostile. */
#define TRACE_VIEWS_MAX 4096

#define TRACE_VIEW_NONE UINT32_MAX

struct trace_views;

/* NULL without memory. Freeing takes NULL. */
struct trace_views *trace_views_new(void);
void trace_views_free(struct trace_views *views);

/* Takes each record, in order. The caller asks for a record's place afterwards. */
void trace_views_add(struct trace_views *views, const struct trace_item *item);

/*
 * The place of the view that has the number now or had it last; TRACE_VIEW_NONE if there is none.
 */
uint32_t trace_views_place(const struct trace_views *views, uint64_t id);

/* How many places are in use, the host's included. */
uint32_t trace_views_count(const struct trace_views *views);

/* The number of the view at a place; its path, safe to print, or NULL; whether it has ended. */
uint32_t trace_views_id(const struct trace_views *views, uint32_t place);
const char *trace_views_name(const struct trace_views *views, uint32_t place);
bool trace_views_ended(const struct trace_views *views, uint32_t place);

/*
 * What a reader calls the view: its path, or "view N" if the path is not known; "the host" for the
 * first place, "a view" for TRACE_VIEW_NONE.
 */
#define TRACE_VIEWS_LABEL 24
const char *trace_views_label(const struct trace_views *views, uint32_t place,
			      char buf[static TRACE_VIEWS_LABEL]);

/* The first place with the same path. A cgroup gets a new view each time that engines come back. */
uint32_t trace_views_first(const struct trace_views *views, uint32_t place);

/* The number of looks, dies and verdicts whose views found no room. */
uint64_t trace_views_left_out(const struct trace_views *views);

/* If there are such records, says so on stderr. */
void trace_views_complain(const struct trace_views *views);

#endif
