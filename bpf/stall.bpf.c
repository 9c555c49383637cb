// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Memory stalls of tasks: who, since when, how many at this moment, and their summed time. Three
 * rungs feed the same bookkeeping, and hooks.c attaches one of them:
 *
 *   fentry/fexit, or kprobe/kretprobe, on psi_memstall_enter and _leave: the kernel's own stall
 *   tracepoints: a task that is off the CPU while PSI counts it as stalled, and the reclaim and
 *     compaction that a task does itself. This misses a stalled task's other time on the CPU, and
 *     it counts reclaim that PSI does not (proactive, by memory.reclaim).
 *
 * sched_switch runs under a run-queue lock: one bit is tested before anything else is touched.
 */
#include "emit.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL"; /* of the linked object */

#define QUIET_NS 100000000ll /* no stall for this long: the next one is a first */

/* Why a task is in the table; it is stalled while any of these lasts. */
enum reason {
	REASON_MEMSTALL = 1 << 0, /* between psi_memstall_enter and _leave */
	REASON_OFF_CPU = 1 << 1,  /* switched out inside of that */
	REASON_DIRECT = 1 << 2,   /* direct reclaim */
	REASON_MEMCG = 1 << 3,    /* reclaim for a cgroup's limit */
	REASON_COMPACT = 1 << 4,
};

struct stall {
	__u64 start_ns;
	__u32 reasons;
	__u32 depth; /* nested enters, counted only while PSI is off */
};

/*
 * Tasks stalled at one moment, by thread id. 8192 because a machine with more of them is beyond
 * help and loses only counts; preallocated (no allocator under a run-queue lock), about 0.7 MiB.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct stall);
} stalled SEC(".maps");

/* False where PSI is off at boot: the kernel then calls the hooks without setting in_memstall. */
const volatile bool psi_on = true;

/* No begin or end for this long: a task that still counts as stalled was lost. Set at load. */
const volatile __u64 lost_ns = 2000000000;

__u64 stall_wake_gap_ns = 1000000; /* set by the agent */

__s64 stalled_now;
/* The time in which at least one task was stalled: what PSI calls some, were there one CPU. */
__u64 some_ns;
__u64 some_since_ns;    /* begin of what is not in some_ns yet, while stalled_now is above 0 */
__u64 stalled_reset_ns; /* tasks stalled since before this are not in stalled_now */
__u64 last_stall_ns;    /* newest begin or end */
__u64 last_suffer_ns;   /* the same without kernel threads: the quiet clock */
__u64 last_wake_ns;     /* newest stall record that woke the agent */

/*
 * The count of stalled tasks and the clock that runs while it is not 0. Without a lock (programs
 * of these types may not take one) and without an atomic that returns a value (5.10 has none):
 * where one task begins and another ends within the same few nanoseconds, the time since the clock
 * was started can be lost or counted twice.
 */
static __always_inline void some_begin(__u64 now_ns)
{
	if (stalled_now <= 0)
		some_since_ns = now_ns;
	counter_add(&stalled_now, 1);
}

static __always_inline void some_end(__u64 start_ns, __u64 now_ns)
{
	if (start_ns < stalled_reset_ns)
		return;
	counter_add(&stalled_now, -1);
	if (stalled_now <= 0 && (__s64)(now_ns - some_since_ns) > 0) {
		counter_add(&some_ns, now_ns - some_since_ns);
		some_since_ns = now_ns;
	}
}

/* A probe that the kernel skipped must not keep the clock running for ever. */
static __always_inline void some_heal(__u64 now_ns)
{
	if (stalled_now <= 0 || (__s64)(now_ns - last_stall_ns) < (__s64)lost_ns)
		return;
	counter_add(&some_ns, last_stall_ns + lost_ns - some_since_ns);
	stalled_reset_ns = now_ns;
	stalled_now = 0;
}

static __always_inline void stall_record(const struct task_struct *task, __u64 now_ns,
					 __u64 duration_ns, bool begins)
{
	bool kthread = BPF_CORE_READ(task, flags) & PF_KTHREAD;
	bool first = false, last = !begins && stalled_now <= 0;
	struct pn_event_cpu *cpu = cpu_state();
	struct pn_event *event;
	enum pn_event_slot slot;
	bool wake;

	last_stall_ns = now_ns;
	if (!kthread) {
		/* Signed: another CPU's time may already be newer. */
		first = begins && (__s64)(now_ns - last_suffer_ns) > QUIET_NS;
		last_suffer_ns = now_ns;
	}
	if (!cpu)
		return;
	if (!begins) {
		counter_add(&cpu->stalls, 1);
		counter_add(&cpu->stall_ns, duration_ns);
	}

	slot = kthread ? PN_EVENT_SLOT_KTHREAD
	       : last  ? PN_EVENT_SLOT_STALL_END
		       : PN_EVENT_SLOT_STALL;
	if (!slot_take(cpu, slot, now_ns) && !first)
		return;
	wake = first ||
	       (!kthread && !last && (__s64)(now_ns - last_wake_ns) >= (__s64)stall_wake_gap_ns);
	if (wake)
		last_wake_ns = now_ns;

	event = event_reserve(cpu, last ? PN_EVENT_STALL_END : PN_EVENT_STALL, now_ns);
	if (!event)
		return;
	event->value = duration_ns;
	event->flags = first ? PN_EVENT_F_FIRST : 0;
	event_set_task(event, task);
	event_submit(event, wake);
}

