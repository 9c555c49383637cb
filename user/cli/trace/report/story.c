/* SPDX-License-Identifier: BSD-2-Clause */
/* Gathering what happened in a trace. See story.h. */
#include "cli/trace/report/story.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/u64.h"
#include "pn_admission.h"
#include "pn_memwatch.h"

/* How far back from the worst moment it is told who took memory. */
#define BEFORE_NS 10000000000ull
/* No memory is faster: what is above comes from a file that is not right. */
#define GROWTH_MAX 1e15
#define HISTORY_NS (BEFORE_NS / (STORY_HISTORY - 8))
/* A view that is not published any more has no level; the heartbeat is every 2 s. */
#define VIEW_GONE_NS 10000000000ull

struct story *story_new(const struct trace_head *head)
{
	struct story *story = calloc(1, sizeof(*story));

	if (!story)
		return NULL;
	story->head = *head;
	story->names = trace_names_new();
	story->views = trace_views_new();
	story->view = calloc(TRACE_VIEWS_MAX, sizeof(struct story_view));
	story->policy.recorded = story->policy.with = level_config_default;
	story->tasks.room = STORY_TASKS;
	story->tasks.entry = calloc(STORY_TASKS, sizeof(struct story_staller));
	story->cgroups.room = STORY_CGROUPS;
	story->cgroups.entry = calloc(STORY_CGROUPS, sizeof(struct story_staller));
	if (story->names && story->views && story->view && story->tasks.entry &&
	    story->cgroups.entry)
		return story;
	story_free(story);
	return NULL;
}

void story_free(struct story *story)
{
	if (!story)
		return;
	for (uint32_t i = 0; story->view && story->views && i < trace_views_count(story->views);
	     i++)
		free(story->view[i].history);
	for (unsigned i = 0; i < story->refusal_count; i++)
		free(story->refusal[i].question);
	free(story->view);
	trace_names_free(story->names);
	trace_views_free(story->views);
	free(story->tasks.entry);
	free(story->cgroups.entry);
	free(story);
}

/* ---- events -------------------------------------------------------------------------------------
 */

static void add_stall(struct story *story, const struct pn_event *event)
{
	struct story_staller *task, *cgroup;

	if (!event->value)
		return; /* a begin: its end tells more */
	story->stall_count++;
	if (event->flags & PN_EVENT_F_KTHREAD) {
		story_stalls_add(&story->kthreads, event->value);
		return;
	}
	task = story_table_get(&story->tasks, event->cgroup_id, event->tid);
	if (task) {
		task->pid = event->pid;
		trace_printable(task->comm, sizeof(task->comm), event->comm);
	}
	story_stalls_add(task ? &task->stalls : &story->tasks.rest, event->value);
	cgroup = story_table_get(&story->cgroups, event->cgroup_id, 0);
	story_stalls_add(cgroup ? &cgroup->stalls : &story->cgroups.rest, event->value);
}

static void add_kill(struct story *story, const struct pn_event *event)
{
	struct story_kill *kill = &story->kill[story->kill_count];

	/* Each thread of the victim is marked. */
	for (uint64_t i = 0; i < story->kill_count && i < STORY_KILLS; i++)
		if (story->kill[i].pid == event->pid)
			return;
	if (story->kill_count++ >= STORY_KILLS)
		return;
	kill->ts_ns = event->ts_ns;
	kill->cgroup_id = event->cgroup_id;
	kill->pid = event->pid;
	trace_printable(kill->comm, sizeof(kill->comm), event->comm);
}

static void add_event(struct story *story, const struct trace_item *item)
{
	const struct pn_event *event = &item->event;
	struct story_faulter *fault;

	switch (event->kind) {
	case PN_EVENT_STALL:
	case PN_EVENT_STALL_END:
		add_stall(story, event);
		break;
	case PN_EVENT_OOM_KILL:
		add_kill(story, event);
		break;
	case PN_EVENT_FAULTS:
		fault = &story->fault[story->fault_count++ % STORY_FAULTS];
		fault->ts_ns = event->ts_ns;
		fault->count = event->value;
		fault->cgroup_id = event->cgroup_id;
		fault->tid = event->tid;
		trace_printable(fault->comm, sizeof(fault->comm), event->comm);
		break;
	case PN_EVENT_MEMCG:
		for (int i = 0; i < PN_MEMCG_COUNT; i++)
			story->memcg_count[i] += event->value >> i & 1;
		break;
	case PN_EVENT_CUDA_CALL:
		story->cuda_count++;
		break;
	default:
		break;
	}
}

/* What is kept of a view over time; NULL without memory, and of one that has no place. */
static struct story_history *history_of(struct story *story, uint32_t place)
{
	struct story_view *view;

