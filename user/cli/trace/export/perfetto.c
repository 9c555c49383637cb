/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A trace as trace-event JSON, for the Perfetto UI and chrome://tracing. It is written as the trace
 * is read, so memory is bounded. Events have the file's order, and both viewers sort them. Times
 * are microseconds of CLOCK_MONOTONIC; "otherData" has the clock's date.
 */
#include "cli/trace/export/perfetto.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/format.h"
#include "cli/trace/export/tracks.h"
#include "cli/trace/words.h"
#include "pn_admission.h"
#include "pn_memwatch.h"

#define LEVEL_UNIT "0 OK to 3 CRITICAL"

typedef unsigned long long ull;

/* The level of a view since it last changed. */
struct level_run {
	bool used;
	uint32_t level;
	uint32_t reasons; /* when it began */
	uint64_t since_ns;
	uint64_t seen_ns;
};

struct perfetto {
	FILE *out;
	const struct trace_views *views;
	struct tracks *tracks;
	struct level_run run[TRACE_VIEWS_MAX]; /* by place */
	bool has_vmstat;
	uint64_t vmstat_ns;
	struct trace_vmstat vmstat;
};

struct perfetto *perfetto_new(FILE *out, const struct trace_head *head,
			      const struct trace_names *names, const struct trace_views *views)
{
	struct perfetto *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	fprintf(out, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"agent\":");
	words_json(out, head->agent);
	fprintf(out, ",\"kernel\":");
	words_json(out, head->kernel);
	fprintf(out, ",\"host\":");
	words_json(out, head->host);
	fprintf(out, ",\"monotonic_ns\":\"%llu\",\"realtime_ns\":\"%llu\"},\n\"traceEvents\":[",
		(ull)head->mono_ns, (ull)head->wall_ns);
	p->out = out;
	p->views = views;
	p->tracks = tracks_new(out, names, views);
	if (!p->tracks) {
		perfetto_free(p);
		return NULL;
	}
	return p;
}

void perfetto_free(struct perfetto *p)
{
	if (!p)
		return;
	tracks_free(p->tracks);
	free(p);
}

/* Writes the fields that all events have. The caller writes the others and "}". */
static void begin(struct perfetto *p, const char *phase, uint64_t ts_ns, uint32_t pid, uint32_t tid,
		  const char *name)
{
	tracks_begin(p->tracks);
	fprintf(p->out, "\"ph\":\"%s\",\"ts\":%llu.%03u,\"pid\":%u,\"tid\":%u,\"name\":", phase,
		(ull)(ts_ns / 1000), (unsigned)(ts_ns % 1000), pid, tid);
	words_json(p->out, name);
}

static void counter(struct perfetto *p, uint64_t ts_ns, uint32_t pid, const char *name,
		    const char *unit, double value)
{
	begin(p, "C", ts_ns, pid, pid, name);
	fprintf(p->out, ",\"args\":{\"%s\":%.3f}}", unit, words_finite(value));
}

static void counter_bytes(struct perfetto *p, uint64_t ts_ns, uint32_t pid, const char *name,
			  uint64_t bytes)
{
	counter(p, ts_ns, pid, name, "MiB", (double)bytes / (1 << 20));
}

/* Begins an instant on a track. The caller writes its arguments and "}}". */
static void instant(struct perfetto *p, uint64_t ts_ns, uint32_t pid, uint32_t tid,
		    const char *category, const char *name)
{
	begin(p, "i", ts_ns, pid, tid, name);
	fprintf(p->out, ",\"s\":\"t\",\"cat\":\"%s\",\"args\":{", category);
}

/* ---- levels and counters -------------------------------------------------------------------- */

static void end_run(struct perfetto *p, uint32_t view, uint64_t now_ns)
{
	static const char *const colours[] = { "good", "olive", "bad", "terrible" };
	struct level_run *run = &p->run[view];
	uint32_t pid = tracks_group(p->tracks, TRACE_NAME_VIEW, view);
	uint32_t tid = tracks_own(p->tracks, pid, TRACKS_LEVEL);
	uint64_t dur_ns = now_ns > run->since_ns ? now_ns - run->since_ns : 0;
	char reasons[160];

	begin(p, "X", run->since_ns, pid, tid, pn_mem_level_name((pn_mem_level)run->level));
	fprintf(p->out,
		",\"dur\":%llu.%03u,\"cat\":\"level\",\"cname\":\"%s\",\"args\":{\"reasons\":"
		"\"%s\"}}",
		(ull)(dur_ns / 1000), (unsigned)(dur_ns % 1000), colours[run->level],
		format_reasons(reasons, sizeof(reasons), run->reasons));
}

static void add_level(struct perfetto *p, uint64_t ts_ns, const struct trace_look *look)
{
	struct level_run *run = &p->run[look->view];

	run->seen_ns = ts_ns;
	if (run->used && run->level == look->level)
		return;
	if (run->used)
		end_run(p, look->view, ts_ns);
	*run = (struct level_run){
		.used = true,
		.level = look->level,
		.reasons = look->reasons,
		.since_ns = ts_ns,
		.seen_ns = ts_ns,
	};
}

