/* SPDX-License-Identifier: BSD-2-Clause */
/* OOM kills. See kills.h. */
#include "cli/trace/report/kills.h"

#include "cli/trace/names.h"

void kills_add(struct kills *kills, const struct pn_event *event)
{
	struct kill *kill = &kills->kill[kills->count];

	/* The kernel marks each thread of the victim. */
	for (uint64_t i = 0; i < kills->count && i < KILLS_MAX; i++)
		if (kills->kill[i].pid == event->pid)
			return;
	if (kills->count++ >= KILLS_MAX)
		return;
	kill->ts_ns = event->ts_ns;
	kill->cgroup_id = event->cgroup_id;
	kill->pid = event->pid;
	trace_printable(kill->comm, sizeof(kill->comm), event->comm);
}
