/* SPDX-License-Identifier: BSD-2-Clause */
/* Levels over time. See levels.h. */
#include "cli/trace/report/levels.h"

#include "core/u64.h"

/* The agent looks at a view every 2 s at least. A view without a look for so long has no level. */
#define VIEW_GONE_NS 10000000000ull

static uint32_t worst_of_views(struct levels *levels, uint64_t ts_ns)
{
	uint32_t level = 0, kept = 0;

	for (uint32_t i = 0; i < levels->raised_count; i++) {
		uint32_t place = levels->raised[i];

		if (ts_ns > levels->view[place].seen_ns &&
		    ts_ns - levels->view[place].seen_ns > VIEW_GONE_NS)
			levels->view[place].level = PN_MEM_LEVEL_OK;
		levels->view[place].raised = levels->view[place].level > PN_MEM_LEVEL_OK;
		if (!levels->view[place].raised)
			continue;
		levels->raised[kept++] = place;
		if (levels->view[place].level > level)
			level = levels->view[place].level;
	}
	levels->raised_count = kept;
	return level;
}

static void set_level(struct levels *levels, uint32_t place, uint32_t level)
{
	levels->view[place].level = level;
	if (level == PN_MEM_LEVEL_OK || levels->view[place].raised)
		return;
	levels->view[place].raised = true;
	levels->raised[levels->raised_count++] = place;
}

void levels_pass(struct levels *levels, uint64_t ts_ns)
{
	if (levels->look_ns && ts_ns > levels->look_ns)
		levels->level_ns[levels->level] += ts_ns - levels->look_ns;
	levels->look_ns = u64_max(levels->look_ns, ts_ns);
}

void levels_end_view(struct levels *levels, uint32_t place, uint64_t ts_ns)
{
	levels_pass(levels, ts_ns);
	levels->view[place].level = PN_MEM_LEVEL_OK;
	levels->level = worst_of_views(levels, ts_ns);
}

bool levels_look(struct levels *levels, const struct trace_look *look, uint64_t ts_ns)
{
	levels_pass(levels, ts_ns);
	levels->view[look->view].seen_ns = ts_ns;
	set_level(levels, look->view, look->level);
	levels->level = worst_of_views(levels, ts_ns);
	if (look->level <= levels->worst_level)
		return false;
	levels->worst_level = look->level;
	levels->worst_ns = ts_ns;
	levels->worst_view = look->view;
	levels->worst_reasons = look->reasons;
	return true;
}
