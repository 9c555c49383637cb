/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What happened in a trace, gathered record by record in a bounded amount of memory: the numbers
 * that pnmem trace report prints.
 */
#ifndef PNMEM_CLI_TRACE_REPORT_STORY_H
#define PNMEM_CLI_TRACE_REPORT_STORY_H

#include "cli/trace/names.h"
#include "cli/trace/report/kills.h"
#include "cli/trace/report/levels.h"
#include "cli/trace/report/memory.h"
#include "cli/trace/report/reclaim.h"
#include "cli/trace/report/recorded.h"
#include "cli/trace/report/refusals.h"
#include "cli/trace/report/stallers.h"
#include "cli/trace/views.h"

struct story {
	struct trace_head head;
	struct trace_names *names;
	struct trace_views *views;
	uint64_t record_count;
	uint64_t first_ns, last_ns; /* of looks, events and verdicts */
	struct recorded recorded;
	struct levels levels;
	struct memory memory;
	struct stallers stallers;
	struct reclaim reclaim;
	struct kills kills;
	struct refusals refusals;
};

/* NULL without memory. Freeing takes NULL. */
struct story *story_new(const struct trace_head *head);
void story_free(struct story *story);

void story_add(struct story *story, const struct trace_item *item);

/* After the last record: counts the time up to it. */
void story_finish(struct story *story);

#endif
