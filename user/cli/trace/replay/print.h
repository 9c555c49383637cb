/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes what pnmem trace replay finds, for people or as JSON: a line or an object wherever a level
 * or a verdict begins or ceases to differ, and a summary at the end.
 */
#ifndef PNMEM_CLI_TRACE_REPLAY_PRINT_H
#define PNMEM_CLI_TRACE_REPLAY_PRINT_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/trace/file.h"
#include "core/replay.h"

struct replay_summary {
	uint64_t start_ns; /* of the first record of a kind that is replayed, or an event */
	uint64_t span_ns;
	uint64_t look_count;
	uint64_t unknown_count; /* of them not replayed: a die not known yet, too many views */
	uint64_t level_ns[4];   /* time at each level, of all views together: as recorded ... */
	uint64_t with_ns[4];    /* ... and as replayed */
	uint64_t differ_ns;     /* of it: at different levels */
	uint64_t change_count;  /* times that a view began to differ */
	uint64_t verdict_count;
	uint64_t verdict_differ_count;
	uint64_t verdict_from_to[3][3]; /* as recorded, as replayed; those that differ */
	uint64_t verdict_unknown_count; /* could not be replayed */
};

struct replay_change {
	uint64_t ts_ns; /* since the start */
	const char *view;
	const struct trace_verdict *verdict; /* NULL: a level */
	const pn_admit_result *result;       /* of the verdict */
	bool estimate;                       /* the result is an estimate */
	bool over;                           /* the level is as recorded again */
	uint32_t level, reasons;             /* as recorded */
	struct replay_level with;
};

/* The same calls for both forms: begin, any number of changes, end. */
void replay_begin(bool json, const char *path, const struct replay_policy *policy);
void replay_change(bool json, const struct replay_change *change);
void replay_end(bool json, const struct replay_summary *summary, enum trace_file_end end);

#endif
