// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Memory calls into libcuda, and the end of processes that made some: both only say that the dies
 * are to be sampled. One record wakes the agent, and none comes again until it has armed the next;
 * what happened in between is in the counter. Loaded in an object of its own, only where dies may
 * be sampled.
 */
#include "emit.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

__u64 cuda_calls;      /* returned since load, the sampler's own left out */
__u32 cuda_call_armed; /* set by the agent: the next call is to be told */
__u32 cuda_sampler_pid;

/*
 * Processes that called, or have libcuda mapped. More of them at a time than this push the oldest
 * out, whose end then waits for the slow pass. 4096 of 80 bytes or so: 330 KB.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u8);
} cuda_pids SEC(".maps");

/* At the return, because that is when the driver's numbers have changed. */
SEC("?uretprobe")
int cuda_call(void *ctx)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	struct pn_event_cpu *cpu = cpu_state();
	struct pn_event *event;
	__u8 one = 1;

	if (pid == cuda_sampler_pid || !cpu)
		return 0;
	if (!bpf_map_lookup_elem(&cuda_pids, &pid))
		bpf_map_update_elem(&cuda_pids, &pid, &one, BPF_ANY);
	counter_add(&cuda_calls, 1);
	if (!cuda_call_armed)
		return 0;
	event = event_reserve(cpu, PN_EVENT_CUDA_CALL, bpf_ktime_get_ns());
	if (!event)
		return 0; /* stays armed: the next call tries again */
	cuda_call_armed = 0;
	event_set_task(event, (void *)bpf_get_current_task());
	event_submit(event, true);
	return 0;
}

/* Its last thread: the others do not free what the process has on the GPU. */
SEC("?raw_tp/sched_process_exit")
int cuda_exit(void *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	struct pn_event_cpu *cpu;
	struct pn_event *event;

	if (!bpf_map_lookup_elem(&cuda_pids, &pid) || BPF_CORE_READ(task, signal, live.counter))
		return 0;
	bpf_map_delete_elem(&cuda_pids, &pid);
	cpu = cpu_state();
	if (!cpu)
		return 0;
	event = event_reserve(cpu, PN_EVENT_CUDA_EXIT, bpf_ktime_get_ns());
	if (!event)
		return 0;
	event_set_task(event, task);
	event_submit(event, true);
	return 0;
}
