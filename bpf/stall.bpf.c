// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Memory stalls of tasks: who, since when, how many at this moment, and their summed time. Three
 * rungs feed the same bookkeeping, and hooks.c attaches one of them:
 *
 *   fentry/fexit, or kprobe/kretprobe, on psi_memstall_enter and _leave: the kernel's own stall
 *   tracepoints: a task that is off the CPU while PSI counts it as stalled, and the reclaim and
 *     compaction that a task does itself. This misses a stalled task's other time on the CPU.
 *
 * sched_switch runs under a run-queue lock: one bit is tested before anything else is touched.
 */
#include "emit.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL"; /* of the linked object */

#define QUIET_NS   100000000ll /* no stall for this long: the next one is a first */
#define LEVELS_MAX 33          /* the agent reads as many (CGROUP_MAX_GROUPS) */

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
 * Tasks whose group is at its own limit have a table of their own with half as many places: a
 * group that stalls in thousands of threads cannot keep the stalls of others from being counted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct stall);
} stalled SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct stall);
} spared SEC(".maps");

/* False where PSI is off at boot: the kernel then calls the hooks without setting in_memstall. */
const volatile bool psi_on = true;

/* No begin or end for this long: a task that still counts as stalled was lost. Set at load. */
const volatile __u64 lost_ns = 2000000000;

__u64 stall_wake_gap_ns = 1000000; /* set by the agent */

/* The time in which any task was stalled: what PSI calls some, were there one CPU. */
struct pn_stall_clock any_clock;
/* The time in which a task was stalled whose group was not at its own limit. */
struct pn_stall_clock others_clock;
__u64 last_stall_ns;  /* newest begin or end */
__u64 last_suffer_ns; /* the same without kernel threads: the quiet clock */
__u64 last_wake_ns;   /* newest stall record that woke the agent */

/*
 * The count of stalled tasks and the clock that runs while it is not 0. Without a lock (programs
 * of these types may not take one) and without an atomic that returns a value (5.10 has none):
 * where one task begins and another ends within the same few nanoseconds, the time since the clock
 * was started can be lost or counted twice.
 */
static __always_inline void clock_begin(struct pn_stall_clock *clock, __u64 now_ns)
{
	if (clock->stalled_now <= 0)
		clock->since_ns = now_ns;
	clock->last_ns = now_ns;
	counter_add(&clock->stalled_now, 1);
}

static __always_inline void clock_end(struct pn_stall_clock *clock, __u64 start_ns, __u64 now_ns)
{
	if (start_ns < clock->reset_ns)
		return;
	clock->last_ns = now_ns;
	counter_add(&clock->stalled_now, -1);
	if (clock->stalled_now <= 0 && (__s64)(now_ns - clock->since_ns) > 0) {
		counter_add(&clock->ns, now_ns - clock->since_ns);
		clock->since_ns = now_ns;
	}
}

/* A probe that the kernel skipped must not keep the clock running for ever. */
static __always_inline void clock_heal(struct pn_stall_clock *clock, __u64 clock_lost_ns,
				       __u64 now_ns)
{
	if (clock->stalled_now <= 0 || (__s64)(now_ns - clock->last_ns) < (__s64)clock_lost_ns)
		return;
	counter_add(&clock->ns, clock->last_ns + clock_lost_ns - clock->since_ns);
	clock->reset_ns = now_ns;
	clock->stalled_now = 0;
}

static __always_inline void clocks_begin(bool is_spared, __u64 now_ns)
{
	clock_begin(&any_clock, now_ns);
	if (!is_spared)
		clock_begin(&others_clock, now_ns);
}

/* A task that begins anew is counted again by the clock that had given it up. */
static __always_inline void clocks_begin_again(bool is_spared, __u64 start_ns, __u64 now_ns)
{
	if (start_ns < any_clock.reset_ns)
		clock_begin(&any_clock, now_ns);
	if (!is_spared && start_ns < others_clock.reset_ns)
		clock_begin(&others_clock, now_ns);
}

static __always_inline void clocks_end(bool is_spared, __u64 start_ns, __u64 now_ns)
{
	clock_end(&any_clock, start_ns, now_ns);
	if (!is_spared)
		clock_end(&others_clock, start_ns, now_ns);
}

/*
 * The others' clock decides what the agent takes off the host's PSI. It waits longer before it
 * gives a task up: a real stall that the programs forget would be hidden, a forgotten task only
 * makes the clock run too long.
 */
static __always_inline void clocks_heal(__u64 now_ns)
{
	clock_heal(&any_clock, lost_ns, now_ns);
	clock_heal(&others_clock, lost_ns * PN_STALL_OTHERS_LOST, now_ns);
}