static void add_look(struct perfetto *p, const struct trace_item *item)
{
	struct trace_look look = item->look;
	uint64_t ts_ns = item->ts_ns;
	uint32_t pid;

	look.view = trace_views_place(p->views, look.view);
	if (look.view == TRACE_VIEW_NONE)
		return;
	pid = tracks_group(p->tracks, TRACE_NAME_VIEW, look.view);
	add_level(p, ts_ns, &look);
	counter(p, ts_ns, pid, "level", LEVEL_UNIT, look.level);
	if (!look.view) {
		counter_bytes(p, ts_ns, pid, "MemAvailable", look.host_avail_bytes);
		counter_bytes(p, ts_ns, pid, "reserve", look.host_reserve_bytes);
		counter(p, ts_ns, pid, "PSI live some", "percent", look.live_psi_some_avg10);
		counter(p, ts_ns, pid, "PSI live full", "percent", look.live_psi_full_avg10);
		counter(p, ts_ns, pid, "PSI file some", "percent", look.host_psi_some_avg10);
		counter(p, ts_ns, pid, "PSI file full", "percent", look.host_psi_full_avg10);
		return;
	}
	counter_bytes(p, ts_ns, pid, "cgroup current", look.cgroup_current_bytes);
	if (look.cgroup_limit_bytes)
		counter_bytes(p, ts_ns, pid, "cgroup headroom", look.cgroup_headroom_bytes);
}

/*
 * A die with a name is on the host's track for all views. A die without a name is on its view's
 * track.
 */
static void add_die(struct perfetto *p, const struct trace_item *item)
{
	const struct trace_die *die = &item->die;
	char name[64];
	uint32_t view;

	view = die->pci[0] ? 0 : trace_views_place(p->views, die->view);
	if (view == TRACE_VIEW_NONE)
		return;
	if (die->pci[0])
		snprintf(name, sizeof(name), "die %s free", die->pci);
	else
		snprintf(name, sizeof(name), "die %u free", die->index);
	counter_bytes(p, item->ts_ns, tracks_group(p->tracks, TRACE_NAME_VIEW, view), name,
		      die->free_bytes);
}

