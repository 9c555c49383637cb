/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The levels and verdicts that a trace's numbers would have given with other settings. The records
 * of a view (core/trace_format.h) go through merge.c and admission.c again, one after the other.
 * With the recorded settings they give the recorded levels and verdicts. Pure: the caller reads
 * files and finds words.
 *
 * Nothing is known between records: a recorder leaves out looks that change neither the level nor
 * its reasons, for at most 20 ms at a time.
 */
#ifndef PNMEM_CORE_REPLAY_H
#define PNMEM_CORE_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/admission.h"
#include "core/level.h"
#include "core/merge.h"
#include "core/trace.h"
#include "pn_admission.h"

/* The settings that the caller gives. The others are taken from the record. */
enum {
	REPLAY_HOST_RESERVE = 1u << 0,
	REPLAY_DIE_RESERVE = 1u << 1,
	REPLAY_PSI_FULL_REJECT = 1u << 2,
	REPLAY_LEVEL_HOLD = 1u << 3,
	REPLAY_CGROUP_LEVEL = 1u << 4,
};

struct replay_policy {
	struct level_config recorded; /* the settings that the levels were derived with */
	struct level_config with;     /* the same, with those that are given */
	uint32_t given;               /* REPLAY_* */
};

/* Reads a config record. */
void replay_recorded(const struct trace_config *config, struct level_config *ret);

/* Makes policy->with of policy->recorded and the given ones of *settings. */
void replay_policy_apply(struct replay_policy *policy, const struct level_config *settings);

/* The state of one view between its records. All zero at the start. */
struct replay_view {
	struct merge_state carry;
	struct die_table dies;                /* budgets as with the policy's reserve */
	uint64_t budget_bytes[DIE_TABLE_MAX]; /* as recorded */
	bool die_seen[DIE_TABLE_MAX];
	struct trace_look look; /* the newest */
	bool has_look;
	/* At the newest look that was recorded as CRITICAL: the level with the policy, plus one. */
	uint32_t at_critical;
	bool unsure; /* a level was already held when the trace began */
	/* The cost of a request for the engine that asked last, as far as its verdicts show it. */
	uint32_t cost_pid;
	int cost_window;          /* 0: nothing is known ... */
	uint64_t cost_need_bytes; /* ... of this window */
	bool cost_even;           /* the built-in activation table and so many KV bytes per token */
	uint64_t kv_bytes_per_token;
};

/* A die of the next look. One beyond the table is left out. */
void replay_die(struct replay_view *view, const struct replay_policy *policy,
		const struct trace_die *die);

struct replay_level {
	pn_mem_level level;
	uint32_t reasons; /* PN_REASON_* */
	bool replayed;    /* false: as recorded, since a die is not known yet */
};

/*
 * The level of a look with the policy. While a level from before the trace is held, the level falls
 * when the recorded one falls.
 */
void replay_look(struct replay_view *view, const struct replay_policy *policy, uint64_t ts_ns,
		 const struct trace_look *look, struct replay_level *ret);

/*
 * Takes a look without its level. A caller that only asks for verdicts calls it in place of
 * replay_look.
 */
void replay_see(struct replay_view *view, const struct trace_look *look);

/*
 * A verdict's question, so that it can be asked again: the numbers, and the settings that judged
 * them.
 */
struct replay_question {
	struct trace_verdict verdict;
	struct admission_config config;
	pn_mem_state state;
	pn_mem_ext ext;
	int cost; /* what replay_verdict returns if bytes decide */
};

/*
 * replay_verdict.c: makes the question of a verdict, with the numbers that the engine saw. The
 * verdict is not about a place in the batch. Returns 0; -ENODATA if the numbers do not give the
 * recorded verdict.
 */
int replay_question(struct replay_view *view, const struct replay_policy *policy,
		    const struct trace_verdict *verdict, struct replay_question *ret);

/*
 * Answers a question with the policy, as if freed_bytes less had been in use everywhere. Returns as
 * replay_verdict does.
 */
int replay_ask(const struct replay_question *question, const struct replay_policy *policy,
	       uint64_t freed_bytes, pn_admit_result *ret);

/*
 * Answers a question at the view's newest look, with the settings of the question. Returns as
 * replay_verdict does.
 */
int replay_ask_now(const struct replay_question *question, const struct replay_view *view,
		   pn_admit_result *ret);

/*
 * replay_verdict.c: a verdict with the policy. It is judged by the view's newest look, in which the
 * numbers that the engine compared replace the look's own: the engine may have seen another
 * snapshot and may have settings of its own. The window stays as recorded, also where the ladder
 * had made it smaller. The batch's gate refuses at CRITICAL only, so its verdict is a refusal if
 * the level with the policy is CRITICAL, and else an admission.
 *
 * Returns 0; 1 if the result is an estimate, since the engine has an activation table of its own
 * and a trace shows only points of it; -ENODATA if the numbers do not give the recorded verdict, as
 * in a view without a look, or do not say what another verdict would be.
 */
int replay_verdict(struct replay_view *view, const struct replay_policy *policy,
		   const struct trace_verdict *verdict, pn_admit_result *ret);

/* Are both verdicts the same for the engine? Tokens count for a request only. */
bool replay_verdict_same(const struct trace_verdict *verdict, const pn_admit_result *result);

#endif