	if (place == TRACE_VIEW_NONE)
		return NULL;
	view = &story->view[place];
	if (!view->history)
		view->history = calloc(1, sizeof(*view->history));
	return view->history;
}

/* ---- looks --------------------------------------------------------------------------------------
 */

static void keep_history(struct story_history *history, uint64_t ts_ns, uint64_t used_bytes)
{
	unsigned newest = (history->count - 1) % STORY_HISTORY;

	if (history->count && ts_ns - history->sample[newest].ts_ns < HISTORY_NS)
		return;
	newest = history->count++ % STORY_HISTORY;
	history->sample[newest].ts_ns = ts_ns;
	history->sample[newest].used_bytes = used_bytes;
}

/* Bytes a second in the time before, or from the first look in it on. */
static double growth(const struct story_view *view, uint64_t ts_ns)
{
	const struct story_history *history = view->history;
	unsigned kept;

	if (!history)
		return 0;
	kept = history->count < STORY_HISTORY ? history->count : STORY_HISTORY;
	for (unsigned back = kept; back > 0; back--) {
		unsigned i = (history->count - back) % STORY_HISTORY;
		uint64_t age_ns = ts_ns - history->sample[i].ts_ns;

		if (age_ns && age_ns <= BEFORE_NS)
			return fmin(
				((double)view->used_bytes - (double)history->sample[i].used_bytes) /
					((double)age_ns / 1e9),
				GROWTH_MAX);
	}
	return 0;
}

/* The three with most page faults in the time before. */
static void worst_faulters(struct story *story, uint64_t ts_ns)
{
	uint64_t kept = story->fault_count < STORY_FAULTS ? story->fault_count : STORY_FAULTS;
	struct story_faulter sum[STORY_FAULTS];
	unsigned count = 0;

	for (uint64_t i = 0; i < kept; i++) {
		const struct story_faulter *fault = &story->fault[i];
		unsigned at = 0;

		if (ts_ns < fault->ts_ns || ts_ns - fault->ts_ns > BEFORE_NS)
			continue;
		while (at < count && sum[at].tid != fault->tid)
			at++;
		if (at == count)
			sum[count++] = *fault;
		else
			sum[at].count += fault->count;
	}
	memset(story->worst_fault, 0, sizeof(story->worst_fault));
	for (unsigned n = 0; n < 3; n++) {
		unsigned best = 0;

		for (unsigned i = 1; i < count; i++)
			if (sum[i].count > sum[best].count)
				best = i;
		if (!count || !sum[best].count)
			return;
		story->worst_fault[n] = sum[best];
		sum[best].count = 0;
	}
}

static uint64_t used_bytes(const struct trace_look *look)
{
	if (look->view)
		return look->cgroup_current_bytes;
	return look->host_total_bytes > look->host_avail_bytes
		       ? look->host_total_bytes - look->host_avail_bytes
		       : 0;
}

/* The moment that a level was reached which none was above before. */
static void worst_moment(struct story *story, const struct trace_look *look, uint64_t ts_ns)
{
	story->worst_level = look->level;
	story->worst_ns = ts_ns;
	story->worst_view = look->view;
	story->worst_reasons = look->reasons;
	worst_faulters(story, ts_ns);
	for (uint32_t i = 0; i < trace_views_count(story->views); i++) {
		struct story_view *view = &story->view[i];
		bool gone = trace_views_ended(story->views, i) || ts_ns < view->seen_ns ||
			    ts_ns - view->seen_ns > BEFORE_NS;

		view->growth_bytes_per_s = view->used && !gone ? growth(view, ts_ns) : 0;
	}
}

static uint32_t worst_of_views(struct story *story, uint64_t ts_ns)
{
	uint32_t level = 0, kept = 0;

	for (uint32_t i = 0; i < story->raised_count; i++) {
		struct story_view *view = &story->view[story->raised[i]];

		if (ts_ns > view->seen_ns && ts_ns - view->seen_ns > VIEW_GONE_NS)
			view->level = PN_MEM_LEVEL_OK;
		view->raised = view->level > PN_MEM_LEVEL_OK;
		if (!view->raised)
			continue;
		story->raised[kept++] = story->raised[i];
		if (view->level > level)
			level = view->level;
	}
	story->raised_count = kept;
	return level;
}

static void set_level(struct story *story, uint32_t place, uint32_t level)
{
	struct story_view *view = &story->view[place];

	view->level = level;
	if (level == PN_MEM_LEVEL_OK || view->raised)
		return;
	view->raised = true;
	story->raised[story->raised_count++] = place;
}

