/* SPDX-License-Identifier: BSD-2-Clause */
/* Bins of a trace. See timeline.h. */
#include "cli/trace/export/timeline.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/format.h"
#include "cli/trace/words.h"
#include "core/u64.h"
#include "pn_admission.h"
#include "pn_memwatch.h"

#define WIDTH_MIN_NS 1000000ull
/* The agent looks at each view every 2 s at least. A view without a look for so long is gone. */
#define LOOK_HOLDS_NS 5000000000ull

/* How two values of a bin are combined. */
enum fold {
	FOLD_MAX,
	FOLD_MIN,
	FOLD_SUM,
};

static const struct {
	enum fold fold;
	unsigned lines_max; /* the others share one */
} kinds[TIMELINE_OF_COUNT] = {
	[TIMELINE_LEVEL] = { FOLD_MAX, 64 },         [TIMELINE_AVAILABLE] = { FOLD_MIN, 1 },
	[TIMELINE_RESERVE] = { FOLD_MAX, 1 },        [TIMELINE_PSI_SOME] = { FOLD_MAX, 1 },
	[TIMELINE_PSI_FULL] = { FOLD_MAX, 1 },       [TIMELINE_CURRENT] = { FOLD_MAX, 64 },
	[TIMELINE_LIMIT] = { FOLD_MIN, 64 },         [TIMELINE_DIE_FREE] = { FOLD_MIN, 64 },
	[TIMELINE_DIE_BUDGET] = { FOLD_MAX, 64 },    [TIMELINE_EVENTS] = { FOLD_SUM, LANE_COUNT },
	[TIMELINE_CGROUP_STALL] = { FOLD_SUM, 128 }, [TIMELINE_TASK_STALL] = { FOLD_SUM, 384 },
};

struct timeline *timeline_new(const struct trace_head *head, const struct trace_names *names,
			      const struct trace_views *views)
{
	struct timeline *timeline = calloc(1, sizeof(*timeline));

	if (!timeline)
		return NULL;
	timeline->names = names;
	timeline->views = views;
	timeline->head = *head;
	timeline->width_ns = WIDTH_MIN_NS;
	return timeline;
}

void timeline_free(struct timeline *timeline)
{
	for (unsigned i = 0; timeline && i < timeline->line_count; i++) {
		free(timeline->line[i].worst);
		free(timeline->line[i].last);
	}
	free(timeline);
}

static float folded(enum fold fold, float a, float b)
{
	if (isnan(a))
		return b;
	if (isnan(b))
		return a;
	return fold == FOLD_MAX ? fmaxf(a, b) : fold == FOLD_MIN ? fminf(a, b) : a + b;
}

static void line_halve(struct timeline_line *line)
{
	for (unsigned i = 0; i < TIMELINE_BINS / 2; i++) {
		float *worst = line->worst + 2 * i;

		line->worst[i] = folded(kinds[line->of].fold, worst[0], worst[1]);
		if (line->last)
			line->last[i] = isnan(line->last[2 * i + 1]) ? line->last[2 * i]
								     : line->last[2 * i + 1];
	}
	for (unsigned i = TIMELINE_BINS / 2; i < TIMELINE_BINS; i++) {
		line->worst[i] = NAN;
		if (line->last)
			line->last[i] = NAN;
	}
}

/* Extends the bins to this time. A time before the start counts as the start. */
static void reach(struct timeline *timeline, uint64_t ts_ns)
{
	if (!timeline->any) {
		timeline->any = true;
		timeline->start_ns = timeline->last_ns = ts_ns;
	}
	if (ts_ns <= timeline->last_ns)
		return;
	timeline->last_ns = ts_ns;
	while ((ts_ns - timeline->start_ns) / timeline->width_ns >= TIMELINE_BINS) {
		timeline->width_ns *= 2;
		for (unsigned i = 0; i < timeline->line_count; i++)
			line_halve(&timeline->line[i]);
	}
}

static unsigned bin_of(const struct timeline *timeline, uint64_t ts_ns)
{
	return ts_ns < timeline->start_ns
		       ? 0
		       : (unsigned)((ts_ns - timeline->start_ns) / timeline->width_ns);
}

unsigned timeline_bins(const struct timeline *timeline)
{
	return timeline->any ? bin_of(timeline, timeline->last_ns) + 1 : 0;
}

static float *new_bins(void)
{
	float *bins = malloc(TIMELINE_BINS * sizeof(*bins));

	for (unsigned i = 0; bins && i < TIMELINE_BINS; i++)
		bins[i] = NAN;
	return bins;
}

