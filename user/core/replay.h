/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What levels and verdicts a trace's numbers would have given with other settings: the records of
 * a view (core/trace_format.h), one after the other, through merge.c and admission.c again. With
 * the settings that were recorded they give what was recorded. Pure; the records' order, files and
 * words are left to the caller.
 *
 * What is between records is not known: a recorder leaves out looks that change neither the level
 * nor its reasons, at most 20 ms of them at a time.
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

/* Settings that are given, and not taken from the record. */
enum {
	REPLAY_HOST_RESERVE = 1u << 0,
	REPLAY_DIE_RESERVE = 1u << 1,
	REPLAY_PSI_FULL_REJECT = 1u << 2,
	REPLAY_LEVEL_HOLD = 1u << 3,
	REPLAY_CGROUP_LEVEL = 1u << 4,
};

struct replay_policy {
	struct level_config recorded; /* what levels were derived with */
	struct level_config with;     /* the same, with those that are given */
	uint32_t given;               /* REPLAY_* */
};

/* Reads a config record. */
void replay_recorded(const struct trace_config *config, struct level_config *ret);

/* policy->with, from policy->recorded and what of *settings is given. */
void replay_policy_apply(struct replay_policy *policy, const struct level_config *settings);

/* What is carried from record to record of one view. All zero is the start. */
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
	/* What requests cost the engine that asked last, as far as its verdicts show. */
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
 * A look: its level with the policy. Until what was held before the trace began is over, the level
 * falls when the recorded one did.
 */
void replay_look(struct replay_view *view, const struct replay_policy *policy, uint64_t ts_ns,
		 const struct trace_look *look, struct replay_level *ret);

/* A look without its level, in place of replay_look, where only verdicts are asked for. */
void replay_see(struct replay_view *view, const struct trace_look *look);

/* A verdict's question, so that it can be asked again: what there was, and by what it was judged.
 */
struct replay_question {
	struct trace_verdict verdict;
	struct admission_config config;
	pn_mem_state state;
	pn_mem_ext ext;
	int cost; /* of replay_verdict's returns, the one if bytes decide */
};

/*
 * replay_verdict.c: the question of a verdict that is no place in the batch's, with the numbers as
 * the engine saw them. Returns 0; -ENODATA if they do not give the recorded verdict.
 */
int replay_question(struct replay_view *view, const struct replay_policy *policy,
		    const struct trace_verdict *verdict, struct replay_question *ret);

/*
 * Its answer with the policy, and if freed_bytes less had been in use everywhere. Returns as
 * replay_verdict.
 */
int replay_ask(const struct replay_question *question, const struct replay_policy *policy,
	       uint64_t freed_bytes, pn_admit_result *ret);

/* Its answer at the view's newest look, with the settings of then. Returns as replay_verdict. */
int replay_ask_now(const struct replay_question *question, const struct replay_view *view,
		   pn_admit_result *ret);

/*
 * replay_verdict.c: a verdict with the policy, judged by the view's newest look, with what the
 * engine compared in place of it, since it may have seen another snapshot and have settings of its
 * own; the window stays as it was, also where the ladder had made it smaller. Returns 0; 1 if the
 * engine has an activation table of its own, of which a trace shows points only: the result is then
 * an estimate; -ENODATA if the numbers do not give the recorded verdict (a view without a look) or
 * do not say what another one would be. What the batch's gate refused, which it does at CRITICAL
 * alone, is refused where the level with the policy is that, and else admitted, as far as the gate
 * goes.
 */
int replay_verdict(struct replay_view *view, const struct replay_policy *policy,
		   const struct trace_verdict *verdict, pn_admit_result *ret);

/* Are they the same to the one who asked? Tokens count for a request only. */
bool replay_verdict_same(const struct trace_verdict *verdict, const pn_admit_result *result);

#endif