static void add_vmstat(struct perfetto *p, const struct trace_item *item)
{
	const struct trace_vmstat *now = &item->vmstat, *before = &p->vmstat;
	double s;

	if (p->has_vmstat && item->ts_ns > p->vmstat_ns) {
		const struct {
			const char *name;
			const char *unit;
			uint64_t now, before;
		} rates[] = {
			{ "direct reclaim", "scanned pages/s", now->scan_direct_pages,
			  before->scan_direct_pages },
			{ "direct reclaim", "reclaimed pages/s", now->steal_direct_pages,
			  before->steal_direct_pages },
			{ "kswapd", "scanned pages/s", now->scan_kswapd_pages,
			  before->scan_kswapd_pages },
			{ "kswapd", "reclaimed pages/s", now->steal_kswapd_pages,
			  before->steal_kswapd_pages },
			{ "all reclaim", "scanned pages/s", now->scan_all_pages,
			  before->scan_all_pages },
			{ "all reclaim", "reclaimed pages/s", now->steal_all_pages,
			  before->steal_all_pages },
		};

		s = (double)(item->ts_ns - p->vmstat_ns) / 1e9;
		for (unsigned i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
			counter(p, item->ts_ns, TRACKS_PID_HOST, rates[i].name, rates[i].unit,
				rates[i].now > rates[i].before
					? (double)(rates[i].now - rates[i].before) / s
					: 0);
	}
	p->has_vmstat = true;
	p->vmstat_ns = item->ts_ns;
	p->vmstat = *now;
}

/* ---- what tasks did ------------------------------------------------------------------------- */

/*
 * Writes a slice on the task's own track, where stalls follow each other, and an asynchronous slice
 * for the cgroup, where the stalls of its tasks overlap. The record's time is the stall's end.
 */
static void add_stall(struct perfetto *p, const struct pn_event *event, uint32_t pid)
{
	const char *name = event->flags & PN_EVENT_F_KTHREAD ? "reclaim work" : "stall";
	uint64_t dur_ns = event->value < event->ts_ns ? event->value : event->ts_ns;
	uint64_t start_ns = event->ts_ns - dur_ns;

	begin(p, "X", start_ns, pid, event->tid, name);
	fprintf(p->out, ",\"dur\":%llu.%03u,\"cat\":\"stall\",\"args\":{\"pid\":%u,\"cpu\":%u}}",
		(ull)(dur_ns / 1000), (unsigned)(dur_ns % 1000), event->pid, event->cpu);
	for (int end = 0; end < 2; end++) {
		begin(p, end ? "e" : "b", end ? event->ts_ns : start_ns, pid, pid, name);
		fprintf(p->out, ",\"cat\":\"cgroup\",\"id\":\"0x%x%08x\"%s", pid, event->tid,
			end ? "}" : ",\"args\":{\"task\":");
		if (end)
			break;
		words_json(p->out, event->comm);
		fprintf(p->out, ",\"tid\":%u}}", event->tid);
	}
}

static void add_event(struct perfetto *p, const struct trace_item *item)
{
	const struct pn_event *event = &item->event;
	uint32_t pid, tid;
	char what[64];

	pid = event->cgroup_id ? tracks_group(p->tracks, TRACE_NAME_CGROUP, event->cgroup_id)
			       : TRACKS_PID_HOST;
	if (event->tid && event->kind != PN_EVENT_OOM_KILL && event->kind != PN_EVENT_MEMCG &&
	    event->kind != PN_EVENT_KSWAPD_WAKE) {
		tid = event->tid;
		tracks_task(p->tracks, pid, tid, event->comm);
	} else {
		tid = tracks_own(p->tracks, pid, TRACKS_EVENTS);
	}
	if ((event->kind == PN_EVENT_STALL || event->kind == PN_EVENT_STALL_END) && event->value &&
	    event->tid) {
		add_stall(p, event, pid);
		return;
	}
	words_event(what, sizeof(what), event);
	instant(p, event->ts_ns, pid, tid, "event", what);
	if (event->tid) {
		fprintf(p->out, "\"tid\":%u,\"pid\":%u,\"comm\":", event->tid, event->pid);
		words_json(p->out, event->comm);
		putc(',', p->out);
	}
	fprintf(p->out, "\"value\":%llu}}", (ull)event->value);
}

static void add_verdict(struct perfetto *p, const struct trace_item *item)
{
	const struct trace_verdict *v = &item->verdict;
	uint32_t pid, view = trace_views_place(p->views, v->view);
	char name[64];

	if (view == TRACE_VIEW_NONE)
		return;
	pid = tracks_group(p->tracks, TRACE_NAME_VIEW, view);
	snprintf(name, sizeof(name), "%s %s", words_verdict(v->verdict), words_ask(v->ask));
	instant(p, item->ts_ns, pid, tracks_own(p->tracks, pid, TRACKS_VERDICTS), "verdict", name);
	fprintf(p->out,
		"\"because\":\"%s\",\"pid\":%u,\"tokens\":%d,\"fit_tokens\":%d,"
		"\"need_bytes\":%llu,\"have_bytes\":%llu,\"reserve_bytes\":%llu,"
		"\"psi_full_pct\":%.2f,\"psi_limit_pct\":%.2f,\"level\":\"%s\"}}",
		words_check(v->check), v->pid, v->n_tokens, v->fit_tokens, (ull)v->need_bytes,
		(ull)v->have_bytes, (ull)v->reserve_bytes, v->psi_full_pct, v->psi_limit_pct,
		pn_mem_level_name((pn_mem_level)v->level));
}

static void add_mark(struct perfetto *p, const struct trace_item *item)
{
	uint32_t pid = TRACKS_PID_HOST;
	const struct trace_mark *mark = &item->mark;
	uint32_t view;

	view = mark->of == TRACE_MARK_VIEW_END ? trace_views_place(p->views, mark->value)
					       : TRACE_VIEW_NONE;
	if (view && view != TRACE_VIEW_NONE) {
		/* Another view may follow on this track. A counter would keep its last value. */
		if (p->run[view].used)
			end_run(p, view, p->run[view].seen_ns);
		p->run[view].used = false;
		pid = tracks_group(p->tracks, TRACE_NAME_VIEW, view);
		counter(p, item->ts_ns, pid, "level", LEVEL_UNIT, PN_MEM_LEVEL_OK);
		counter_bytes(p, item->ts_ns, pid, "cgroup current", 0);
	}
	instant(p, item->ts_ns, pid, tracks_own(p->tracks, pid, TRACKS_EVENTS), "mark",
		words_mark(mark->of));
	fputs("\"what\":", p->out);
	words_json(p->out, item->text);
	fprintf(p->out, ",\"value\":%llu}}", (ull)mark->value);
}

void perfetto_add(struct perfetto *p, const struct trace_item *item)
{
	switch (item->kind) {
	case TRACE_EVENT:
		add_event(p, item);
		break;
	case TRACE_LOOK:
		add_look(p, item);
		break;
	case TRACE_DIE:
		add_die(p, item);
		break;
	case TRACE_VERDICT:
		add_verdict(p, item);
		break;
	case TRACE_VMSTAT:
		add_vmstat(p, item);
		break;
	case TRACE_MARK:
		add_mark(p, item);
		break;
	default:
		break;
	}
}

void perfetto_finish(struct perfetto *p)
{
	for (uint32_t view = 0; view < trace_views_count(p->views); view++)
		if (p->run[view].used)
			end_run(p, view, p->run[view].seen_ns);
	fputs("\n]}\n", p->out);
}
