// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Memory running out, long before anything stalls: kswapd wakes up, and page faults are counted
 * by sample. The agent says after each look how many faults away the next line is (the gate); the
 * first sample past that wakes it, once.
 */
#include "emit.bpf.h"

#define KSWAPD_GAP_NS 1000000ll /* at most one kswapd record per millisecond */

const volatile __u32 fault_period = 64; /* faults per sample, set by the agent at load */

__u64 faults; /* page faults sampled since load; a huge page is one */

/* Set by the agent after a look; armed last. */
__u64 gate_look_faults;
__u64 gate_look_ns;
__u64 gate_min_faults;
__u64 gate_min_interval_ns;
__u32 gate_armed;

__u64 last_kswapd_ns;

/* int nid, int zid, int order */
SEC("?raw_tp/mm_vmscan_kswapd_wake")
int avail_kswapd_wake(__u64 *ctx)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct pn_event_cpu *cpu = cpu_state();
	struct pn_event *event;

	if (!cpu || (__s64)(now_ns - last_kswapd_ns) < KSWAPD_GAP_NS)
		return 0;
	last_kswapd_ns = now_ns;
	event = event_reserve(cpu, PN_EVENT_KSWAPD_WAKE, now_ns);
	if (!event)
		return 0;
	event->value = (__u32)ctx[0];
	event_set_task(event, (void *)bpf_get_current_task());
	event_submit(event, true);
	return 0;
}

SEC("?perf_event")
int avail_page_faults(void *ctx)
{
	struct pn_event_cpu *cpu;
	struct pn_event *event;
	__u64 now_ns, count;

	counter_add(&faults, fault_period);
	count = record_all ? fault_period : faults - gate_look_faults;
	if (!record_all && (!gate_armed || count < gate_min_faults))
		return 0;
	now_ns = bpf_ktime_get_ns();
	if (!record_all && (__s64)(now_ns - gate_look_ns) < (__s64)gate_min_interval_ns)
		return 0;
	cpu = cpu_state();
	if (!cpu)
		return 0;
	event = event_reserve(cpu, PN_EVENT_FAULTS, now_ns);
	if (!event)
		return 0; /* stays armed: the next sample tries again */
	gate_armed = 0;
	event->value = count;
	event_set_task(event, (void *)bpf_get_current_task());
	event_submit(event, true);
	return 0;
}
