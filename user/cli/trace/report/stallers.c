/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables of stalls. See stallers.h. */
#include "cli/trace/report/stallers.h"

#include <stdlib.h>
#include <string.h>

#include "cli/trace/names.h"
#include "core/u64.h"

#define TASKS   4096 /* powers of two */
#define CGROUPS 1024

static bool table_open(struct staller_table *table, unsigned room)
{
	table->room = room;
	table->entry = calloc(room, sizeof(table->entry[0]));
	return table->entry;
}

bool stallers_open(struct stallers *stallers)
{
	return table_open(&stallers->tasks, TASKS) && table_open(&stallers->cgroups, CGROUPS);
}

void stallers_close(struct stallers *stallers)
{
	free(stallers->tasks.entry);
	free(stallers->cgroups.entry);
}

/* Exact below 8 ns; from there on eight buckets for each power of two. */
static unsigned bucket_of(uint64_t ns)
{
	unsigned power, bucket;

	if (ns < 8)
		return (unsigned)ns;
	power = 63 - (unsigned)__builtin_clzll(ns);
	bucket = (power - 2) * 8 + (unsigned)(ns >> (power - 3) & 7);
	return bucket < DURATION_BUCKETS ? bucket : DURATION_BUCKETS - 1;
}

/* The largest duration of a bucket. */
static uint64_t bucket_top_ns(unsigned bucket)
{
	unsigned power = bucket / 8 + 2;

	if (bucket < 8)
		return bucket;
	return ((8ull + bucket % 8 + 1) << (power - 3)) - 1;
}

static void durations_add(struct durations *durations, uint64_t ns)
{
	durations->count++;
	durations->total_ns += ns;
	durations->bucket[bucket_of(ns)]++;
	if (ns > durations->longest_ns)
		durations->longest_ns = ns;
}

uint64_t durations_percentile_ns(const struct durations *durations, double share)
{
	uint64_t want = (uint64_t)(share * (double)durations->count), seen = 0;

	for (unsigned i = 0; i < DURATION_BUCKETS; i++) {
		seen += durations->bucket[i];
		if (seen && seen >= want)
			return bucket_top_ns(i) < durations->longest_ns ? bucket_top_ns(i)
									: durations->longest_ns;
	}
	return durations->longest_ns;
}

/* The entry of a task or, with tid 0, a cgroup; NULL if there is no room. */
static struct staller *table_get(struct staller_table *table, uint64_t cgroup_id, uint32_t tid)
{
	uint64_t key = tid ? tid : cgroup_id;
	unsigned i = (key * 0x9e3779b97f4a7c15ull >> 32) % table->room;

	/* Never full, so there is an end. */
	while (table->entry[i].used) {
		if (table->entry[i].cgroup_id == cgroup_id && table->entry[i].tid == tid)
			return &table->entry[i];
		i = (i + 1) % table->room;
	}
	if (table->count >= table->room / 4 * 3)
		return NULL;
	table->count++;
	table->entry[i].used = true;
	table->entry[i].cgroup_id = cgroup_id;
	table->entry[i].tid = tid;
	return &table->entry[i];
}

unsigned stallers_top(const struct staller_table *table, const struct staller **ret, unsigned n)
{
	unsigned count = 0;

	for (unsigned i = 0; i < table->room; i++) {
		const struct staller *entry = &table->entry[i];
		unsigned at;

		if (!entry->used || !entry->stalls.count)
			continue;
		for (at = count; at > 0; at--)
			if (ret[at - 1]->stalls.total_ns >= entry->stalls.total_ns)
				break;
		if (at >= n)
			continue;
		if (count < n)
			count++;
		for (unsigned j = count - 1; j > at; j--)
			ret[j] = ret[j - 1];
		ret[at] = entry;
	}
	return count;
}

void stallers_add(struct stallers *stallers, const struct pn_event *event)
{
	struct staller *task, *cgroup;

	if (!event->value)
		return; /* it begins: the record of its end has the duration */
	stallers->recorded_count++;
	if (event->flags & PN_EVENT_F_KTHREAD) {
		durations_add(&stallers->kthreads, event->value);
		return;
	}
	task = table_get(&stallers->tasks, event->cgroup_id, event->tid);
	if (task) {
		task->pid = event->pid;
		trace_printable(task->comm, sizeof(task->comm), event->comm);
	}
	durations_add(task ? &task->stalls : &stallers->tasks.rest, event->value);
	cgroup = table_get(&stallers->cgroups, event->cgroup_id, 0);
	durations_add(cgroup ? &cgroup->stalls : &stallers->cgroups.rest, event->value);
}

void stallers_look(struct stallers *stallers, const struct trace_look *look)
{
	if (!stallers->has_look) {
		stallers->first_count = look->stalls;
		stallers->first_ns = look->stall_ns;
	}
	stallers->has_look = true;
	stallers->last_count = look->stalls;
	stallers->last_ns = look->stall_ns;
}

uint64_t stallers_count(const struct stallers *stallers)
{
	return u64_sub(stallers->last_count, stallers->first_count);
}

uint64_t stallers_ns(const struct stallers *stallers)
{
	return u64_sub(stallers->last_ns, stallers->first_ns);
}
