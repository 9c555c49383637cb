/* SPDX-License-Identifier: BSD-2-Clause */
/* The worst level of all views over the time of a trace. */
#ifndef PNMEM_CLI_TRACE_REPORT_LEVELS_H
#define PNMEM_CLI_TRACE_REPORT_LEVELS_H

#include "cli/trace/views.h"
#include "core/trace_format.h"

struct levels {
	uint32_t level;       /* the worst one now */
	uint64_t level_ns[4]; /* time at each */
	uint64_t look_ns;     /* of the newest look; 0: there was none */

	/* The highest level, and when, where and why a view first reached it. */
	uint32_t worst_level;
	uint64_t worst_ns;
	uint32_t worst_view; /* place */
	uint32_t worst_reasons;

	struct {
		bool raised; /* its place is in the list */
		uint32_t level;
		uint64_t seen_ns;
	} view[TRACE_VIEWS_MAX];          /* by place */
	uint32_t raised[TRACE_VIEWS_MAX]; /* places of the views above OK */
	uint32_t raised_count;
};

/* A look, whose view is a place. Returns whether its level is higher than every one before. */
bool levels_look(struct levels *levels, const struct trace_look *look, uint64_t ts_ns);

/* The view at this place has ended. */
void levels_end_view(struct levels *levels, uint32_t place, uint64_t ts_ns);

/* Counts the time up to here at the level of now. */
void levels_pass(struct levels *levels, uint64_t ts_ns);

#endif
