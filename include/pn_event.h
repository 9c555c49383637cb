/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records from the BPF programs to the agent, and the counters kept beside them: the only
 * definition for both sides. bpf/ and user/agent/ include it. Not installed. Built-in types only,
 * explicit padding, append only; kind and size come first so that a reader can skip what it does
 * not know.
 */
#ifndef PN_EVENT_H
#define PN_EVENT_H

enum pn_event_kind {
	PN_EVENT_STALL = 1,       /* a task began or is in a memory stall */
	PN_EVENT_STALL_END = 2,   /* the last stalled task left; value is how long it was in */
	PN_EVENT_RECLAIM = 3,     /* memcg (limit) reclaim began in the task; value is 0 */
	PN_EVENT_OOM_KILL = 4,    /* the task is the victim; value is 0 */
	PN_EVENT_KSWAPD_WAKE = 5, /* value is the node */
	PN_EVENT_FAULTS = 6,      /* value is the page faults counted since the last look */
	PN_EVENT_CUDA_CALL = 7,   /* a libcuda memory call returned; value is 0 */
	PN_EVENT_CUDA_EXIT = 8, /* the last thread of a process that made some exits; value is 0 */
	PN_EVENT_MEMCG = 9, /* a cgroup's memory.events went up; value is 1 << PN_MEMCG_* bits */
	PN_EVENT_KIND_COUNT = 10,
};

/*
 * Lines of memory.events, and their index in the kernel's array: the same on 5.10 to 7.3. A
 * PN_EVENT_MEMCG record is about the group in cgroup_id; its task is set only if that is in the
 * group itself (the limit can be an ancestor's, and the kernel's timer repeats a notice from
 * within whatever it interrupts).
 */
enum pn_memcg_event {
	PN_MEMCG_LOW = 0,
	PN_MEMCG_HIGH = 1,
	PN_MEMCG_MAX = 2,
	PN_MEMCG_OOM = 3,
	PN_MEMCG_OOM_KILL = 4,
	PN_MEMCG_COUNT = 5,
};

/* One record; 64 bytes. */
struct pn_event {
	unsigned int kind;            /* enum pn_event_kind */
	unsigned int size;            /* of this record, bytes */
	unsigned long long ts_ns;     /* bpf_ktime_get_ns, which is CLOCK_MONOTONIC */
	unsigned long long value;     /* by kind; stalls: duration so far in ns, 0 at the start */
	unsigned long long cgroup_id; /* cgroup v2 id of the task, 0 unknown */
	unsigned int tid;
	unsigned int pid;   /* tgid */
	unsigned int cpu;   /* where the record was made */
	unsigned int flags; /* PN_EVENT_F_* */
	char comm[16];      /* empty: unknown */
};

enum {
	PN_EVENT_F_FIRST =
		1u << 0, /* first stall after 100 ms without one (kernel threads apart) */
	PN_EVENT_F_KTHREAD = 1u << 1, /* the task is a kernel thread: no program stalls */
	PN_EVENT_F_WAKE = 1u << 2,    /* submitted so that it wakes the agent */
};

/* Records that are limited to one per millisecond and CPU, each kind by itself. */
enum pn_event_slot {
	PN_EVENT_SLOT_STALL = 0,
	PN_EVENT_SLOT_STALL_END = 1,
	PN_EVENT_SLOT_KTHREAD = 2, /* stalls of kernel threads, so that they cannot hide others' */
	PN_EVENT_SLOT_RECLAIM = 3,
	PN_EVENT_SLOT_MEMCG = 4,
	PN_EVENT_SLOT_COUNT = 5,
};

/* One CPU's counters, since load. The agent sums them; slot_ns is the programs' own. */
struct pn_event_cpu {
	unsigned long long events;    /* records wanted */
	unsigned long long drops;     /* the ring, or the table of stalled tasks, had no room */
	unsigned long long stalls;    /* outermost stalls ended */
	unsigned long long stall_ns;  /* their summed duration */
	unsigned long long oom_kills; /* OOM victims marked */
	unsigned long long slot_ns[PN_EVENT_SLOT_COUNT]; /* time of the newest record */
};

/*
 * A clock that runs while at least one of its tasks is stalled. It never counts a moment twice,
 * however many tasks stall in it. The programs write it and the agent reads it.
 */
struct pn_stall_clock {
	long long stalled_now; /* tasks */
	unsigned long long ns; /* the time in which it ran, since load */
	unsigned long long
		since_ns; /* begin of what is not in ns yet, while stalled_now is above 0 */
	unsigned long long last_ns;  /* newest begin or end */
	unsigned long long reset_ns; /* tasks stalled since before this are not in stalled_now */
};

/* The others' clock gives a task up after this many times as long as the clock of all. */
#define PN_STALL_OTHERS_LOST 15

_Static_assert(sizeof(struct pn_event) == 64, "record layout");
_Static_assert(sizeof(struct pn_event_cpu) == 80, "counter layout");

#endif
