/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pn_memwatch: the live snapshot of memory pressure.
 *
 * One watch per process, started once. It attaches to the agent (pnmemd) when its socket is
 * there; otherwise, and within a second whenever the agent goes away, it polls in this process
 * every PN_MEMWATCH_POLL_MS, and goes back to the agent when that returns. The caller's view does
 * not change: every function below works the same on both.
 *
 * Threads: every function may be called from any thread, except that pn_memwatch_start and
 * pn_memwatch_stop must not race with each other. None may be called from a signal handler.
 * Fork: the child of a process with a running watch must call pn_memwatch_start again.
 *
 * Environment (read by pn_memwatch_start): PN_SOCKET, PN_HOST_RESERVE_BYTES, PN_PSI_FULL_REJECT,
 * PN_DIE_RESERVE_BYTES, PN_CGROUP_LEVEL, PN_LEVEL_HOLD_MS, and for the poll PN_PROCFS and
 * PN_CGROUPFS (directories instead of /proc and /sys/fs/cgroup). When attached, the agent's own
 * settings decide the level.
 */
#ifndef PN_MEMWATCH_H
#define PN_MEMWATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pn_mem_state.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef PN_API
#if defined(__GNUC__)
#define PN_API __attribute__((visibility("default")))
#else
#define PN_API
#endif
#endif

/* Period of the in-process poll, milliseconds. */
#define PN_MEMWATCH_POLL_MS 250

/* Default socket of the agent; PN_SOCKET overrides it. */
#define PN_SOCKET_DEFAULT "/run/pnmem/pnmem.sock"

/* Host reserve: the larger of this and 15 % of MemTotal, unless PN_HOST_RESERVE_BYTES is set. */
#define PN_HOST_RESERVE_MIN_BYTES (1ull << 30)
/* "full avg10" (percent) at and above which the level is CRITICAL; PN_PSI_FULL_REJECT. */
#define PN_PSI_FULL_REJECT_DEFAULT 15.0
/* Kept free on every die; PN_DIE_RESERVE_BYTES. */
#define PN_DIE_RESERVE_BYTES_DEFAULT (1ull << 30)
/* A level comes down only after the lower one has held this long; PN_LEVEL_HOLD_MS. */
#define PN_LEVEL_HOLD_MS_DEFAULT 250

/* Where snapshots come from. */
typedef enum {
	PN_SOURCE_NONE = 0,  /* not running */
	PN_SOURCE_AGENT = 1, /* pnmemd's shared page */
	PN_SOURCE_POLL = 2,  /* the poll thread of this process */
} pn_memwatch_source_t;

/* What pn_memwatch_wait waits for. */
typedef enum {
	PN_WAIT_LEVEL = 0,    /* a level other than the one seen */
	PN_WAIT_SNAPSHOT = 1, /* a snapshot newer than the one seen */
} pn_memwatch_wait_t;

/* What pn_memwatch_wait_at waits for: a level of this or higher, or of this or lower. */
typedef enum {
	PN_AT_LEAST = 0,
	PN_AT_MOST = 1,
} pn_memwatch_at_t;

/* State of a kernel hook, see pn_memwatch_hooks. */
enum {
	PN_HOOK_ACTIVE = 0,  /* loaded, attached, in use */
	PN_HOOK_REFUSED = 1, /* tried; .err says why it could not be used */
	PN_HOOK_UNTRIED = 2, /* not needed: a better one for its subject is in use */
};

typedef struct {
	char subject[16]; /* "stall", "reclaim", "oom", "avail" */
	char hook[48];    /* "fentry/psi_memstall_enter" */
	int32_t state;    /* PN_HOOK_* */
	int32_t err;      /* 0 or -errno */
	char why[128];    /* the likely reason it is not used, "" if it is or was not tried */
} pn_hook_status;

/*
 * Starts the watch: one synchronous look (or the agent's current page), then a thread, so that
 * the first pn_memwatch_read after it returns real numbers. Idempotent.
 * Returns 0; -errno if no thread, descriptor or memory could be had, or PN_PROCFS (/proc) cannot be
 * opened. A missing agent is no error.
 */
PN_API int pn_memwatch_start(void);

/* Stops it and joins its threads. Threads in pn_memwatch_wait return -ESHUTDOWN. Idempotent. */
PN_API void pn_memwatch_stop(void);

/* True between a successful start and stop. */
PN_API bool pn_memwatch_running(void);

/*
 * Forces one look now and returns after its snapshot has been published: a read that follows
 * sees it. With an agent that does not answer within a second, the in-process look is used.
 */
PN_API void pn_memwatch_poll_now(void);

