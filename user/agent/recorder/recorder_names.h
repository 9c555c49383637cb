/* SPDX-License-Identifier: BSD-2-Clause */
/* The paths of cgroups that trace records name by number. */
#ifndef PNMEM_AGENT_RECORDER_RECORDER_NAMES_H
#define PNMEM_AGENT_RECORDER_RECORDER_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#define RECORDER_NAME_BYTES 512

/* Cgroups whose path has been found: in sets of four, the oldest of a set makes room. */
#define NAMES_SETS 256
#define NAMES_WAYS 4

/* All zero at first. */
struct recorder_names {
	struct {
		uint64_t id[NAMES_WAYS];
		uint8_t next;
	} set[NAMES_SETS];
	uint64_t window_ns; /* they are looked up in /proc, at most so many in a second */
	unsigned window_count;
};

/*
 * The path of the cgroup of process pid, unless it has been found before. True if it is to be
 * recorded.
 */
bool recorder_names_find(struct recorder_names *names, int procfs_fd, uint64_t cgroup_id, int pid,
			 uint64_t now_ns, char ret_path[static RECORDER_NAME_BYTES]);

#endif
