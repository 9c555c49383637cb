// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Processes that move to another cgroup are counted, in any hierarchy. No record is made: the agent
 * looks its clients up when the number has changed.
 */
#include "emit.bpf.h"

__u64 moves;

/* struct cgroup *to, const char *path, struct task_struct *task, bool threadgroup */
SEC("?raw_tp/cgroup_attach_task")
int moves_attach_task(void *ctx)
{
	counter_add(&moves, 1);
	return 0;
}
