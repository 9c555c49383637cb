// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Cgroup memory events: reclaim because a group is at its limit, and OOM kills of any cause. A
 * reclaim record only says who; its stall is stall.bpf.c's, and that one wakes the agent.
 */
#include "emit.bpf.h"

SEC("?raw_tp/mm_vmscan_memcg_reclaim_begin")
int memcg_reclaim(void *ctx)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct pn_event_cpu *cpu = cpu_state();
	struct pn_event *event;

	/* A group at its limit reclaims for every 32 pages it charges. */
	if (!cpu || !slot_take(cpu, PN_EVENT_SLOT_RECLAIM, now_ns))
		return 0;
	event = event_reserve(cpu, PN_EVENT_RECLAIM, now_ns);
	if (!event)
		return 0;
	event_set_task(event, (void *)bpf_get_current_task());
	event_submit(event, false);
	return 0;
}

/*
 * The argument is int pid on some kernels and struct task_struct * on others; a pid is below 2^22
 * and a kernel address is not. The classic tracepoint's pid field would hold on both, but it needs
 * a mounted tracefs to attach, and it does not give the victim's process and cgroup.
 */
SEC("?raw_tp/mark_victim")
int oom_mark_victim(__u64 *ctx)
{
	__u64 victim = ctx[0];
	struct pn_event_cpu *cpu = cpu_state();
	struct pn_event *event;

	if (!cpu)
		return 0;
	counter_add(&cpu->oom_kills, 1);
	event = event_reserve(cpu, PN_EVENT_OOM_KILL, bpf_ktime_get_ns());
	if (!event)
		return 0;
	if (victim >> 32) {
		event_set_task(event, (void *)victim);
	} else if (victim == (__u32)bpf_get_current_pid_tgid()) {
		event_set_task(event, (void *)bpf_get_current_task());
	} else {
		event->tid = victim;
		event->pid = victim;
	}
	event_submit(event, true);
	return 0;
}
