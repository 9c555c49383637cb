/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What happened in a trace, gathered record by record in a bounded amount of memory: the numbers
 * that pnmem trace report prints. Figures of stalls are of the recorded ones, of which the kernel's
 * hooks give at most one a millisecond and CPU; the exact sums are in the looks.
 */
#ifndef PNMEM_CLI_TRACE_REPORT_STORY_H
#define PNMEM_CLI_TRACE_REPORT_STORY_H

#include <stdbool.h>

#include "cli/trace/names.h"
#include "cli/trace/views.h"
#include "core/replay.h"
#include "core/trace_decode.h"

/* A histogram of durations: eight buckets for each power of two, so that a value is 9 % off at
 * most. */
#define STORY_BUCKETS 320

struct story_stalls {
	uint64_t count;
	uint64_t total_ns;
	uint64_t longest_ns;
	uint32_t bucket[STORY_BUCKETS];
};

/* A task or a cgroup. */
struct story_staller {
	bool used;
	uint32_t tid; /* 0: a cgroup */
	uint32_t pid;
	uint64_t cgroup_id;
	char comm[16];
	struct story_stalls stalls;
};

#define STORY_TASKS   4096 /* powers of two */
#define STORY_CGROUPS 1024

struct story_table {
	struct story_staller *entry;
	unsigned room;
	unsigned count;
	struct story_stalls rest; /* of what there was no room for */
};

/* What a view used in the last seconds, so that its growth before a moment can be told. */
#define STORY_HISTORY 64

struct story_history {
	struct {
		uint64_t ts_ns;
		uint64_t used_bytes;
	} sample[STORY_HISTORY];
	unsigned count;
	struct replay_view replay; /* for its verdicts */
};

struct story_view {
	bool used;
	bool raised; /* it is in the story's list */
	uint32_t level;
	uint64_t seen_ns;
	uint64_t used_bytes;              /* then */
	uint64_t peak_bytes, limit_bytes; /* of its cgroup */
	uint64_t peak_ns;
	struct story_history *history; /* NULL: none so far, or no memory */
	double growth_bytes_per_s;     /* in the seconds before the worst moment */
};

struct story_faulter {
	uint64_t ts_ns;
	uint64_t count;
	uint64_t cgroup_id;
	uint32_t tid;
	char comm[16];
};

struct story_die {
	bool used;
	uint8_t uuid[16];
	char pci[16];
	uint64_t least_free_bytes, budget_bytes;
	uint64_t least_ns;
};

#define STORY_DIES 64

/* Verdicts of one kind and cause, of one engine. The view in them is a place. */
struct story_refusal {
	struct trace_verdict first, newest;
	uint64_t first_ns;
	uint64_t count;
	int32_t least_fit_tokens, most_tokens;

	/* What would have admitted all of them. */
	struct replay_policy with; /* these settings, where some are given ... */
	bool no_settings;          /* ... and there are some */
	uint64_t freed_bytes;      /* so much less in use, of those that lacked bytes */
	bool estimate;             /* what they cost is not known exactly */
	bool unsure;               /* one of them cannot be asked again */

	/* Those for which the snapshot has room: reserved by others, or taken since. */
	uint64_t claimed_count;
	uint64_t room_bytes; /* of the first of them */

	struct replay_question *question; /* the first one's, NULL if it cannot be asked again */
	bool waiting;                     /* no later look would have admitted that one so far */
	uint64_t admitted_ns;             /* when one did, 0 never */
};

#define STORY_REFUSALS 32

struct story_kill {
	uint64_t ts_ns;
	uint64_t cgroup_id;
	uint32_t pid;
	char comm[16];
};

#define STORY_KILLS   16
#define STORY_FAULTS  256
#define STORY_UNKNOWN 16
#define STORY_MINE    1024

struct story {
	struct trace_names *names;
	struct trace_views *views;
	struct trace_head head;
	bool has_config;
	struct replay_policy policy; /* as recorded, or the defaults */
	uint64_t record_count;
	uint64_t first_ns, last_ns; /* of looks, events and verdicts */
	struct trace_drops drops;
	char why[128]; /* it was dumped */

