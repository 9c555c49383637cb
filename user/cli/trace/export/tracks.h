/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tracks of a trace-event file: the process and thread numbers of cgroups, views and tasks. The
 * name of a number is written when it is first used. Memory is bounded.
 */
#ifndef PNMEM_CLI_TRACE_EXPORT_TRACKS_H
#define PNMEM_CLI_TRACE_EXPORT_TRACKS_H

#include <stdint.h>
#include <stdio.h>

#include "cli/trace/names.h"
#include "cli/trace/views.h"

/*
 * A group of tracks is a "process": the host or a cgroup. Its number, and the numbers of its own
 * tracks, are above every number that a kernel gives to a task (2^22).
 */
#define TRACKS_PID_HOST 0x1000000u

/* The own tracks of a group. The first has the group's number. */
enum tracks_of {
	TRACKS_LEVEL = 0,
	TRACKS_EVENTS = 1,
	TRACKS_VERDICTS = 2,
	TRACKS_OF_COUNT = 3,
};

struct tracks;

/*
 * Writes to out. out, names and views stay the caller's. Returns NULL without memory. Freeing takes
 * NULL.
 */
struct tracks *tracks_new(FILE *out, const struct trace_names *names,
			  const struct trace_views *views);
void tracks_free(struct tracks *tracks);

/*
 * The process number of a cgroup (TRACE_NAME_CGROUP, by its id) or of a view (TRACE_NAME_VIEW, by
 * its place). Both have one number if they have the same path. View 0 is the host.
 */
uint32_t tracks_group(struct tracks *tracks, uint32_t of, uint64_t id);

/* The thread number of a group's own track. */
uint32_t tracks_own(struct tracks *tracks, uint32_t pid, enum tracks_of of);

/* Names the track of a task; comm need not end in NUL. */
void tracks_task(struct tracks *tracks, uint32_t pid, uint32_t tid, const char comm[static 16]);

/* Begins an event in the file. The caller writes the fields and "}". */
void tracks_begin(struct tracks *tracks);

#endif