static __always_inline void stall_begin(const struct task_struct *task, __u32 reason)
{
	__u32 tid = BPF_CORE_READ(task, pid);
	struct stall *stall = bpf_map_lookup_elem(&stalled, &tid);
	struct stall fresh = { .reasons = reason };
	struct pn_event_cpu *cpu;
	__u64 now_ns;

	if (stall) {
		now_ns = bpf_ktime_get_ns();
		if (!(stall->reasons & reason)) {
			stall->reasons |= reason;
		} else if (psi_on || now_ns - stall->start_ns > lost_ns) {
			/* Its end was missed: begin anew, counted again if it had been given up. */
			if (stall->start_ns < stalled_reset_ns)
				some_begin(now_ns);
			stall->start_ns = now_ns;
			stall->depth = 0;
		} else {
			stall->depth++;
		}
		return;
	}
	some_heal(bpf_ktime_get_ns());
	stall_record(task, bpf_ktime_get_ns(), 0, true);
	fresh.start_ns = bpf_ktime_get_ns(); /* again, to leave out what the record took */
	if (!bpf_map_update_elem(&stalled, &tid, &fresh, BPF_NOEXIST)) {
		some_begin(fresh.start_ns);
		return;
	}
	cpu = cpu_state();
	if (cpu)
		counter_add(&cpu->drops, 1);
}

static __always_inline void stall_end(const struct task_struct *task, __u32 reason)
{
	__u64 now_ns = bpf_ktime_get_ns(), start_ns;
	__u32 tid = BPF_CORE_READ(task, pid);
	struct stall *stall = bpf_map_lookup_elem(&stalled, &tid);

	if (!stall || !(stall->reasons & reason))
		return; /* it began before these programs were attached */
	if (stall->depth) {
		stall->depth--;
		return;
	}
	stall->reasons &= ~reason;
	if (stall->reasons)
		return;
	start_ns = stall->start_ns;
	if (bpf_map_delete_elem(&stalled, &tid))
		return;
	some_end(start_ns, now_ns);
	stall_record(task, now_ns, now_ns - start_ns, false);
}

/* Both run outside of the outermost enter and leave, where the kernel's bit is clear. */
static __always_inline int memstall_enter(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	if (!BPF_CORE_READ_BITFIELD_PROBED(task, in_memstall))
		stall_begin(task, REASON_MEMSTALL);
	return 0;
}

static __always_inline int memstall_left(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	if (!BPF_CORE_READ_BITFIELD_PROBED(task, in_memstall))
		stall_end(task, REASON_MEMSTALL);
	return 0;
}

/* The argument, unsigned long *flags, is left alone: the 5.10 and 5.15 verifiers refuse it. */
SEC("?fentry/psi_memstall_enter")
int stall_fentry_enter(void *ctx)
{
	return memstall_enter();
}

SEC("?fexit/psi_memstall_leave")
int stall_fexit_leave(void *ctx)
{
	return memstall_left();
}

SEC("?kprobe/psi_memstall_enter")
int stall_kprobe_enter(void *ctx)
{
	return memstall_enter();
}

SEC("?kretprobe/psi_memstall_leave")
int stall_kretprobe_leave(void *ctx)
{
	return memstall_left();
}

/* bool preempt, struct task_struct *prev, struct task_struct *next */
SEC("?tp_btf/sched_switch")
int stall_sched_switch(__u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1];
	struct task_struct *next = (void *)ctx[2];

	if (BPF_CORE_READ_BITFIELD(prev, in_memstall))
		stall_begin(prev, REASON_OFF_CPU);
	if (BPF_CORE_READ_BITFIELD(next, in_memstall))
		stall_end(next, REASON_OFF_CPU);
	return 0;
}

/* Raw, because that needs neither the kernel's BTF nor a mounted tracefs, and no argument. */
#define STALL_TRACEPOINTS(name, begin, end, reason)                                                \
	SEC("?raw_tp/" #begin)                                                                     \
	int stall_##name##_begin(void *ctx)                                                        \
	{                                                                                          \
		stall_begin((void *)bpf_get_current_task(), reason);                               \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("?raw_tp/" #end)                                                                       \
	int stall_##name##_end(void *ctx)                                                          \
	{                                                                                          \
		stall_end((void *)bpf_get_current_task(), reason);                                 \
		return 0;                                                                          \
	}

STALL_TRACEPOINTS(direct, mm_vmscan_direct_reclaim_begin, mm_vmscan_direct_reclaim_end,
		  REASON_DIRECT)
STALL_TRACEPOINTS(memcg, mm_vmscan_memcg_reclaim_begin, mm_vmscan_memcg_reclaim_end, REASON_MEMCG)
STALL_TRACEPOINTS(compact, mm_compaction_begin, mm_compaction_end, REASON_COMPACT)