	/* The command that was recorded, and the processes that belong to it. */
	char command[64];
	uint32_t command_pid; /* 0: there was none */
	bool command_ended;
	int command_status; /* as wait gives it */
	uint32_t mine[STORY_MINE];
	unsigned mine_count;

	/* The worst level of all views. */
	uint32_t level;
	uint64_t level_ns[4];
	uint64_t look_ns;     /* of the look before */
	uint32_t worst_level; /* highest, and when and why it was first reached */
	uint64_t worst_ns;
	uint32_t worst_view; /* place */
	uint32_t worst_reasons;

	bool has_look;
	uint64_t total_bytes, reserve_bytes;
	uint64_t least_avail_bytes, least_avail_ns;
	double most_some_pct, most_full_pct;
	uint64_t most_full_ns;
	struct trace_look first_look, last_look; /* of the host's view */

	struct story_view *view; /* by place, TRACE_VIEWS_MAX of them */
	uint32_t raised[TRACE_VIEWS_MAX];
	uint32_t raised_count; /* places of views above OK */
	struct story_table tasks;
	struct story_table cgroups;
	struct story_stalls kthreads;
	uint64_t stall_count;                     /* recorded, of tasks and kernel threads */
	struct story_faulter fault[STORY_FAULTS]; /* the newest */
	uint64_t fault_count;
	struct story_faulter worst_fault[3]; /* who had most faults before the worst moment */
	uint64_t memcg_count[PN_MEMCG_COUNT];
	uint64_t cuda_count;

	uint64_t vmstat_count;
	struct trace_vmstat first_vmstat, last_vmstat;

	struct story_die die[STORY_DIES];
	unsigned die_count;

	struct story_kill kill[STORY_KILLS];
	uint64_t kill_count;

	uint64_t verdict_count[3]; /* by verdict */
	struct story_refusal refusal[STORY_REFUSALS];
	unsigned refusal_count;
	uint64_t refusal_rest;

	/* Kinds that this program does not know, by their schema. */
	struct {
		uint32_t kind;
		uint64_t count;
		char name[32];
	} unknown[STORY_UNKNOWN];
	unsigned unknown_count;
};

/* What reclaim did between the first sample of /proc/vmstat and the last. */
void story_vmstat(const struct story *story, struct trace_vmstat *ret);

/* Pages scanned and reclaimed for the limits of cgroups, which the kernel counts only in its sums.
 */
void story_limit_reclaim(const struct story *story, uint64_t *ret_scanned, uint64_t *ret_taken);

/* A counter's increase over the trace; 0 if it fell, as with a new agent. */
uint64_t story_stall_count(const struct story *story);
uint64_t story_stall_ns(const struct story *story);

/* Does this process belong to the command that was recorded? */
bool story_is_mine(const struct story *story, uint32_t pid);

/* NULL without memory. Freeing takes NULL. */
struct story *story_new(const struct trace_head *head);
void story_free(struct story *story);

void story_add(struct story *story, const struct trace_item *item);

/* After the last record: what goes on until then is closed. */
void story_finish(struct story *story);

/*
 * refusals.c: a verdict, whose view is the place of *view (NULL: nothing is known of it); a
 * look of a view, which may have room for what waits.
 */
void story_verdict(struct story *story, struct replay_view *view, uint64_t ts_ns,
		   const struct trace_verdict *verdict);
void story_release(struct story *story, uint32_t place, const struct replay_view *view,
		   uint64_t ts_ns);

/* stallers.c: one more; the entry of a task or (tid 0) cgroup, NULL if there is no room. */
void story_stalls_add(struct story_stalls *stalls, uint64_t ns);
struct story_staller *story_table_get(struct story_table *table, uint64_t cgroup_id, uint32_t tid);

/* The duration that this share, 0..1, of the recorded stalls was not longer than. */
uint64_t story_percentile_ns(const struct story_stalls *stalls, double share);

/* The n with the most time, in order; returns how many there are. */
unsigned story_top(const struct story_table *table, const struct story_staller **ret, unsigned n);

#endif
