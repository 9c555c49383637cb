/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Remembers the processes at which a reader hung. The finder leaves them out for some rounds, and
 * for more rounds each time they hang again. If a user has many of them, the finder leaves out all
 * processes of that user. Pure; an all-zero table is empty.
 */
#ifndef PNMEM_CORE_FINDER_HUNG_H
#define PNMEM_CORE_FINDER_HUNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FINDER_HUNG_MAX      64
#define FINDER_HUNG_USER_MAX 16

struct finder_hung {
	struct {
		int pid; /* 0: none */
		uint32_t uid;
		uint32_t until_round; /* left out before this one */
		uint32_t times;
	} process[FINDER_HUNG_MAX];
};

/* If there is no room, forgets the process that is due first. */
void finder_hung_add(struct finder_hung *hung, int pid, uint32_t uid, uint32_t round);

/* Returns true if the reader leaves this process out in this round. */
bool finder_hung_has(const struct finder_hung *hung, int pid, uint32_t uid, uint32_t round);

/* The number of processes that are left out. */
size_t finder_hung_count(const struct finder_hung *hung, uint32_t round);

#endif
