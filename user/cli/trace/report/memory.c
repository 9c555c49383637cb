/* SPDX-License-Identifier: BSD-2-Clause */
/* Peaks, growth and page faults. See memory.h. */
#include "cli/trace/report/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace/names.h"

/* The report says what took memory in this time before the worst moment. */
#define BEFORE_NS 10000000000ull
/* No memory is faster: a larger number comes from a file that is not right. */
#define GROWTH_MAX 1e15
/* Samples of a view, far enough apart to cover that time. */
#define HISTORY_SAMPLES 64
#define HISTORY_NS      (BEFORE_NS / (HISTORY_SAMPLES - 8))

struct memory_history {
	struct {
		uint64_t ts_ns;
		uint64_t used_bytes;
	} sample[HISTORY_SAMPLES];
	unsigned count;
};

static void keep_history(struct memory_history *history, uint64_t ts_ns, uint64_t used_bytes)
{
	unsigned newest = (history->count - 1) % HISTORY_SAMPLES;

	if (history->count && ts_ns - history->sample[newest].ts_ns < HISTORY_NS)
		return;
	newest = history->count++ % HISTORY_SAMPLES;
	history->sample[newest].ts_ns = ts_ns;
	history->sample[newest].used_bytes = used_bytes;
}

/* Bytes a second in the time before, or since the first look in that time. */
static double growth(const struct memory_view *view, uint64_t ts_ns)
{
	const struct memory_history *history = view->history;
	unsigned kept;

	if (!history)
		return 0;
	kept = history->count < HISTORY_SAMPLES ? history->count : HISTORY_SAMPLES;
	for (unsigned back = kept; back > 0; back--) {
		unsigned i = (history->count - back) % HISTORY_SAMPLES;
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
static void worst_faulters(struct memory *memory, uint64_t ts_ns)
{
	uint64_t kept = memory->fault_count < MEMORY_FAULTS ? memory->fault_count : MEMORY_FAULTS;
	struct memory_faulter sum[MEMORY_FAULTS];
	unsigned count = 0;

	for (uint64_t i = 0; i < kept; i++) {
		const struct memory_faulter *fault = &memory->fault[i];
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
	memset(memory->worst_fault, 0, sizeof(memory->worst_fault));
	for (unsigned n = 0; n < MEMORY_WORST; n++) {
		unsigned best = 0;

		for (unsigned i = 1; i < count; i++)
			if (sum[i].count > sum[best].count)
				best = i;
		if (!count || !sum[best].count)
			return;
		memory->worst_fault[n] = sum[best];
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

static void look_host(struct memory *memory, const struct trace_look *look, uint64_t ts_ns)
{
	double full = fmax(look->host_psi_full_avg10, look->live_psi_full_avg10);
	double some = fmax(look->host_psi_some_avg10, look->live_psi_some_avg10);

	if (!memory->has_look || look->host_avail_bytes < memory->least_avail_bytes) {
		memory->least_avail_bytes = look->host_avail_bytes;
		memory->least_avail_ns = ts_ns;
	}
	memory->has_look = true;
	memory->total_bytes = look->host_total_bytes;
	memory->reserve_bytes = look->host_reserve_bytes;
	memory->most_some_pct = fmax(memory->most_some_pct, some);
	if (full > memory->most_full_pct) {
		memory->most_full_pct = full;
		memory->most_full_ns = ts_ns;
	}
}

void memory_look(struct memory *memory, const struct trace_look *look, uint64_t ts_ns)
{
	struct memory_view *view = &memory->view[look->view];

	if (!look->view)
		look_host(memory, look, ts_ns);
	view->used = true;
	view->seen_ns = ts_ns;
	view->used_bytes = used_bytes(look);
	if (look->cgroup_limit_bytes)
		view->limit_bytes = look->cgroup_limit_bytes;
	if (look->cgroup_current_bytes > view->peak_bytes) {
		view->peak_bytes = look->cgroup_current_bytes;
		view->peak_ns = ts_ns;
	}
	if (!view->history)
		view->history = calloc(1, sizeof(*view->history));
	if (view->history)
		keep_history(view->history, ts_ns, view->used_bytes);
}

void memory_worst_moment(struct memory *memory, const struct trace_views *views, uint64_t ts_ns)
{
	worst_faulters(memory, ts_ns);
	for (uint32_t i = 0; i < trace_views_count(views); i++) {
		struct memory_view *view = &memory->view[i];
		bool gone = trace_views_ended(views, i) || ts_ns < view->seen_ns ||
			    ts_ns - view->seen_ns > BEFORE_NS;

		view->growth_bytes_per_s = view->used && !gone ? growth(view, ts_ns) : 0;
	}
}

void memory_faults(struct memory *memory, const struct pn_event *event)
{
	struct memory_faulter *fault = &memory->fault[memory->fault_count++ % MEMORY_FAULTS];

	fault->ts_ns = event->ts_ns;
	fault->count = event->value;
	fault->cgroup_id = event->cgroup_id;
	fault->tid = event->tid;
	trace_printable(fault->comm, sizeof(fault->comm), event->comm);
}

/* The entry of a die, by its names; NULL if there is no room. */
static struct memory_die *die_get(struct memory *memory, const struct trace_die *now)
{
	struct memory_die *die;

	for (unsigned i = 0; i < memory->die_count; i++)
		if (!memcmp(memory->die[i].uuid, now->uuid, sizeof(now->uuid)) &&
		    !memcmp(memory->die[i].pci, now->pci, sizeof(now->pci)))
			return &memory->die[i];
	if (memory->die_count == MEMORY_DIES)
		return NULL;
	die = &memory->die[memory->die_count++];
	memcpy(die->uuid, now->uuid, sizeof(die->uuid));
	trace_printable(die->pci, sizeof(die->pci), now->pci);
	die->least_free_bytes = UINT64_MAX;
	return die;
}

void memory_die(struct memory *memory, const struct trace_die *now, uint64_t ts_ns)
{
	struct memory_die *die = now->budget_bytes ? die_get(memory, now) : NULL;

	if (!die)
		return;
	if (now->free_bytes < die->least_free_bytes) {
		die->least_free_bytes = now->free_bytes;
		die->least_ns = ts_ns;
	}
	die->budget_bytes = now->budget_bytes;
}

void memory_close(struct memory *memory)
{
	for (uint32_t i = 0; i < TRACE_VIEWS_MAX; i++)
		free(memory->view[i].history);
}
