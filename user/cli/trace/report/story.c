/* SPDX-License-Identifier: BSD-2-Clause */
/* Gives each record of a trace to the parts of the story that it is about. See story.h. */
#include "cli/trace/report/story.h"

#include <stdlib.h>

struct story *story_new(const struct trace_head *head)
{
	struct story *story = calloc(1, sizeof(*story));

	if (!story)
		return NULL;
	story->head = *head;
	story->names = trace_names_new();
	story->views = trace_views_new();
	refusals_open(&story->refusals);
	if (story->names && story->views && stallers_open(&story->stallers))
		return story;
	story_free(story);
	return NULL;
}

void story_free(struct story *story)
{
	if (!story)
		return;
	memory_close(&story->memory);
	stallers_close(&story->stallers);
	refusals_close(&story->refusals);
	trace_names_free(story->names);
	trace_views_free(story->views);
	free(story);
}

static void add_event(struct story *story, const struct pn_event *event)
{
	switch (event->kind) {
	case PN_EVENT_STALL:
	case PN_EVENT_STALL_END:
		stallers_add(&story->stallers, event);
		break;
	case PN_EVENT_OOM_KILL:
		kills_add(&story->kills, event);
		break;
	case PN_EVENT_FAULTS:
		memory_faults(&story->memory, event);
		break;
	case PN_EVENT_MEMCG:
		reclaim_memcg(&story->reclaim, event);
		break;
	case PN_EVENT_CUDA_CALL:
		story->memory.cuda_count++;
		break;
	default:
		break;
	}
}

static void add_look(struct story *story, const struct trace_item *item)
{
	struct trace_look look = item->look;

	look.view = trace_views_place(story->views, look.view);
	if (look.view == TRACE_VIEW_NONE)
		return;
	if (!look.view)
		stallers_look(&story->stallers, &look);
	memory_look(&story->memory, &look, item->ts_ns);
	if (levels_look(&story->levels, &look, item->ts_ns))
		memory_worst_moment(&story->memory, story->views, item->ts_ns);
	refusals_look(&story->refusals, &look, item->ts_ns);
}

static void add_die(struct story *story, const struct trace_item *item)
{
	uint32_t place = trace_views_place(story->views, item->die.view);

	refusals_die(&story->refusals, place, &item->die);
	memory_die(&story->memory, &item->die, item->ts_ns);
}

static void add_verdict(struct story *story, const struct trace_item *item)
{
	struct trace_verdict verdict = item->verdict;

	trace_printable(verdict.comm, sizeof(verdict.comm), verdict.comm);
	verdict.view = trace_views_place(story->views, verdict.view);
	refusals_verdict(&story->refusals, &verdict, item->ts_ns);
}

static void add_mark(struct story *story, const struct trace_item *item)
{
	uint32_t place;

	recorded_mark(&story->recorded, &item->mark, item->text);
	if (item->mark.of != TRACE_MARK_VIEW_END)
		return;
	place = trace_views_place(story->views, item->mark.value);
	if (place && place != TRACE_VIEW_NONE)
		levels_end_view(&story->levels, place, item->ts_ns);
}

/* What a record says of the trace itself. Returns false for one that says what happened. */
static bool add_about(struct story *story, const struct trace_item *item)
{
	switch (item->kind) {
	case TRACE_SCHEMA:
		recorded_schema(&story->recorded, &item->schema, item->text);
		return true;
	case TRACE_CONFIG:
		story->recorded.has_config = true;
		refusals_config(&story->refusals, &item->config);
		return true;
	case TRACE_DROPS:
		story->recorded.drops = item->drops;
		return true;
	case TRACE_MARK:
		add_mark(story, item);
		return true;
	case TRACE_NAME:
	case TRACE_END:
		return true;
	default:
		return false;
	}
}

void story_add(struct story *story, const struct trace_item *item)
{
	story->record_count++;
	trace_names_add(story->names, item);
	trace_views_add(story->views, item);
	if (add_about(story, item))
		return;
	switch (item->kind) {
	case TRACE_EVENT:
		add_event(story, &item->event);
		break;
	case TRACE_LOOK:
		add_look(story, item);
		break;
	case TRACE_DIE:
		add_die(story, item);
		break;
	case TRACE_VERDICT:
		add_verdict(story, item);
		break;
	case TRACE_VMSTAT:
		reclaim_sample(&story->reclaim, &item->vmstat);
		break;
	default:
		recorded_unknown(&story->recorded, item->kind);
		return;
	}
	if (!story->first_ns || item->ts_ns < story->first_ns)
		story->first_ns = item->ts_ns;
	if (item->ts_ns > story->last_ns)
		story->last_ns = item->ts_ns;
}

void story_finish(struct story *story)
{
	levels_pass(&story->levels, story->last_ns);
}