#define SLOTS (4 * TIMELINE_LINES)

/* The slot of this key, or the free slot for it. */
static uint16_t *slot_of(struct timeline *timeline, enum timeline_of of, bool rest, uint64_t a,
			 uint64_t b)
{
	uint64_t key = ((a * 31 + b) * 31 + of) * 2 + rest;
	unsigned i = (unsigned)(key * 0x9e3779b97f4a7c15ull >> 40) % SLOTS;

	for (;; i = (i + 1) % SLOTS) {
		const struct timeline_line *line;

		if (!timeline->line_slot[i])
			break;
		line = &timeline->line[timeline->line_slot[i] - 1];
		if (line->of == of && line->rest == rest && line->a == a && line->b == b)
			break;
	}
	return &timeline->line_slot[i];
}

/* The line of this key, made at its first use. NULL without memory. */
static struct timeline_line *line_of(struct timeline *timeline, enum timeline_of of, uint64_t a,
				     uint64_t b)
{
	uint16_t *slot = slot_of(timeline, of, false, a, b);
	bool rest = !*slot && timeline->count_of[of] == kinds[of].lines_max;
	bool sum = kinds[of].fold == FOLD_SUM;
	struct timeline_line *line;

	if (rest) {
		a = b = 0;
		slot = slot_of(timeline, of, true, a, b);
	}
	if (*slot)
		return &timeline->line[*slot - 1];
	if (timeline->line_count == TIMELINE_LINES || timeline->no_memory)
		return NULL;
	line = &timeline->line[timeline->line_count];
	*line = (struct timeline_line){ .of = of, .rest = rest, .a = a, .b = b };
	line->worst = new_bins();
	line->last = sum ? NULL : new_bins();
	if (!line->worst || (!sum && !line->last)) {
		free(line->worst);
		timeline->no_memory = true;
		return NULL;
	}
	timeline->line_count++;
	timeline->count_of[of] += !rest;
	*slot = (uint16_t)timeline->line_count;
	return line;
}

static struct timeline_line *put(struct timeline *timeline, enum timeline_of of, uint64_t a,
				 uint64_t b, uint64_t ts_ns, double value)
{
	struct timeline_line *line = line_of(timeline, of, a, b);
	unsigned bin = bin_of(timeline, ts_ns);

	if (!line)
		return NULL;
	line->worst[bin] = folded(kinds[of].fold, line->worst[bin], (float)value);
	if (line->last)
		line->last[bin] = (float)value;
	else
		line->total += value;
	return line;
}

void timeline_fill(const struct timeline *timeline, const struct timeline_line *line,
		   float ret[static TIMELINE_BINS])
{
	unsigned n = timeline_bins(timeline), until = UINT_MAX;
	bool looked = line->of <= TIMELINE_LIMIT;
	float holds = line->last ? NAN : 0;

	for (unsigned i = 0; i < n; i++) {
		if (i > until)
			holds = NAN;
		ret[i] = isnan(line->worst[i]) ? holds : line->worst[i];
		if (!line->last || isnan(line->last[i]))
			continue;
		holds = line->last[i];
		if (looked)
			until = i + (unsigned)(LOOK_HOLDS_NS / timeline->width_ns) + 1;
	}
}

static struct timeline_note *note(struct timeline *timeline, enum timeline_lane lane,
				  uint64_t ts_ns)
{
	struct timeline_note *ret;

	if (timeline->noted[lane]++ >= TIMELINE_NOTES)
		return NULL;
	ret = &timeline->note[timeline->note_count++];
	ret->ts_ns = ts_ns;
	ret->lane = lane;
	return ret;
}

/* ---- records -------------------------------------------------------------------------------- */

static const char *cgroup_name(const struct timeline *timeline, uint64_t id, char buf[32])
{
	const char *name = trace_names_get(timeline->names, TRACE_NAME_CGROUP, id);

	if (name)
		return name;
	snprintf(buf, 32, "cgroup %llu", (unsigned long long)id);
	return buf;
}

