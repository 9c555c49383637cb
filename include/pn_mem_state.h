/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The published state of memory: one value-type snapshot (pn_mem_state) and what pnmem adds to
 * it (pn_mem_ext). Both are plain data; how to get one is in pn_memwatch.h.
 *
 * Layout is ABI: the agent and the engines that read its page may be of different versions.
 * pn_mem_state is fixed; pn_mem_ext only ever grows at its end.
 */
#ifndef PN_MEM_STATE_H
#define PN_MEM_STATE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Dies that fit in pn_mem_state. */
#define PN_MEM_MAX_DIES 16
/* Dies beyond those, in pn_mem_ext. */
#define PN_MEM_MORE_DIES 16

typedef enum {
	PN_MEM_LEVEL_OK = 0,       /* ample headroom */
	PN_MEM_LEVEL_WATCH = 1,    /* headroom shrinking */
	PN_MEM_LEVEL_TIGHT = 2,    /* reserve nearly reached / PSI rising */
	PN_MEM_LEVEL_CRITICAL = 3, /* at the reserve line / PSI stall: shed */
} pn_mem_level;

/*
 * One snapshot. Bytes are bytes, PSI averages are percent (0..100, two decimals as the kernel
 * prints them). On systems without PSI or cgroups those fields are 0, which means no pressure.
 *
 * From an agent, while MemAvailable is at OK, the host's PSI (these two fields and the live ones)
 * leaves out the stalls of other watched cgroups that have a limit, because a group at its own
 * limit is not pressure on the host. It is never more than the file says.
 */
typedef struct {
	uint64_t host_total_bytes;     /* MemTotal / sysctl hw.memsize */
	uint64_t host_avail_bytes;     /* MemAvailable (allocatable without swap) */
	double host_psi_some_avg10;    /* /proc/pressure/memory "some avg10", as the file says */
	double host_psi_full_avg10;    /* "full avg10": the whole box stalls */
	uint64_t cgroup_current_bytes; /* memory.current (0 if not in a cgroup) */
	uint64_t cgroup_high_bytes;    /* memory.high    (0 == "max"/unset) */
	uint64_t cgroup_max_bytes;     /* memory.max     (0 == "max"/unset) */
	int n_dies;                    /* 0..PN_MEM_MAX_DIES */
	uint64_t per_die_free[16];     /* cuMemGetInfo free per die */
	uint64_t per_die_budget[16];   /* usable budget (total - reserve); 0: no such die */
	uint64_t per_die_used[16];     /* the engine's own allocation tally */
	pn_mem_level level;            /* worst of host, any die and (unless off) the cgroup */
	uint64_t seq;                  /* monotonic snapshot counter */
} pn_mem_state;

/* Reasons for the level: bits of pn_mem_ext.reasons. Only sources that reach it set one. */
enum {
	PN_REASON_HOST_BYTES = 1u << 0, /* MemAvailable near or inside the reserve */
	PN_REASON_PSI_SOME = 1u << 1,   /* some avg10, file or live */
	PN_REASON_PSI_FULL = 1u << 2,   /* full avg10, file or live */
	PN_REASON_CGROUP = 1u << 3,     /* headroom of the cgroup or an ancestor */
	PN_REASON_HELD = 1u << 4,       /* the numbers allow less; it has not held long enough */
	PN_REASON_STALE = 1u << 5,      /* some source is stale: its last good value is in use */
	PN_REASON_MORE_DIES = 1u << 6,  /* a die beyond the first 16 */
	PN_REASON_DIE0 = 1u << 16,      /* die n: PN_REASON_DIE0 << n */
};

/* Index of a source in pn_mem_ext.source_state and source_ns. */
enum {
	PN_SRC_MEMINFO = 0,    /* /proc/meminfo */
	PN_SRC_PSI = 1,        /* /proc/pressure/memory */
	PN_SRC_CGROUP = 2,     /* memory.current, .high, .max of the cgroup and its ancestors */
	PN_SRC_CGROUP_PSI = 3, /* memory.pressure of the cgroup */
	PN_SRC_DIES = 4,       /* die samples */
	PN_SRC_COUNT = 5,
};

/* The state of a source: values of pn_mem_ext.source_state. */
enum {
	PN_SRC_ABSENT = 0, /* there is none here (no cgroup, no GPU) */
	PN_SRC_OK = 1,
	PN_SRC_STALE = 2,       /* the last read failed; the last good value is in use */
	PN_SRC_UNSUPPORTED = 3, /* the kernel has it switched off (PSI off at boot) */
	PN_SRC_ESTIMATED = 4,   /* PSI alone: not the kernel's, see live_psi_some_avg10 */
	PN_SRC_GONE = 5,        /* the cgroup was removed: its fields are 0 and not judged */
};