static void look_host(struct story *story, const struct trace_look *look, uint64_t ts_ns)
{
	double full = fmax(look->host_psi_full_avg10, look->live_psi_full_avg10);
	double some = fmax(look->host_psi_some_avg10, look->live_psi_some_avg10);

	if (!story->has_look)
		story->first_look = *look;
	if (!story->has_look || look->host_avail_bytes < story->least_avail_bytes) {
		story->least_avail_bytes = look->host_avail_bytes;
		story->least_avail_ns = ts_ns;
	}
	story->has_look = true;
	story->total_bytes = look->host_total_bytes;
	story->reserve_bytes = look->host_reserve_bytes;
	story->last_look = *look;
	story->most_some_pct = fmax(story->most_some_pct, some);
	if (full > story->most_full_pct) {
		story->most_full_pct = full;
		story->most_full_ns = ts_ns;
	}
}

/* What lies between goes to the level that was the worst. */
static void pass_time(struct story *story, uint64_t ts_ns)
{
	if (story->look_ns && ts_ns > story->look_ns)
		story->level_ns[story->level] += ts_ns - story->look_ns;
	story->look_ns = u64_max(story->look_ns, ts_ns);
}

static void end_view(struct story *story, uint64_t id, uint64_t ts_ns)
{
	uint32_t place = trace_views_place(story->views, id);

	if (!place || place == TRACE_VIEW_NONE)
		return;
	pass_time(story, ts_ns);
	story->view[place].level = PN_MEM_LEVEL_OK;
	story->level = worst_of_views(story, ts_ns);
}

static void add_look(struct story *story, const struct trace_item *item)
{
	struct story_history *history;
	struct story_view *view;
	struct trace_look look = item->look;
	uint64_t ts_ns = item->ts_ns;

	look.view = trace_views_place(story->views, look.view);
	if (look.view == TRACE_VIEW_NONE)
		return;
	if (!look.view)
		look_host(story, &look, ts_ns);
	view = &story->view[look.view];
	pass_time(story, ts_ns);
	view->used = true;
	view->seen_ns = ts_ns;
	view->used_bytes = used_bytes(&look);
	set_level(story, look.view, look.level);
	if (look.cgroup_limit_bytes)
		view->limit_bytes = look.cgroup_limit_bytes;
	if (look.cgroup_current_bytes > view->peak_bytes) {
		view->peak_bytes = look.cgroup_current_bytes;
		view->peak_ns = ts_ns;
	}
	story->level = worst_of_views(story, ts_ns);
	if (look.level > story->worst_level)
		worst_moment(story, &look, ts_ns);
	history = history_of(story, look.view);
	if (!history)
		return;
	keep_history(history, ts_ns, view->used_bytes);
	replay_see(&history->replay, &look);
	story_release(story, look.view, &history->replay, ts_ns);
}

/* ---- dies, verdicts and the rest ----------------------------------------------------------------
 */

static void add_die(struct story *story, const struct trace_item *item)
{
	const struct trace_die *now = &item->die;
	struct story_history *history;
	struct story_die *die = NULL;

	history = history_of(story, trace_views_place(story->views, now->view));
	if (history)
		replay_die(&history->replay, &story->policy, now);
	if (!now->budget_bytes)
		return;
	for (unsigned i = 0; i < story->die_count && !die; i++)
		if (!memcmp(story->die[i].uuid, now->uuid, sizeof(now->uuid)) &&
		    !memcmp(story->die[i].pci, now->pci, sizeof(now->pci)))
			die = &story->die[i];
	if (!die) {
		if (story->die_count == STORY_DIES)
			return;
		die = &story->die[story->die_count++];
		memcpy(die->uuid, now->uuid, sizeof(die->uuid));
		trace_printable(die->pci, sizeof(die->pci), now->pci);
		die->least_free_bytes = UINT64_MAX;
	}
	if (now->free_bytes < die->least_free_bytes) {
		die->least_free_bytes = now->free_bytes;
		die->least_ns = item->ts_ns;
	}
	die->budget_bytes = now->budget_bytes;
}

static void add_verdict(struct story *story, const struct trace_item *item)
{
	struct story_history *history;
	struct trace_verdict verdict = item->verdict;

	trace_printable(verdict.comm, sizeof(verdict.comm), verdict.comm);
	verdict.view = trace_views_place(story->views, verdict.view);
	story->verdict_count[verdict.verdict]++;
	history = history_of(story, verdict.view);
	story_verdict(story, history ? &history->replay : NULL, item->ts_ns, &verdict);
}

static void add_unknown(struct story *story, const struct trace_item *item)
{
	for (unsigned i = 0; i < story->unknown_count; i++) {
		if (story->unknown[i].kind == item->kind) {
			story->unknown[i].count++;
			return;
		}
	}
	if (story->unknown_count == STORY_UNKNOWN)
		return;
	story->unknown[story->unknown_count].kind = item->kind;
	story->unknown[story->unknown_count++].count = 1;
}