static void note_level(struct timeline *timeline, uint64_t ts_ns, const struct trace_look *look)
{
	struct timeline_note *n;
	char reasons[80], name[32];
	uint32_t before;

	before = timeline->level[look->view];
	timeline->level[look->view] = look->level + 1;
	if (!before || before == look->level + 1)
		return;
	n = note(timeline, LANE_COUNT, ts_ns);
	if (n)
		snprintf(n->text, sizeof(n->text), "%.60s: %s to %s (%s)",
			 trace_views_label(timeline->views, look->view, name),
			 pn_mem_level_name((pn_mem_level)(before - 1)),
			 pn_mem_level_name((pn_mem_level)look->level),
			 format_reasons(reasons, sizeof(reasons), look->reasons));
}

static void add_look(struct timeline *timeline, const struct trace_item *item)
{
	uint64_t ts_ns = item->ts_ns;
	struct trace_look look = item->look;

	look.view = trace_views_place(timeline->views, look.view);
	if (look.view == TRACE_VIEW_NONE)
		return;
	reach(timeline, ts_ns);
	note_level(timeline, ts_ns, &look);
	look.view = trace_views_first(timeline->views, look.view);
	put(timeline, TIMELINE_LEVEL, look.view, 0, ts_ns, look.level);
	if (look.view) {
		put(timeline, TIMELINE_CURRENT, look.view, 0, ts_ns,
		    (double)look.cgroup_current_bytes);
		if (look.cgroup_limit_bytes)
			put(timeline, TIMELINE_LIMIT, look.view, 0, ts_ns,
			    (double)look.cgroup_limit_bytes);
		return;
	}
	put(timeline, TIMELINE_AVAILABLE, 0, 0, ts_ns, (double)look.host_avail_bytes);
	put(timeline, TIMELINE_RESERVE, 0, 0, ts_ns, (double)look.host_reserve_bytes);
	put(timeline, TIMELINE_PSI_SOME, 0, 0, ts_ns,
	    fmax(look.host_psi_some_avg10, look.live_psi_some_avg10));
	put(timeline, TIMELINE_PSI_FULL, 0, 0, ts_ns,
	    fmax(look.host_psi_full_avg10, look.live_psi_full_avg10));
}

/* A die with a name is one line for all views. A die without a name is a line of its view. */
static void add_die(struct timeline *timeline, const struct trace_item *item)
{
	const struct trace_die *die = &item->die;
	struct timeline_line *line;
	char text[sizeof(die->pci)];
	uint64_t key = 0;
	uint32_t view;

	view = trace_views_place(timeline->views, die->view);
	if (view == TRACE_VIEW_NONE)
		return;
	reach(timeline, item->ts_ns);
	trace_printable(text, sizeof(text), die->pci);
	for (const char *p = text; *p; p++)
		key = key * 31 + (unsigned char)*p;
	if (!key)
		key = (uint64_t)view << 32 | die->index;
	line = put(timeline, TIMELINE_DIE_FREE, key, 0, item->ts_ns, (double)die->free_bytes);
	if (line && !line->label[0] && text[0])
		snprintf(line->label, sizeof(line->label), "die %u, %s", die->index, text);
	else if (line && !line->label[0])
		snprintf(line->label, sizeof(line->label), "die %u of view %u", die->index,
			 die->view);
	put(timeline, TIMELINE_DIE_BUDGET, key, 0, item->ts_ns, (double)die->budget_bytes);
}

/* Spreads the stall's time over the bins that it covers. */
static void add_stall(struct timeline *timeline, const struct pn_event *event)
{
	uint64_t from_ns = event->ts_ns - u64_min(event->value, event->ts_ns);
	struct timeline_line *task;

	from_ns = u64_max(from_ns, timeline->start_ns);
	while (from_ns < event->ts_ns) {
		uint64_t left_ns =
			timeline->width_ns - (from_ns - timeline->start_ns) % timeline->width_ns;
		uint64_t to_ns = from_ns + u64_min(left_ns, event->ts_ns - from_ns);

		put(timeline, TIMELINE_CGROUP_STALL, event->cgroup_id, 0, from_ns,
		    (double)(to_ns - from_ns));
		task = put(timeline, TIMELINE_TASK_STALL, event->cgroup_id, event->tid, from_ns,
			   (double)(to_ns - from_ns));
		if (task && !task->rest) {
			char comm[16];

			snprintf(task->label, sizeof(task->label), "%s (%u)",
				 trace_printable(comm, sizeof(comm), event->comm), event->tid);
		}
		from_ns = to_ns;
	}
}

