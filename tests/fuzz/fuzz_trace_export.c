/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gives records of any content to the exports and the replay. They must keep their bounds, and a
 * level must be a level. The input is records without check words, as that of fuzz_trace_story.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace/export/html.h"
#include "cli/trace/export/perfetto.h"
#include "cli/trace/export/timeline.h"
#include "core/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

static struct replay_view view;

static void replay(const struct trace_item *item)
{
	static const struct replay_policy policy = {
		.recorded = { .hold_ns = 1000, .psi_full_reject_pct = 15, .cgroup_level = true },
		.with = { .hold_ns = 9, .psi_full_reject_pct = 3, .die_reserve_bytes = 1 << 20 },
		.given = 0x1f,
	};
	struct replay_level level;
	pn_admit_result result;

	if (item->kind == TRACE_DIE)
		replay_die(&view, &policy, &item->die);
	if (item->kind == TRACE_LOOK) {
		replay_look(&view, &policy, item->ts_ns, &item->look, &level);
		if (level.replayed && (unsigned)level.level > PN_MEM_LEVEL_CRITICAL)
			abort();
	}
	if (item->kind == TRACE_VERDICT &&
	    replay_verdict(&view, &policy, &item->verdict, &result) >= 0 &&
	    (unsigned)result.verdict > PN_VERDICT_REJECT)
		abort();
}

static void check(const struct timeline *timeline)
{
	static float bins[TIMELINE_BINS];

	if (timeline_bins(timeline) > TIMELINE_BINS)
		abort();
	for (unsigned i = 0; i < timeline->line_count; i++) {
		timeline_fill(timeline, &timeline->line[i], bins);
		for (unsigned bin = 0; bin < timeline_bins(timeline); bin++)
			if (timeline->line[i].of == TIMELINE_EVENTS && isnan(bins[bin]))
				abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
	const struct trace_head head = { .mono_ns = 1 };
	struct trace_names *names = trace_names_new();
	struct trace_views *views = trace_views_new();
	struct timeline *timeline = timeline_new(&head, names, views);
	FILE *out = fopen("/dev/null", "we");
	struct perfetto *perfetto = perfetto_new(out, &head, names, views);
	unsigned char payload[512];
	struct trace_item item;

	memset(&view, 0, sizeof(view));
	while (len_bytes >= 4) {
		struct trace_record record = {
			.kind = data[0],
			.ts_ns = (uint64_t)data[1] << (data[2] % 57),
			.payload = payload,
			.payload_bytes = data[3] * 2u,
		};
		size_t there =
			len_bytes - 4 < record.payload_bytes ? len_bytes - 4 : record.payload_bytes;

		memset(payload, 0, sizeof(payload));
		memcpy(payload, data + 4, there);
		data += 4 + there;
		len_bytes -= 4 + there;
		if (trace_decode(&record, &item))
			continue;
		trace_names_add(names, &item);
		trace_views_add(views, &item);
		timeline_add(timeline, &item);
		perfetto_add(perfetto, &item);
		replay(&item);
	}
	check(timeline);
	html_write(out, timeline, "whole");
	perfetto_finish(perfetto);
	fclose(out);
	perfetto_free(perfetto);
	timeline_free(timeline);
	trace_names_free(names);
	trace_views_free(views);
	return 0;
}
