/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The views of a trace, by place: their numbers are any, and one is given again to another view
 * when its own has ended. A place is one view's, the first is the host's; readers keep what they
 * know of a view by it.
 */
#ifndef PNMEM_CLI_TRACE_VIEWS_H
#define PNMEM_CLI_TRACE_VIEWS_H

#include <stdbool.h>

#include "core/trace_decode.h"

/* What a file says of more is counted, and left out: a file may be hostile. */
#define TRACE_VIEWS_MAX 4096

#define TRACE_VIEW_NONE UINT32_MAX

struct trace_views;

/* NULL without memory. Freeing takes NULL. */
struct trace_views *trace_views_new(void);
void trace_views_free(struct trace_views *views);

/* Takes each record, in order, before it is asked what view that is of. */
void trace_views_add(struct trace_views *views, const struct trace_item *item);

/* The place of the view that now has the number, or had it last; TRACE_VIEW_NONE: it has none. */
uint32_t trace_views_place(const struct trace_views *views, uint64_t id);

/* How many places are in use, the host's included. */
uint32_t trace_views_count(const struct trace_views *views);

/* Of a place: its number; its path, which can be printed as it is, or NULL; whether it ended. */
uint32_t trace_views_id(const struct trace_views *views, uint32_t place);
const char *trace_views_name(const struct trace_views *views, uint32_t place);
bool trace_views_ended(const struct trace_views *views, uint32_t place);

/* What to call it: its path, "view N" where that is not known; "the host", "a view" without a
 * place.
 */
#define TRACE_VIEWS_LABEL 24
const char *trace_views_label(const struct trace_views *views, uint32_t place,
			      char buf[static TRACE_VIEWS_LABEL]);

/* The first place of the same path: one cgroup has a view after the other as engines come and go.
 */
uint32_t trace_views_first(const struct trace_views *views, uint32_t place);

/* Looks, dies and verdicts of views for which there was no room. */
uint64_t trace_views_left_out(const struct trace_views *views);

/* Says so on stderr, if there are some. */
void trace_views_complain(const struct trace_views *views);

#endif
