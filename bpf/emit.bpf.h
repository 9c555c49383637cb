/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a record gets to the agent: the shared maps, the rate limit and the
 * three steps reserve, describe the task, submit. Each subject decides which events get a
 * record and which records wake the agent.
 */
#ifndef PNMEM_EMIT_BPF_H
#define PNMEM_EMIT_BPF_H

#include <stdbool.h>

#include "core_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "pn_event.h"

#define SLOT_NS 1000000ll /* one record of a kind per millisecond and CPU */

/*
 * Each map is weak, so that every file may hold its definition and linking keeps one; an extern
 * one is resolved wrongly by libbpf 1.1 unless its definition comes first.
 *
 * 256 KiB hold 3640 records (64 bytes and the kernel's header of 8): the five limited kinds of a
 * CPU fill it in 0.7 s, and the agent looks every 100 ms at most while stalls last. On a machine
 * with more CPUs than that allows, records drop and are counted; no level depends on them.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} ring SEC(".maps") __weak;

/* 80 bytes per possible CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pn_event_cpu);
} cpus SEC(".maps") __weak;

/* Lock: also safe when a program is preempted by another on its CPU. No result: 5.10 has none. */
#define counter_add(counter, n) ((void)__sync_fetch_and_add((counter), (n)))

static __always_inline struct pn_event_cpu *cpu_state(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&cpus, &zero);
}

/* Set at load: every record that there is, none of which wakes anybody (pnmem trace record). */
const volatile bool record_all __weak = false;

/* True at most once per SLOT_NS and CPU. */
static __always_inline bool slot_take(struct pn_event_cpu *cpu, enum pn_event_slot slot,
				      __u64 now_ns)
{
	if (record_all)
		return true;
	if ((__s64)(now_ns - cpu->slot_ns[slot]) < SLOT_NS)
		return false;
	cpu->slot_ns[slot] = now_ns;
	return true;
}

/* A zeroed record with its kind, size, time and CPU, or NULL if the ring is full. */
static __always_inline struct pn_event *event_reserve(struct pn_event_cpu *cpu, __u32 kind,
						      __u64 now_ns)
{
	struct pn_event *event;

	counter_add(&cpu->events, 1);
	event = bpf_ringbuf_reserve(&ring, sizeof(*event), 0);
	if (!event) {
		counter_add(&cpu->drops, 1);
		return NULL;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->kind = kind;
	event->size = sizeof(*event);
	event->ts_ns = now_ns;
	event->cpu = bpf_get_smp_processor_id();
	return event;
}

/* Probed reads, because the task is not always the current one nor a pointer the verifier knows. */
static __always_inline void event_set_task(struct pn_event *event, const struct task_struct *task)
{
	event->tid = BPF_CORE_READ(task, pid);
	event->pid = BPF_CORE_READ(task, tgid);
	event->cgroup_id = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	BPF_CORE_READ_STR_INTO(&event->comm, task, comm);
	if (BPF_CORE_READ(task, flags) & PF_KTHREAD)
		event->flags |= PN_EVENT_F_KTHREAD;
}

/* The default flag would wake the agent for every record that finds it idle. */
static __always_inline void event_submit(struct pn_event *event, bool wake)
{
	if (wake)
		event->flags |= PN_EVENT_F_WAKE;
	bpf_ringbuf_submit(event, wake && !record_all ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

#endif