/*
 * Copies the current snapshot to *ret: nanoseconds, no system call, never blocks.
 * Returns 0; -ENODATA if the watch is not running; -EAGAIN if after a bounded number of tries
 * no consistent copy could be had (a publisher faster than this reader): what *ret then holds is
 * not specified, since a copy to keep it would double the cost of every read.
 */
PN_API int pn_memwatch_read(pn_mem_state *ret);

/*
 * The same with the extension of the same snapshot; either pointer may be NULL. Fields of
 * pn_mem_ext that an older agent does not know are 0.
 */
PN_API int pn_memwatch_read_ext(pn_mem_state *ret_state, pn_mem_ext *ret_ext);

/*
 * Sleeps until there is something other than *seen: a different level, or a newer snapshot.
 * seen == NULL waits for the next change from now on. deadline_ns is CLOCK_MONOTONIC, UINT64_MAX
 * for none. A level that changed and changed back while this thread was not scheduled is not
 * reported. The state that ended the wait is stored in *ret if ret is not NULL.
 * Returns 0; -ETIMEDOUT; -ENODATA if not running; -ESHUTDOWN if stopped meanwhile.
 */
PN_API int pn_memwatch_wait(pn_memwatch_wait_t what, const pn_mem_state *seen, uint64_t deadline_ns,
			    pn_mem_state *ret);

/*
 * Sleeps until the level is at least, or at most, the one given; returns at once if it is. An
 * engine that only cares about CRITICAL waits for (PN_AT_LEAST, PN_MEM_LEVEL_CRITICAL), and then
 * for (PN_AT_MOST, PN_MEM_LEVEL_TIGHT), and sleeps through every change on either side of that
 * line. deadline_ns and *ret as above. A level that got there and left again while this thread was
 * not scheduled is not reported. Returns 0; -ETIMEDOUT; -EINVAL (no such level); -ENODATA if not
 * running; -ESHUTDOWN if stopped meanwhile.
 */
PN_API int pn_memwatch_wait_at(pn_memwatch_at_t at, pn_mem_level level, uint64_t deadline_ns,
			       pn_mem_state *ret);

/*
 * An eventfd (non-blocking, close-on-exec) for an engine's own event loop: it becomes readable
 * on every level change. One per process, owned by the watch, the same number until
 * pn_memwatch_stop closes it; several changes coalesce into one. The first call starts a thread
 * that sleeps until a change. Returns the descriptor or -errno (-ENODATA: not running; -EAGAIN as
 * in pn_memwatch_read).
 */
PN_API int pn_memwatch_fd(void);

/*
 * The same for one threshold: readable when the level has risen to this one or above, or fallen
 * below it. One descriptor for each level, WATCH to CRITICAL. Also -EINVAL: another level.
 */
PN_API int pn_memwatch_fd_at(pn_mem_level level);

/*
 * Sets the function that receives the library's few messages, such as a bad environment variable or
 * a change of source. Each message is one line without a newline. By default the library discards
 * them. The library calls fn from the watch's own thread or from the caller of a function above,
 * with the watch's lock held: fn may call pn_memwatch_read, but no other function of this header,
 * and it must not fork. Set it before pn_memwatch_start. fn == NULL turns it off;
 * once this has returned, the one before is not called again.
 */
PN_API void pn_memwatch_log_to(void (*fn)(void *arg, const char *line), void *arg);

/* Where the snapshots come from at this moment. */
PN_API pn_memwatch_source_t pn_memwatch_source(void);

/*
 * Dies. The agent samples the machine's dies by itself where it has a driver, and shows them in the
 * order of their PCI bus ids. An engine that knows more, or runs where the agent cannot sample
 * (PN_DIE_SOURCE, exclusive compute mode, MIG), pushes its own figures. CUDA ordinals differ from
 * one process to another (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER, MPS), so an engine should name a
 * die by UUID or PCI bus id. The library takes an index as the place in the snapshot.
 *
 * The newer of push and sample gives the free bytes. For a sampled die they are at most its total,
 * and the agent gives its budget. Engines of the same user in the same cgroup see a push until the
 * engine that made it ends; other engines do not see it. In per_die_used an engine that pushed the
 * die reads its own bytes, and the other engines read the sum of all. A die that is known only by
 * an index can be a different die for another engine, so each engine reads only its own push of it.
 */

/*
 * Merges what the engine knows of one of its dies, after each cuMemGetInfo: bytes free, usable
 * budget (pn_memwatch_die_budget of the total), and the engine's own allocations. Returns after
 * the merge has been published: a read that follows sees it. die_id outside
 * 0..PN_MEM_MAX_DIES-1 is ignored. free and used are clamped to be no more than what is plausible
 * (free to budget + reserve), so that a garbled sample cannot show more than there is.
 */
PN_API void pn_memwatch_set_die(int die_id, uint64_t free_bytes, uint64_t budget_bytes,
				uint64_t used_bytes);

