/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel hooks: hooks.c is the only file that knows libbpf. For each subject it takes the
 * best hook that loads and attaches here, and remembers why the better ones did not.
 *
 * Threads: one at a time for everything about one struct hooks. hooks_open also swaps libbpf's
 * print callback, which is the whole process's, and puts it back.
 */
#ifndef PNMEM_AGENT_HOOKS_HOOKS_H
#define PNMEM_AGENT_HOOKS_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pn_event.h"
#include "pn_memwatch.h"

struct hooks;

struct hooks_options {
	/* Best rung to try: PN_MODE_FENTRY (0 means that too), PN_MODE_KPROBE or
	 * PN_MODE_TRACEPOINT, which cgroup events do not have; PN_MODE_PSI_TRIGGER and
	 * PN_MODE_POLL: no BPF for stalls and cgroup events. */
	uint32_t best_mode;
	/*
	 * All records that there are: no limit on their rate, no gate, and none wakes anybody: for
	 * one who calls hooks_consume every few milliseconds.
	 */
	bool record_all;
	uint32_t ring_bytes; /* a power of two; 0: what the agent needs */
	/* Kernel BTF to use instead of /sys/kernel/btf/vmlinux, NULL for that (PNMEM_BTF). */
	const char *btf_path;
};

/* Sums over CPUs since the hooks were opened. */
struct hooks_counters {
	uint64_t events;        /* records wanted, dropped ones included */
	uint64_t event_drops;   /* records for which the ring had no room, plus recursion misses */
	uint64_t stalls;        /* outermost stalls ended, kernel threads included as in PSI */
	uint64_t stall_ns;      /* summed duration of ended stalls, over tasks */
	uint64_t some_ns;       /* time in which at least one task was stalled, until now */
	uint64_t oom_kills;     /* victims marked; several threads of one process count each */
	uint64_t last_stall_ns; /* CLOCK_MONOTONIC of the newest stall begin or end seen, 0 none */
	/*
	 * Tasks in a stall at this moment, as far as the hooks can tell: after a recursion miss it
	 * may stay one too high until that task stalls again (with psi=0: 2 s later), so believe it
	 * only while the total= of the pressure file grows.
	 */
	int64_t stalled_now;
};

/* One record; called from hooks_consume. */
typedef void (*hooks_event_fn)(void *arg, const struct pn_event *event);

/*
 * Loads and attaches what can be had. Returns 0 with at least one hook active; else -errno and
 * *ret still holds the report of what was tried, for hooks_report, _stall_mode, _fd and _counters
 * only (free it with hooks_close; NULL on -ENOMEM). The error is the first refusal's: -EPERM
 * (not root, or lockdown), -ESRCH (no BTF) or another of libbpf's. It takes some 40 ms, and where
 * the kernel refuses a hook 20 ms for each that it tries. libbpf's own messages are kept quiet. fn
 * is called from hooks_consume alone.
 */
int hooks_open(struct hooks **ret, const struct hooks_options *options, hooks_event_fn fn,
	       void *arg);

/* Detaches and frees. NULL is allowed. */
void hooks_close(struct hooks *hooks);

/* PN_MODE_FENTRY, _KPROBE or _TRACEPOINT; PN_MODE_NONE if no stall hook is active. */
uint32_t hooks_stall_mode(const struct hooks *hooks);

/* PN_MODE_FENTRY or _KPROBE; PN_MODE_NONE if no hook tells of cgroup memory events. */
uint32_t hooks_memcg_mode(const struct hooks *hooks);

/*
 * Becomes readable when there is a record that may change the level; polled while any other
 * record is there, it can be readable too. -1 if no hook is active. Owned by hooks.
 */
int hooks_fd(const struct hooks *hooks);

/* Drains the ring, bounded by what fits in it. Returns the number of records or -errno (libbpf). */
int hooks_consume(struct hooks *hooks);

/*
 * Says how far away the next line is, after a look at now_ns (CLOCK_MONOTONIC): one page-fault
 * record wakes the agent when at least min_faults page faults (of any size, counted in samples of
 * 64 per CPU) have happened since this call, and min_interval_ns have passed since now_ns. No more
 * comes until the gate is set again, and none before it is set at all.
 */
void hooks_set_fault_gate(struct hooks *hooks, uint64_t now_ns, uint64_t min_faults,
			  uint64_t min_interval_ns);

/*
 * While stalls go on, a stall record wakes the agent only when this long has passed since the
 * last one that did (1 ms until it is set); records in between still go to the ring. The first
 * stall after quiet always wakes it. The same, apart, for cgroup events; an OOM always wakes it.
 */
void hooks_set_wake_gap(struct hooks *hooks, uint64_t gap_ns);

/* The counters, at the cost of one system call; misses are as of the last refresh. */
void hooks_counters(const struct hooks *hooks, struct hooks_counters *ret);

/*
 * The time in which any task was stalled, and the time in which a task was stalled whose memory
 * group, with its ancestors, was not at its own limit. Both are exact with fentry and kprobes. The
 * tracepoints do not see a stalled task while it is on a CPU outside of reclaim. False, with
 * nothing written, where no hook sees tasks that wait. No system call.
 */
bool hooks_stall_clocks(const struct hooks *hooks, uint64_t *ret_any_ns, uint64_t *ret_others_ns);

/*
 * How often processes have moved to another cgroup since the hooks were opened. False: nothing
 * tells of it.
 */
bool hooks_moves(const struct hooks *hooks, uint64_t *ret);

/* Asks the kernel for the recursion misses: one system call for each program. */
void hooks_refresh_misses(struct hooks *hooks);

/*
 * Every hook with its state, best first by subject; a hook below the one in use, or not wanted by
 * the options, is PN_HOOK_UNTRIED. At most max entries; returns the number written.
 */
size_t hooks_report(const struct hooks *hooks, pn_hook_status *ret, size_t max);

#endif
