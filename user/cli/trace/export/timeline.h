/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A trace as lines over time, gathered record by record in a bounded amount of memory. The span is
 * cut into at most TIMELINE_BINS bins of equal width. When a record lies beyond the last bin, the
 * width doubles and each pair of neighbours becomes one bin. A bin keeps the worst value of a line,
 * so that no spike is lost, and the last value, which holds until the next record.
 */
#ifndef PNMEM_CLI_TRACE_EXPORT_TIMELINE_H
#define PNMEM_CLI_TRACE_EXPORT_TIMELINE_H

#include <stdbool.h>

#include "cli/trace/names.h"
#include "cli/trace/views.h"
#include "core/trace_decode.h"

#define TIMELINE_BINS 4096

/* What a line shows. Its key has two numbers more, which say whose values these are. */
enum timeline_of {
	TIMELINE_LEVEL = 0,         /* of a view, by the first place of its path: 0..3 */
	TIMELINE_AVAILABLE = 1,     /* of the host, bytes */
	TIMELINE_RESERVE = 2,       /* bytes */
	TIMELINE_PSI_SOME = 3,      /* percent, the larger of file and live: what the level sees */
	TIMELINE_PSI_FULL = 4,      /* likewise */
	TIMELINE_CURRENT = 5,       /* of a view's cgroup, bytes */
	TIMELINE_LIMIT = 6,         /* bytes */
	TIMELINE_DIE_FREE = 7,      /* of a die: view and index, bytes */
	TIMELINE_DIE_BUDGET = 8,    /* bytes */
	TIMELINE_EVENTS = 9,        /* of a kind, enum timeline_lane: how many */
	TIMELINE_CGROUP_STALL = 10, /* of a cgroup id: ns that its tasks stalled */
	TIMELINE_TASK_STALL = 11,   /* of a cgroup id and tid: likewise */
	TIMELINE_OF_COUNT = 12,
};

/* Kinds of events, in the order in which they are shown. */
enum timeline_lane {
	LANE_OOM_KILL = 0,
	LANE_REFUSED = 1,
	LANE_CAPPED = 2,
	LANE_ADMITTED = 3,
	LANE_MEMCG = 4,
	LANE_RECLAIM = 5,
	LANE_KSWAPD = 6,
	LANE_FAULTS = 7,
	LANE_CUDA = 8,
	LANE_MARK = 9,
	LANE_COUNT = 10,
};

/* A line. A bin without a value is NaN. */
struct timeline_line {
	enum timeline_of of;
	bool rest; /* the sum of the lines for which there was no room */
	uint64_t a, b;
	double total;   /* of what adds up: events, stalls */
	char label[64]; /* a task's or die's; "" for others */
	float *worst;
	float *last; /* NULL for what adds up */
};

/* A moment that the page describes in words. */
struct timeline_note {
	uint64_t ts_ns;
	enum timeline_lane lane; /* LANE_COUNT: a change of level */
	char text[200];
};

#define TIMELINE_LINES 1024 /* a power of two */
#define TIMELINE_NOTES 250  /* of each lane, and of changes of level; the others are counted */

struct timeline {
	const struct trace_names *names;
	const struct trace_views *views;
	struct trace_head head;
	bool any;
	uint64_t start_ns, last_ns, width_ns;
	unsigned line_count;
	uint16_t line_slot[4 * TIMELINE_LINES]; /* by a hash of the key: a line's place, plus one */
	unsigned count_of[TIMELINE_OF_COUNT];
	struct timeline_line line[TIMELINE_LINES];
	unsigned note_count;
	struct timeline_note note[TIMELINE_NOTES * (LANE_COUNT + 1)];
	uint64_t noted[LANE_COUNT + 1];  /* moments that there were */
	uint32_t level[TRACE_VIEWS_MAX]; /* by place, plus one; 0: not seen yet */
	struct trace_drops drops;
	bool no_memory; /* a line is missing */
};

/*
 * names and views stay the caller's. Before a record is added here, it is added to them. Returns
 * NULL without memory.
 */
struct timeline *timeline_new(const struct trace_head *head, const struct trace_names *names,
			      const struct trace_views *views);
void timeline_free(struct timeline *timeline);

void timeline_add(struct timeline *timeline, const struct trace_item *item);

/* Bins in use. */
unsigned timeline_bins(const struct timeline *timeline);

/*
 * Fills timeline_bins() bins of a line. A value holds until the next one; a line that adds up is 0
 * where nothing happened. A bin is NaN before the first value, and from some seconds after the last
 * look on.
 */
void timeline_fill(const struct timeline *timeline, const struct timeline_line *line,
		   float ret[static TIMELINE_BINS]);

#endif
