/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory cgroup of a process: where it is mounted, its bytes, and the least headroom among it
 * and its ancestors.
 *
 * Three layouts: unified (v2 at the cgroupfs directory), hybrid (memory on v1 at memory/, v2 at
 * unified/ with nothing but pressure files), v1 alone. Levels and views are left to others.
 */
#ifndef PNMEM_HOST_CGROUP_H
#define PNMEM_HOST_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "host/cgroup_files.h"
#include "host/host_file.h"
#include "host/pressure.h"

/* Groups looked at: the 32 nearest to the process, and the root. Real trees have under ten. */
#define CGROUP_MAX_GROUPS 33

struct cgroup_bytes {
	uint64_t current_bytes;  /* of the own group; 0 if its memory is not accounted by itself */
	uint64_t high_bytes;     /* of the own group, 0: unset; a limit of 0 shows as 1 */
	uint64_t max_bytes;      /* the same */
	uint64_t headroom_bytes; /* UINT64_MAX: no limit on any group */
	uint64_t limit_bytes;    /* the limit that leaves that headroom, 0: none */
	int limit_group;         /* whose limit that is, of cgroup.groups; -1: no one's */
};

/* One group of the memory hierarchy. */
struct cgroup_group {
	int dir_fd;
	uint64_t id;          /* the kernel's: the folder's inode number */
	struct host_file max; /* v1: memory.limit_in_bytes */
	struct host_file high;
	struct host_file current; /* v1: memory.usage_in_bytes */
	struct host_file stat;
};

/* Where the process is in one hierarchy. */
struct cgroup_place {
	char path[PATH_MAX]; /* as /proc/PID/cgroup has it */
	bool found;          /* a group has been there under this very path */
	bool has_usage;      /* the group opened for it had a usage file */
	int err;             /* 0: open; else why it is not */
};

struct cgroup {
	int cgroupfs_fd;            /* the caller's, -1: there is none */
	int proc_fd;                /* /proc/PID: stays this process's when the pid is used again */
	struct host_file proc_file; /* "cgroup" in there */
	uint64_t check_ns;          /* the place is not looked up before this */

	struct cgroup_place memory;
	bool v1; /* the memory hierarchy is v1 */
	int n_groups;
	int limit_group;                               /* as last read, see cgroup_bytes */
	struct cgroup_group groups[CGROUP_MAX_GROUPS]; /* the own one first */

	struct cgroup_place psi;
	int psi_dir_fd;
	uint64_t psi_id; /* as cgroup_group.id; 0: not open */
	struct host_file psi_file;
};

/*
 * Prepares *cg for process pid (0: the caller), which must be there now: a process that takes over
 * its pid later is another one. cgroupfs_fd must stay open for as long as *cg.
 */
void cgroup_init(struct cgroup *cg, int procfs_fd, int cgroupfs_fd, int pid);

/*
 * Looks up where the process is, if a second has passed since the last time, and opens what has
 * changed. The reading functions below do this themselves. The outcome is in memory.err, psi.err.
 */
void cgroup_find(struct cgroup *cg, uint64_t now_ns);

/*
 * From here on the group that the process was found in last is meant, wherever it goes: where that
 * is removed and made again under its name, the new one.
 */
void cgroup_pin(struct cgroup *cg);

/* Is the group with this id the own one or one of its ancestors, as last found? */
bool cgroup_is_within(const struct cgroup *cg, uint64_t id);

/*
 * Reads the bytes. The place of the process is looked up once a second; a process that has moved
 * is followed. Every limit is read on every call; memory.stat only where there is one. A file that
 * was never there counts as "no limit" or "no inactive pages".
 * v1 is taken to be hierarchical (memory.use_hierarchy 1), as every init system sets it.
 * Returns 0; -ENOENT where there is nothing to know (no such hierarchy, v2's root group without
 * limits); -ENODEV if the group was there and is gone; -EBADMSG for text not understood; -errno.
 * *ret is written only on 0.
 */
int cgroup_read_bytes(struct cgroup *cg, uint64_t now_ns, struct cgroup_bytes *ret);

/*
 * Does memory of cg count towards the limit that leaves limited its headroom, as last read? True if
 * cg is in the group that has this limit, or below it.
 */
bool cgroup_counts_within(const struct cgroup *cg, const struct cgroup *limited);

/*
 * True if the tasks counted in the own group's memory.pressure are the tasks that the own group's
 * limits apply to, as last found. On v2 both belong to one group. With memory on v1 they belong to
 * two groups, which managers create under the same name;
 * a process that is in the root of v2 has the whole host's pressure.
 */
bool cgroup_limits_pressure(const struct cgroup *cg);

/* Reads memory.pressure of the own group. Errors as above, and -EOPNOTSUPP: switched off. */
int cgroup_read_pressure(struct cgroup *cg, uint64_t now_ns, struct pressure *ret);

/* Closes every file. */
void cgroup_close(struct cgroup *cg);

#endif