/* Of kinds that are not known here: their first word is the name. */
static void add_schema(struct story *story, const struct trace_item *item)
{
	const struct trace_schema *schema = &item->schema;
	char text[32];

	if (trace_kind_name(schema->kind) || story->unknown_count == STORY_UNKNOWN)
		return;
	trace_printable(text, sizeof(text), item->text);
	text[strcspn(text, " ")] = 0;
	story->unknown[story->unknown_count].kind = schema->kind;
	strcpy(story->unknown[story->unknown_count++].name, text);
}

static void add_vmstat(struct story *story, const struct trace_item *item)
{
	story->last_vmstat = item->vmstat;
	if (!story->vmstat_count++)
		story->first_vmstat = story->last_vmstat;
}

void story_vmstat(const struct story *story, struct trace_vmstat *ret)
{
	const struct trace_vmstat *a = &story->first_vmstat, *b = &story->last_vmstat;

	*ret = (struct trace_vmstat){
		.scan_direct_pages = u64_sub(b->scan_direct_pages, a->scan_direct_pages),
		.steal_direct_pages = u64_sub(b->steal_direct_pages, a->steal_direct_pages),
		.scan_kswapd_pages = u64_sub(b->scan_kswapd_pages, a->scan_kswapd_pages),
		.steal_kswapd_pages = u64_sub(b->steal_kswapd_pages, a->steal_kswapd_pages),
		.scan_all_pages = u64_sub(b->scan_all_pages, a->scan_all_pages),
		.steal_all_pages = u64_sub(b->steal_all_pages, a->steal_all_pages),
	};
}

/* What khugepaged reclaims is in it too: little. */
void story_limit_reclaim(const struct story *story, uint64_t *ret_scanned, uint64_t *ret_taken)
{
	struct trace_vmstat did;

	story_vmstat(story, &did);
	*ret_scanned =
		u64_sub(u64_sub(did.scan_all_pages, did.scan_direct_pages), did.scan_kswapd_pages);
	*ret_taken = u64_sub(u64_sub(did.steal_all_pages, did.steal_direct_pages),
			     did.steal_kswapd_pages);
}

uint64_t story_stall_count(const struct story *story)
{
	return u64_sub(story->last_look.stalls, story->first_look.stalls);
}

uint64_t story_stall_ns(const struct story *story)
{
	return u64_sub(story->last_look.stall_ns, story->first_look.stall_ns);
}

static void add_mark(struct story *story, const struct trace_item *item)
{
	const struct trace_mark *mark = &item->mark;

	switch (mark->of) {
	case TRACE_MARK_DUMP:
		trace_printable(story->why, sizeof(story->why), item->text);
		break;
	case TRACE_MARK_BEGIN:
		trace_printable(story->command, sizeof(story->command), item->text);
		story->command_pid = (uint32_t)mark->value;
		break;
	case TRACE_MARK_EXIT:
		story->command_ended = true;
		story->command_status = (int)mark->value;
		break;
	case TRACE_MARK_TASK:
		if (!story_is_mine(story, (uint32_t)mark->value) && story->mine_count < STORY_MINE)
			story->mine[story->mine_count++] = (uint32_t)mark->value;
		break;
	case TRACE_MARK_VIEW_END:
		end_view(story, mark->value, item->ts_ns);
		break;
	default:
		break;
	}
}

bool story_is_mine(const struct story *story, uint32_t pid)
{
	for (unsigned i = 0; i < story->mine_count; i++)
		if (story->mine[i] == pid)
			return true;
	return false;
}

void story_add(struct story *story, const struct trace_item *item)
{
	story->record_count++;
	trace_views_add(story->views, item);
	switch (item->kind) {
	case TRACE_SCHEMA:
		add_schema(story, item);
		return;
	case TRACE_CONFIG:
		story->has_config = true;
		replay_recorded(&item->config, &story->policy.recorded);
		story->policy.with = story->policy.recorded;
		return;
	case TRACE_NAME:
		trace_names_add(story->names, item);
		return;
	case TRACE_DROPS:
		story->drops = item->drops;
		return;
	case TRACE_MARK:
		add_mark(story, item);
		return;
	case TRACE_END:
		return;
	case TRACE_EVENT:
		add_event(story, item);
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
		add_vmstat(story, item);
		break;
	default:
		add_unknown(story, item);
		return;
	}
	if (!story->first_ns || item->ts_ns < story->first_ns)
		story->first_ns = item->ts_ns;
	if (item->ts_ns > story->last_ns)
		story->last_ns = item->ts_ns;
}

void story_finish(struct story *story)
{
	pass_time(story, story->last_ns);
}
