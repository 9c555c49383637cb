/* SPDX-License-Identifier: BSD-2-Clause */
/* Who stalled, how often and how long: bounded tables with a histogram each. See story.h. */
#include <string.h>

#include "cli/trace/report/story.h"

/* Exact below 8 ns; from there on eight buckets for each power of two. */
static unsigned bucket_of(uint64_t ns)
{
	unsigned power, bucket;

	if (ns < 8)
		return (unsigned)ns;
	power = 63 - (unsigned)__builtin_clzll(ns);
	bucket = (power - 2) * 8 + (unsigned)(ns >> (power - 3) & 7);
	return bucket < STORY_BUCKETS ? bucket : STORY_BUCKETS - 1;
}

/* The largest duration of a bucket. */
static uint64_t bucket_top_ns(unsigned bucket)
{
	unsigned power = bucket / 8 + 2;

	if (bucket < 8)
		return bucket;
	return ((8ull + bucket % 8 + 1) << (power - 3)) - 1;
}

void story_stalls_add(struct story_stalls *stalls, uint64_t ns)
{
	stalls->count++;
	stalls->total_ns += ns;
	stalls->bucket[bucket_of(ns)]++;
	if (ns > stalls->longest_ns)
		stalls->longest_ns = ns;
}

uint64_t story_percentile_ns(const struct story_stalls *stalls, double share)
{
	uint64_t want = (uint64_t)(share * (double)stalls->count), seen = 0;

	for (unsigned i = 0; i < STORY_BUCKETS; i++) {
		seen += stalls->bucket[i];
		if (seen && seen >= want)
			return bucket_top_ns(i) < stalls->longest_ns ? bucket_top_ns(i)
								     : stalls->longest_ns;
	}
	return stalls->longest_ns;
}

struct story_staller *story_table_get(struct story_table *table, uint64_t cgroup_id, uint32_t tid)
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

unsigned story_top(const struct story_table *table, const struct story_staller **ret, unsigned n)
{
	unsigned count = 0;

	for (unsigned i = 0; i < table->room; i++) {
		const struct story_staller *entry = &table->entry[i];
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
