/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gives records of any content to the story of a report. It must keep its bounds, and its numbers
 * must stay in range. The input is records without check words: kind, time, length, payload.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/trace/report/story.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

static void check(const struct story *story)
{
	const struct staller *top[5];
	uint64_t scanned, taken;

	if (story->levels.level > PN_MEM_LEVEL_CRITICAL ||
	    story->levels.worst_level > PN_MEM_LEVEL_CRITICAL ||
	    story->levels.worst_view >= TRACE_VIEWS_MAX || story->refusals.count > REFUSALS_MAX ||
	    story->memory.die_count > MEMORY_DIES ||
	    story->recorded.unknown_count > RECORDED_UNKNOWN ||
	    stallers_top(&story->stallers.tasks, top, 5) > 5)
		abort();
	reclaim_for_limits(&story->reclaim, &scanned, &taken);
	if (durations_percentile_ns(&story->stallers.kthreads, 0.99) >
	    story->stallers.kthreads.longest_ns)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
	const struct trace_head head = { .mono_ns = 1 };
	struct story *story = story_new(&head);
	unsigned char payload[512];
	struct trace_item item;

	while (story && len_bytes >= 4) {
		struct trace_record record = {
			.kind = data[0],
			.ts_ns = (uint64_t)data[1] << (data[2] % 56),
			.payload = payload,
			.payload_bytes = data[3] * 2u,
		};
		size_t there =
			len_bytes - 4 < record.payload_bytes ? len_bytes - 4 : record.payload_bytes;

		memset(payload, 0, sizeof(payload));
		memcpy(payload, data + 4, there);
		if (!trace_decode(&record, &item))
			story_add(story, &item);
		data += 4 + there;
		len_bytes -= 4 + there;
	}
	if (story) {
		story_finish(story);
		check(story);
	}
	story_free(story);
	return 0;
}
