/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pnmemd-find: the child of the agent that finds the libcuda files which processes have in use, and
 * probes them. Reading another process's maps, opening the file that it has mapped and attaching a
 * uprobe can each wait for that process or for its file system, and so for ever. Therefore the
 * finder does none of it either: its own children do, and each has a time limit.
 *
 * A reader goes through the processes. A worker for each file looks at it, and holds its probes for
 * as long as it lives. A child that is past its limit is killed; one that the kernel does not let
 * die is left behind, and counted.
 */
#ifndef PNMEM_AGENT_GPU_FINDER_H
#define PNMEM_AGENT_GPU_FINDER_H

#include <stdint.h>

/* What the agent asks. */
enum finder_kind {
	FINDER_BEGIN,   /* with the program's descriptor, once and first: rounds begin */
	FINDER_PROCESS, /* this process may have just loaded a library; not before FINDER_BEGIN */
};

struct finder_request {
	uint32_t kind;
	int32_t pid;
};

/* What the finder says. */
enum finder_about {
	FINDER_USES,    /* this process has a probed file mapped */
	FINDER_COUNTS,  /* the numbers have changed */
	FINDER_BAD,     /* a file that this process has mapped cannot be probed: err */
	FINDER_SLOW,    /* looking at this process or at its file took longer than the limit */
	FINDER_NO_ROOM, /* a file of this process's user is not probed: others have the places */
};

struct finder_report {
	uint32_t about;
	int32_t pid;
	int32_t err;       /* -errno; -EREMOTE: not on a file system of this machine */
	uint32_t files;    /* that are probed */
	uint32_t probes;   /* in them */
	uint32_t bad;      /* files that are not */
	uint32_t stuck;    /* children that are past their limit and do not end */
	uint32_t left_out; /* processes that are not looked at for now, because a reader hung there
			    */
};

/* The finder's life, as the run of a child_role; CHILD_KEPT_FD is a folder like /proc. */
void finder_run(void);

#endif