/*
 * The same for the die of this UUID (as cuDeviceGetUuid gives it) or PCI bus id ("0000:3b:00.0";
 * upper case, no domain, and one of up to 0xfffffff are understood). Returns the die's place in the
 * snapshot: an index of the per_die arrays, or from PN_MEM_MAX_DIES on of pn_mem_ext.more_die. It
 * can change when the source does. With budget_bytes 0, which takes the push back, 0. Or -errno:
 * -EINVAL (no id), -ENOSPC (no place is left), -ENODATA (not running), -EOPNOTSUPP (the agent takes
 * no pushes).
 */
PN_API int pn_memwatch_set_die_uuid(const uint8_t uuid[16], uint64_t free_bytes,
				    uint64_t budget_bytes, uint64_t used_bytes);
PN_API int pn_memwatch_set_die_pci(const char *pci_bus_id, uint64_t free_bytes,
				   uint64_t budget_bytes, uint64_t used_bytes);

/* Usable budget of a die of total_bytes: total - PN_DIE_RESERVE_BYTES, at least 0. */
PN_API uint64_t pn_memwatch_die_budget(uint64_t total_bytes);

/* The agent's description of itself. */
typedef struct {
	int32_t pid; /* in the caller's pid namespace; 0: it is not in that, nor below */
	char version[28];
} pn_agent_info;

/* The agent that this process is attached to. 0, or -ENODATA: not running, or polling. */
PN_API int pn_memwatch_agent(pn_agent_info *ret);

/*
 * The kernel hooks of the agent that this process is attached to: at most max entries in
 * ret[]. Returns the number written, 0 when polling in-process, or -errno.
 */
PN_API int pn_memwatch_hooks(pn_hook_status *ret, size_t max);

/*
 * How the agent gets its figures of dies, in the same form: its sampler ("sampler"), the uprobes
 * on libcuda ("uprobe"), and each die that it knows ("die 0"): PN_HOOK_ACTIVE in use and fresh,
 * PN_HOOK_REFUSED not (why says what that means), PN_HOOK_UNTRIED not wanted here. Returns as
 * pn_memwatch_hooks.
 */
PN_API int pn_memwatch_dies(pn_hook_status *ret, size_t max);

/* The agent's counters. */
#define PN_AGENT_UIDS_MAX 16

typedef struct {
	uint32_t uid;
	uint32_t clients; /* connected now */
	uint64_t refused; /* connects that were over this user's limits, while it has had clients */
} pn_agent_uid;

typedef struct {
	uint64_t uptime_ns;
	uint64_t looks;       /* times it looked at its sources */
	uint64_t publishes;   /* of the host's own page: one for each look */
	uint64_t wakeups;     /* times its loop woke up */
	uint64_t events;      /* kernel records */
	uint64_t event_drops; /* kernel records lost */
	uint64_t accepted;    /* clients taken, those that have gone included */
	uint64_t refused;     /* connects turned away: over a limit, in all or of a user */
	uint64_t dropped;     /* clients dropped for what they sent, or for not taking replies */
	uint64_t requests;
	uint64_t told;        /* EVENT messages sent to subscribers */
	uint32_t clients;     /* connected now */
	uint32_t subscribers; /* of them */
	uint32_t views;       /* pages: one for each cgroup with clients, and the host's own */
	uint32_t uids;        /* users with clients */
	uint32_t uid_count;   /* entries of uid[]: all that there is room for; for a caller that is
				 others their own alone */
	uint32_t reserved;
	pn_agent_uid uid[PN_AGENT_UIDS_MAX];
} pn_agent_stats;

/*
 * The counters of the agent that this process is attached to. 0; -ENODATA: not running, or
 * polling; -EOPNOTSUPP: the agent is too old to have counters;
 * -ENOTCONN: the agent has just gone away.
 */
PN_API int pn_memwatch_stats(pn_agent_stats *ret);

/*
 * The snapshot that the engines of another process's cgroup see, for the administrator: one look
 * now, over a connection of its own, whether or not this process's watch runs. pid is one of the
 * agent's pid namespace; either pointer may be NULL. Returns 0; -EPERM (not the administrator);
 * -ESRCH (no such process); -EOPNOTSUPP (an older agent); -ENOENT, -ECONNREFUSED, -EACCES, -EAGAIN
 * (no agent, or no answer within a second); another -errno. Any thread; without the agent there is
 * nothing to fall back to.
 */
PN_API int pn_memwatch_read_of(int pid, pn_mem_state *ret_state, pn_mem_ext *ret_ext);

/* "OK", "WATCH", "TIGHT", "CRITICAL", or "?" for anything else. */
PN_API const char *pn_mem_level_name(pn_mem_level level);

#ifdef __cplusplus
}
#endif

#endif
