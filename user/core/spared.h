/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host's PSI without what groups stall at their own limits. Pure.
 *
 * A group that is at its own limit (memory.max, memory.high, v1's limit, or an ancestor's) stalls
 * by itself, and the kernel counts that in the host's PSI like any other stall. Such groups are
 * "spared" here, whether or not anybody watches them. All other tasks are "the others". The kernel
 * hooks keep two clocks, and neither counts a moment twice:
 *
 *   any     runs while at least one task of the host stalls
 *   others  runs while at least one task stalls whose group is not spared
 *
 * Between two readings of the host's pressure file, its total= grows by host, and the clocks by
 * any and others. The figure that the others are given grows by
 *
 *   result = max(min(host, others), host - spared * 9/8)     with spared = any - others
 *
 * The first term takes off what cannot be the others': they cannot have stalled for longer than
 * their clock ran. The second term takes off no more than the time in which spared groups alone
 * were seen to stall. It matters where the hooks see less than the kernel counts: the eighth is
 * what they may miss of the spared groups' own stalls.
 *
 * Let true be the part of host that the kernel counted on CPUs where a task of the others stalled:
 * PSI is a mean over the CPUs, with the kernel's weights, of the time in which a CPU is in a state.
 * `some` holds on a CPU while a task stalls there. `full` holds while also no other task runs
 * there; a task of a spared group that runs keeps `full` from holding here, as it does in the
 * kernel's file. Then, for `some` and for `full`, and however the stalls overlap,
 *
 *   true <= result <= host
 *
 * because on each CPU the others stall only while the host does (true <= host), and because a mean
 * over CPUs is no longer than the time in which at least one of them is in the state (true <=
 * others). test_spared.c checks it on generated stalls.
 *
 * The clocks are read a moment after the file: the skew, less than a millisecond. What the others'
 * clock counted in that moment is counted with the next reading, in which the file has it, and the
 * second term leaves as much out. Nothing else is carried from one reading to the next.
 */
#ifndef PNMEM_CORE_SPARED_H
#define PNMEM_CORE_SPARED_H

#include <stdbool.h>
#include <stdint.h>

/* total= of the two lines of a pressure file, or a part of it. */
struct stall_time {
	uint64_t some_us;
	uint64_t full_us;
};

/* One read of the host's pressure file and, after that, of the clocks. Nothing goes back. */
struct spared_reading {
	struct stall_time host;
	uint64_t any_ns;
	uint64_t others_ns;
	uint64_t skew_ns; /* the clocks were read so long after the file, at most */
};

struct spared_psi {
	bool valid;
	struct spared_reading last;
	struct stall_time carry; /* of the others' clock, for the next reading */
	struct stall_time total; /* the result; grows by no more than the host's */
};

/*
 * Adds what the others had since the last reading to psi->total. The first reading gives them all
 * that the host had before. Returns whether anything was taken off.
 */
bool spared_psi_update(struct spared_psi *psi, const struct spared_reading *reading);

/* The same where the hooks' clocks are unknown or do not count: nothing is taken off. */
void spared_psi_follow(struct spared_psi *psi, const struct spared_reading *reading);

/*
 * One spared group's own figure: the others' and its own stalls, and no more than the host's. All
 * three only grow.
 */
struct spared_own {
	struct stall_time host, others, group; /* as of the last update */
	struct stall_time total;
};

void spared_own_update(struct spared_own *own, struct stall_time host, struct stall_time others,
		       struct stall_time group);

#endif