static void add_event(struct timeline *timeline, const struct trace_item *item)
{
	static const enum timeline_lane lanes[PN_EVENT_KIND_COUNT] = {
		[PN_EVENT_STALL] = LANE_COUNT,        [PN_EVENT_STALL_END] = LANE_COUNT,
		[PN_EVENT_RECLAIM] = LANE_RECLAIM,    [PN_EVENT_OOM_KILL] = LANE_OOM_KILL,
		[PN_EVENT_KSWAPD_WAKE] = LANE_KSWAPD, [PN_EVENT_FAULTS] = LANE_FAULTS,
		[PN_EVENT_CUDA_CALL] = LANE_CUDA,     [PN_EVENT_CUDA_EXIT] = LANE_CUDA,
		[PN_EVENT_MEMCG] = LANE_MEMCG,
	};
	const struct pn_event *event = &item->event;
	struct timeline_note *n = NULL;
	char name[32], comm[16];

	reach(timeline, event->ts_ns);
	if (lanes[event->kind] == LANE_COUNT) {
		if (event->value && !(event->flags & PN_EVENT_F_KTHREAD))
			add_stall(timeline, event);
		return;
	}
	put(timeline, TIMELINE_EVENTS, lanes[event->kind], 0, event->ts_ns, 1);
	if (event->kind == PN_EVENT_OOM_KILL)
		n = note(timeline, LANE_OOM_KILL, event->ts_ns);
	if (n)
		snprintf(n->text, sizeof(n->text), "%s (%u) in %.100s is killed",
			 trace_printable(comm, sizeof(comm), event->comm), event->pid,
			 cgroup_name(timeline, event->cgroup_id, name));
}

static void add_verdict(struct timeline *timeline, const struct trace_item *item)
{
	static const enum timeline_lane lanes[] = { LANE_ADMITTED, LANE_CAPPED, LANE_REFUSED };
	const struct trace_verdict *v = &item->verdict;
	struct timeline_note *n = NULL;
	char need[FORMAT_BYTES], have[FORMAT_BYTES], comm[16];

	reach(timeline, item->ts_ns);
	put(timeline, TIMELINE_EVENTS, lanes[v->verdict], 0, item->ts_ns, 1);
	if (v->verdict != PN_VERDICT_ADMIT)
		n = note(timeline, lanes[v->verdict], item->ts_ns);
	if (!n)
		return;
	trace_printable(comm, sizeof(comm), v->comm);
	if (v->check == PN_CHECK_PSI_FULL)
		snprintf(n->text, sizeof(n->text), "%s of %s (%u): PSI full %.2f, limit %.2f",
			 words_ask(v->ask), comm, v->pid, v->psi_full_pct, v->psi_limit_pct);
	else
		snprintf(n->text, sizeof(n->text),
			 "%s of %s (%u): %s, needs %s, has %s above the reserve", words_ask(v->ask),
			 comm, v->pid, words_check(v->check), format_bytes(need, v->need_bytes),
			 format_bytes(have, v->have_bytes));
}

/*
 * The mark of a dump is left out: it comes after all other records and would make the span longer.
 */
static void add_mark(struct timeline *timeline, const struct trace_item *item)
{
	const struct trace_mark *mark = &item->mark;
	struct timeline_note *n;
	char what[100], name[32];
	uint32_t view;
	const char *of_what = item->text;

	if (mark->of == TRACE_MARK_DUMP || mark->of == TRACE_MARK_TASK)
		return;
	reach(timeline, item->ts_ns);
	put(timeline, TIMELINE_EVENTS, LANE_MARK, 0, item->ts_ns, 1);
	n = note(timeline, LANE_MARK, item->ts_ns);
	view = trace_views_place(timeline->views, mark->value);
	if (mark->of == TRACE_MARK_VIEW_END && view != TRACE_VIEW_NONE)
		of_what = trace_views_label(timeline->views, view, name);
	if (n)
		snprintf(n->text, sizeof(n->text), "%s %s", words_mark(mark->of),
			 trace_printable(what, sizeof(what), of_what));
}

void timeline_add(struct timeline *timeline, const struct trace_item *item)
{
	switch (item->kind) {
	case TRACE_EVENT:
		add_event(timeline, item);
		break;
	case TRACE_LOOK:
		add_look(timeline, item);
		break;
	case TRACE_DIE:
		add_die(timeline, item);
		break;
	case TRACE_VERDICT:
		add_verdict(timeline, item);
		break;
	case TRACE_MARK:
		add_mark(timeline, item);
		break;
	case TRACE_DROPS:
		timeline->drops = item->drops;
		break;
	default:
		break;
	}
}