/* What wakes the publisher of this snapshot, best first: values of pn_mem_ext.mode. */
enum {
	PN_MODE_NONE = 0,
	PN_MODE_FENTRY = 1,      /* agent: fentry on psi_memstall_enter/leave */
	PN_MODE_KPROBE = 2,      /* agent: kprobes on the same */
	PN_MODE_TRACEPOINT = 3,  /* agent: scheduler, reclaim and compaction tracepoints */
	PN_MODE_PSI_TRIGGER = 4, /* a PSI trigger on /proc/pressure/memory */
	PN_MODE_POLL = 5,        /* a 250 ms poll */
};

/* A die beyond the first 16. The fields mean the same as the arrays for the first 16. */
typedef struct {
	uint64_t free_bytes;
	uint64_t budget_bytes;
	uint64_t used_bytes;
	uint64_t sample_ns;
	uint8_t uuid[16];
	char pci[16];
	uint8_t state; /* PN_SRC_*, as pn_mem_ext.die_state */
	uint8_t reserved[7];
} pn_mem_die;

/* What pnmem adds to the snapshot. Times are CLOCK_MONOTONIC nanoseconds, 0 means never. */
typedef struct {
	uint64_t publish_ns;     /* when this snapshot was published */
	uint64_t event_ns;       /* kernel record or PSI trigger that caused this look, 0: none */
	uint64_t level_since_ns; /* when the level last changed */
	uint32_t level_changes;  /* level changes since the publisher started (wraps) */
	uint32_t reasons;        /* PN_REASON_* */
	uint32_t wanted_level;   /* level of the numbers alone; below .level while that is held */
	uint32_t mode;           /* PN_MODE_* */

	uint64_t host_reserve_bytes; /* the reserve that the host bytes were judged by */
	/*
	 * Percent, carried on between the kernel's 2 s updates. Where the kernel keeps no PSI and
	 * the agent's hooks see every stall (source_state is PN_SRC_ESTIMATED), some is the agent's
	 * own and as much as the kernel would say or more: it is the time in which any task
	 * stalled, where PSI averages over the CPUs in use; full is then 0, not known.
	 */
	double live_psi_some_avg10;
	double live_psi_full_avg10;
	uint64_t psi_some_total_us; /* "total=" of each line; some: estimated likewise */
	uint64_t psi_full_total_us;

	double cgroup_psi_some_avg10; /* the cgroup's own memory.pressure, percent */
	double cgroup_psi_full_avg10;
	uint64_t cgroup_headroom_bytes; /* least over the ancestors; UINT64_MAX: no limit */
	uint64_t cgroup_limit_bytes;    /* the limit behind that headroom; 0: no limit */

	double saturation; /* 0..1: share of what is usable that is used; host or cgroup, worst */
	uint64_t exhaustion_ns; /* until the reserve is reached at the recent rate; UINT64_MAX:
				   never */

	uint64_t source_ns[8];   /* by PN_SRC_*: time of the last good value */
	uint8_t source_state[8]; /* by PN_SRC_*: PN_SRC_OK ... */

	uint64_t looks;       /* times the publisher looked at its sources */
	uint64_t publishes;   /* snapshots published */
	uint64_t wakeups;     /* times the publisher's loop woke up */
	uint64_t events;      /* kernel records emitted */
	uint64_t event_drops; /* kernel records lost; the counts below are not affected */
	uint64_t stalls;      /* outermost memory stalls seen by the hooks */
	uint64_t stall_ns;    /* their summed duration */
	uint64_t oom_kills;   /* OOM kills seen by the hooks */

	uint64_t die_sample_ns[16]; /* when each die was sampled or pushed */
	uint8_t die_uuid[16][16];   /* CUDA UUID; all 0: unknown */
	char die_pci[16][16];       /* PCI bus id, "0000:3b:00.0"; empty: unknown */

	/*
	 * Of each die: PN_SRC_OK; PN_SRC_STALE (its sample is too old, its last numbers are in
	 * use); PN_SRC_UNSUPPORTED (it is there and must not be sampled, because of its compute
	 * mode or MIG: budget 0 until an engine pushes it); PN_SRC_ABSENT (no die of this index).
	 */
	uint8_t die_state[16];
	uint32_t n_more_dies; /* 0..PN_MEM_MORE_DIES; above 0 only with 16 in pn_mem_state */
	uint32_t reserved;
	pn_mem_die more_die[PN_MEM_MORE_DIES];

	/*
	 * Bytes that other processes have reserved and that the figures above do not show as
	 * allocated yet (pn_reserve.h). The level does not count it.
	 */
	uint64_t host_reserved_bytes;
	uint64_t cgroup_reserved_bytes; /* of the host's, what counts within cgroup_limit_bytes */
	uint64_t die_reserved_bytes[16];
} pn_mem_ext;

#ifdef __cplusplus
}
#endif

#endif
