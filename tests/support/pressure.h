/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Real memory pressure for tests, kept inside a small memory cgroup of its own, so that the
 * machine and its other users feel nothing. Works with the memory controller on cgroup v1 and v2.
 * Needs root. Not thread safe.
 */
#ifndef PNMEM_SUPPORT_PRESSURE_H
#define PNMEM_SUPPORT_PRESSURE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct pressure_group {
	char path[256]; /* folder of the group */
	int file_fd;    /* what the readers read; unlinked; -1 until there is one */
	bool is_v1;
	size_t limit_bytes;
	unsigned pass_gap_us; /* readers started from now on sleep so long after each pass */
};

/*
 * Makes a group limited to limit_bytes, without swap. Returns 0; -ENOENT if no memory controller
 * is mounted; -EACCES or -EPERM without the rights; another -errno. Free with
 * pressure_group_destroy.
 */
int pressure_group_create(struct pressure_group *group, size_t limit_bytes);

/* Removes the group and its file; kill its processes first. NULL and zeroed are allowed. */
void pressure_group_destroy(struct pressure_group *group);

/* No group: the readers put the whole machine under pressure. For a machine that is ours alone. */
void pressure_group_none(struct pressure_group *group);

/*
 * Starts a process that takes all available memory but leave_bytes, and returns when it has: its
 * pid or -errno; end it with pressure_stop. As above: for a machine that is ours alone.
 */
pid_t pressure_start_hog(size_t leave_bytes);

/* Moves the calling process into the group. Returns 0 or -errno. */
int pressure_group_join(const struct pressure_group *group);

/*
 * Starts a process in the group that reads a file of file_bytes over and over by mmap: with more
 * bytes than the limit it stalls for as long as it runs. The file is made in $TMPDIR or /var/tmp,
 * which must lie on a disk (tmpfs pages cannot be dropped). The child dies with its parent.
 * Returns its pid or -errno; end it with pressure_stop.
 */
pid_t pressure_start_reader(struct pressure_group *group, size_t file_bytes);

/* Sets memory.high of a group on cgroup v2. 0 or -errno (-EACCES: v1 has none). */
int pressure_group_set_high(const struct pressure_group *group, size_t high_bytes);

/*
 * Starts a process in the group that touches take_bytes of its own and then waits. Above the
 * group's memory.high, without swap, it is made to sleep for most of the time. Its pid or -errno.
 */
pid_t pressure_start_anon(const struct pressure_group *group, size_t take_bytes);

/*
 * Agents that start from now on find the host's bytes short: the level is WATCH by them
 * (PN_HOST_RESERVE_BYTES). Only then does a group's pressure at its own limit count for others.
 */
void pressure_make_bytes_short(void);

/* Kills a child and waits for it. */
void pressure_stop(pid_t pid);

/*
 * Runs a process in the group that touches twice the limit, and waits until the OOM killer has
 * ended it. Returns the pid it had; -ECHILD if it ended in any other way; another -errno.
 */
pid_t pressure_oom(const struct pressure_group *group);

#endif
