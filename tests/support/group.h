/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory cgroups for tests that need several, or nested ones: a folder in the memory hierarchy
 * and, where that is v1, one of the same name in the v2 hierarchy beside it, which has the
 * pressure files. The load in them is pressure.h's. Needs root. Not thread safe.
 */
#ifndef PNMEM_SUPPORT_GROUP_H
#define PNMEM_SUPPORT_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct group {
	char memory[1024]; /* folder in the memory hierarchy; "": none made */
	char v2[1024];     /* in the v2 hierarchy; "" if that is the same or there is none */
	bool is_v1;
};

/* Is there a memory controller, and of which kind? 0; -ENOENT. */
int group_root(struct group *ret);

/*
 * Makes a group below another one (of group_root: at the top), whose name is made unlike any other
 * test's. 0 or -errno.
 */
int group_create(struct group *ret, const struct group *parent, const char *name);

/* memory.max, or v1's limit; no swap. 0 or -errno. */
int group_set_max(const struct group *group, uint64_t bytes);

/* memory.low; -ENOENT on v1. */
int group_set_low(const struct group *group, uint64_t bytes);

/* memory.high; -ENOENT on v1. */
int group_set_high(const struct group *group, uint64_t bytes);

/* Moves a process (0: the caller) into it. 0 or -errno. */
int group_join(const struct group *group, pid_t pid);

/* Removes it; nothing may be in it but what is ending. Zeroed is allowed. */
void group_destroy(struct group *group);

#endif