/*
 * Is the task's memory group, or an ancestor of it, within an eighth of its own limit? Reclaim
 * overshoots and a task may wait for pages that the limit has evicted before, so the group's usage
 * can lie below the limit while its tasks stall. The same on cgroup v1 and v2.
 */
static __always_inline bool is_at_limit(const struct task_struct *task)
{
	const struct page_counter *counter;
	const struct mem_cgroup *memcg;
	const struct css_set *set;

	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id))
		return false;
	set = BPF_CORE_READ(task, cgroups);
	if (bpf_probe_read_kernel(&memcg, sizeof(memcg),
				  (const void *)set +
					  bpf_core_field_offset(struct css_set, subsys) +
					  sizeof(memcg) * bpf_core_enum_value(enum cgroup_subsys_id,
									      memory_cgrp_id)) ||
	    !memcg)
		return false;
	/* The css is the group's first member. */
	counter = (const void *)memcg + bpf_core_field_offset(struct mem_cgroup, memory);
#pragma clang loop unroll(disable)
	for (int level = 0; counter && level < LEVELS_MAX; level++) {
		__u64 max = BPF_CORE_READ(counter, max), high = BPF_CORE_READ(counter, high);
		__u64 limit = high < max ? high : max;

		if ((__u64)BPF_CORE_READ(counter, usage.counter) >= limit - limit / 8)
			return true;
		counter = BPF_CORE_READ(counter, parent);
	}
	return false;
}

static __always_inline struct stall *stall_find(__u32 tid, bool *ret_is_spared)
{
	struct stall *stall = bpf_map_lookup_elem(&stalled, &tid);

	*ret_is_spared = false;
	if (stall)
		return stall;
	*ret_is_spared = true;
	return bpf_map_lookup_elem(&spared, &tid);
}

static __always_inline void stall_record(const struct task_struct *task, __u64 now_ns,
					 __u64 duration_ns, bool begins)
{
	bool kthread = BPF_CORE_READ(task, flags) & PF_KTHREAD;
	bool first = false, last = !begins && any_clock.stalled_now <= 0;
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
	bool is_spared;
	struct stall *stall = stall_find(tid, &is_spared);
	struct stall fresh = { .reasons = reason };
	struct pn_event_cpu *cpu;
	__u64 now_ns;
	long err;

	if (stall) {
		now_ns = bpf_ktime_get_ns();
		if (!(stall->reasons & reason)) {
			stall->reasons |= reason;
		} else if (psi_on || now_ns - stall->start_ns > lost_ns) {
			/* Its end was missed. */
			clocks_begin_again(is_spared, stall->start_ns, now_ns);
			stall->start_ns = now_ns;
			stall->depth = 0;
		} else {
			stall->depth++;
		}
		return;
	}
	clocks_heal(bpf_ktime_get_ns());
	stall_record(task, bpf_ktime_get_ns(), 0, true);
	is_spared = is_at_limit(task);
	fresh.start_ns = bpf_ktime_get_ns(); /* again, to leave out what the record took */
	if (is_spared)
		err = bpf_map_update_elem(&spared, &tid, &fresh, BPF_NOEXIST);
	else
		err = bpf_map_update_elem(&stalled, &tid, &fresh, BPF_NOEXIST);
	if (!err) {
		clocks_begin(is_spared, fresh.start_ns);
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
	bool is_spared;
	struct stall *stall = stall_find(tid, &is_spared);
	long err;

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
	if (is_spared)
		err = bpf_map_delete_elem(&spared, &tid);
	else
		err = bpf_map_delete_elem(&stalled, &tid);
	if (err)
		return;
	clocks_end(is_spared, start_ns, now_ns);
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

/*
 * The kernel enters a memory stall before it reclaims for a group's limit (5.9 and later). Outside
 * of one it reclaims because a task wrote to a file of the group (memory.reclaim, a limit that is
 * set lower). PSI does not count that, and the owner of a group may do it as often as he likes.
 */
static __always_inline void reclaim_begin(__u32 reason)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	if (reason != REASON_MEMCG || !psi_on || !bpf_core_field_exists(task->in_memstall) ||
	    BPF_CORE_READ_BITFIELD_PROBED(task, in_memstall))
		stall_begin(task, reason);
}

/* Raw, because that needs neither the kernel's BTF nor a mounted tracefs, and no argument. */
#define STALL_TRACEPOINTS(name, begin, end, reason)                                                \
	SEC("?raw_tp/" #begin)                                                                     \
	int stall_##name##_begin(void *ctx)                                                        \
	{                                                                                          \
		reclaim_begin(reason);                                                             \
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
