/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the finder's children do and say: finder_reader.c and finder_worker.c. Each has its socket
 * as CHILD_FD, procfs as CHILD_KEPT_FD and the program as FINDER_PROGRAM_FD, and nothing else open.
 */
#ifndef PNMEM_AGENT_GPU_FINDER_CHILDREN_H
#define PNMEM_AGENT_GPU_FINDER_CHILDREN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/probe_files.h"
#include "host/cuda_maps.h"

#define FINDER_PROGRAM_FD 5

/* ---- the reader ------------------------------------------------------------------------------ */

#define READER_MAPS_MAX 4 /* files of one process */

/* Where the reader is; shared with the finder, which looks whether it goes on. */
struct reader_place {
	int32_t pid;   /* 0: it has not begun yet */
	uint32_t uid;  /* of that process, once known; else NO_UID */
	uint32_t step; /* counts on */
};

#define NO_UID UINT32_MAX

struct reader_task {
	volatile struct reader_place *place;
	const int32_t *pids; /* only these; NULL: all */
	size_t pid_count;
	bool (*skip)(int pid, uint32_t uid);
};

/* A process that has libcuda mapped; or, with pid 0, the reader's last words. */
struct reader_found {
	int32_t pid;
	uint32_t uid;
	uint32_t count;
	bool skipped; /* of the last words: some processes were left out */
	struct cuda_map map[READER_MAPS_MAX];
};

void finder_reader_run(const struct reader_task *task);

/* ---- the worker ------------------------------------------------------------------------------ */

enum worker_about {
	WORKER_GONE,    /* the file is not there any more */
	WORKER_SAME,    /* it is as it was when it could not be probed */
	WORKER_BAD,     /* it cannot be probed: err */
	WORKER_READY,   /* the calls are in it: the worker waits for a byte before it probes them */
	WORKER_PROBING, /* so many probes are in place */
	WORKER_DONE,    /* likewise, and no more will be; err of one that failed */
};

struct worker_said {
	uint32_t about;
	int32_t err;
	uint32_t probes;
	struct probe_mark mark;
};

void finder_worker_run(const struct probe_file *file);

#endif
