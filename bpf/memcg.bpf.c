// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Cgroup memory events: what memory.events counts, reclaim because a group is at its limit, and
 * OOM kills of any cause. A reclaim record only says who; its stall is stall.bpf.c's, and that one
 * wakes the agent.
 */
#include "emit.bpf.h"
#include <linux/ptrace.h>
#include <bpf/bpf_tracing.h>

#define EVENTS_FILE  "memory.events.local"
#define MEMCG_URGENT (1 << PN_MEMCG_OOM | 1 << PN_MEMCG_OOM_KILL)

struct memcg_counts {
	__u64 count[PN_MEMCG_COUNT];
};

/*
 * A group's counters as the last record told them, by cgroup id. 4096 groups that are at their
 * limits at one time, about 0.5 MiB; one that is forgotten is told of once more than need be.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct memcg_counts);
} memcg_told SEC(".maps");

__u64 memcg_wake_gap_ns = 1000000; /* set by the agent */
__u64 last_memcg_wake_ns;

/*
 * The kernel calls this after it has counted, for every file that can be polled; of the two that
 * memory events have, only the group's own counts (.local) say whose limit it was. A group at its
 * limit gets thousands of calls a second, and the kernel's timer repeats the last: only counters
 * that have gone up since the last record make one. What the slot leaves out, the next one tells.
 */
static __always_inline int memcg_notify(const struct cgroup_file *file)
{
	__u64 now_ns = bpf_ktime_get_ns(), group_id, what = 0;
	struct pn_event_cpu *cpu = cpu_state();
	const struct mem_cgroup *memcg;
	struct memcg_counts *told, now = {};
	struct pn_event *event;
	char name[sizeof(EVENTS_FILE) + 1] = {};
	bool wake;

	if (!cpu)
		return 0;
	bpf_probe_read_kernel_str(name, sizeof(name), BPF_CORE_READ(file, kn, name));
	for (unsigned int i = 0; i < sizeof(EVENTS_FILE); i++)
		if (name[i] != EVENTS_FILE[i])
			return 0;
	memcg = (const void *)file - bpf_core_field_offset(struct mem_cgroup, events_local_file);
	if (bpf_core_read(&now, sizeof(now), &memcg->memory_events_local))
		return 0;
	group_id = BPF_CORE_READ(memcg, css.cgroup, kn, id);
	told = bpf_map_lookup_elem(&memcg_told, &group_id);
	for (int i = 0; i < PN_MEMCG_COUNT; i++)
		if (now.count[i] > (told ? told->count[i] : 0))
			what |= 1 << i;
	if (!what || (!slot_take(cpu, PN_EVENT_SLOT_MEMCG, now_ns) && !(what & MEMCG_URGENT)))
		return 0;
	bpf_map_update_elem(&memcg_told, &group_id, &now, BPF_ANY);
	wake = what & MEMCG_URGENT ||
	       (__s64)(now_ns - last_memcg_wake_ns) >= (__s64)memcg_wake_gap_ns;
	if (wake)
		last_memcg_wake_ns = now_ns;

	event = event_reserve(cpu, PN_EVENT_MEMCG, now_ns);
	if (!event)
		return 0;
	event->value = what;
	event_set_task(event, (void *)bpf_get_current_task());
	if (event->cgroup_id != group_id) {
		event->tid = event->pid = 0;
		__builtin_memset(event->comm, 0, sizeof(event->comm));
		event->cgroup_id = group_id;
	}
	event_submit(event, wake);
	return 0;
}

SEC("?fentry/cgroup_file_notify")
int memcg_fentry_notify(__u64 *ctx)
{
	return memcg_notify((void *)ctx[0]);
}

SEC("?kprobe/cgroup_file_notify")
int memcg_kprobe_notify(struct pt_regs *ctx)
{
	return memcg_notify((void *)PT_REGS_PARM1(ctx));
}

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
