/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What eats the whole machine's memory until the OOM killer ends it. Only for a machine that is
 * ours alone, without swap. All of it are children that die with their parent.
 */
#ifndef PNMEM_SUPPORT_EATER_H
#define PNMEM_SUPPORT_EATER_H

#include <stdint.h>
#include <sys/types.h>

/* In memory that parent and eater share. */
struct eater {
	uint64_t line_bytes; /* set by the parent */
	/*
	 * When the eater began to read the first MemAvailable that was not above the line; 0 before
	 */
	_Atomic uint64_t crossed_ns;
};

/* Takes page after page until it is killed. Its pid or -errno. */
pid_t eater_start(struct eater *eater);

/* Takes take_bytes, and keeps them when this returns: pid or -errno. For a crowd of small ones. */
pid_t eater_start_small(size_t take_bytes);

/* Resident bytes of a process and its major faults so far; 0 or -errno. */
int process_memory(pid_t pid, uint64_t *ret_resident_bytes, uint64_t *ret_major_faults);

#endif
