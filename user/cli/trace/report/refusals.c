/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What was refused or capped in a trace, and what would have admitted it: found by asking
 * user/core's admission again, as pnmem trace replay does, which says the same with these settings.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace/report/story.h"
#include "core/u64.h"
#include "pn_admission.h"
#include "pn_memwatch.h"

#define MIB (1ull << 20)
/* Fine enough, and it bounds how often a search has to be made. */
#define FREED_STEP (64ull << 10)
/* More than any machine has: what needs more comes from a file that is not right. */
#define FREED_STEPS (1ull << 34)

static struct story_refusal *refusal_get(struct story *story, const struct trace_verdict *verdict)
{
	for (unsigned i = 0; i < story->refusal_count; i++) {
		const struct trace_verdict *first = &story->refusal[i].first;

		if (first->pid == verdict->pid && first->ask == verdict->ask &&
		    first->check == verdict->check && first->verdict == verdict->verdict)
			return &story->refusal[i];
	}
	if (story->refusal_count == STORY_REFUSALS)
		return NULL;
	return &story->refusal[story->refusal_count++];
}

/* ---- settings -----------------------------------------------------------------------------------
 */

static bool asked(const struct replay_question *q, const struct replay_policy *with,
		  uint64_t freed_bytes, pn_admit_result *ret)
{
	replay_ask(q, with, freed_bytes, ret);
	return ret->verdict == PN_VERDICT_ADMIT;
}

/* The least that lets it by, as a setting has it: with two decimals. */
static bool raise_psi_limit(struct replay_policy *with, double psi_pct)
{
	double limit_pct;

	if (!(psi_pct >= 0 && psi_pct < 100))
		return false;
	limit_pct = ceil(psi_pct * 100) / 100;
	with->with.psi_full_reject_pct = limit_pct > psi_pct ? limit_pct : limit_pct + 0.01;
	with->given |= REPLAY_PSI_FULL_REJECT;
	return with->with.psi_full_reject_pct <= 100;
}

/* The largest, in MiB, with which this check lets it by; 0 of it is no setting. */
static bool lower_reserve(const struct replay_question *q, struct replay_policy *with,
			  pn_admit_check check, uint64_t reserve_bytes)
{
	bool host = check == PN_CHECK_HOST;
	uint64_t *setting = host ? &with->with.host_reserve_bytes : &with->with.die_reserve_bytes;
	uint64_t most = reserve_bytes / MIB + 1, least = 1;
	const struct replay_policy before = *with;
	pn_admit_result result;

	with->given |= host ? REPLAY_HOST_RESERVE : REPLAY_DIE_RESERVE;
	*setting = MIB;
	if (!asked(q, with, 0, &result) && result.check == check) {
		*with = before;
		return false;
	}
	while (most - least > 1) {
		uint64_t middle = least + (most - least) / 2;

		*setting = middle * MIB;
		if (asked(q, with, 0, &result) || result.check != check)
			least = middle;
		else
			most = middle;
	}
	*setting = least * MIB;
	return true;
}

/* How much less in use would have done, with the reserves as they were. */
static void find_freed(struct story_refusal *refusal, const struct replay_question *q)
{
	struct replay_policy with = refusal->with;
	uint64_t least = refusal->freed_bytes / FREED_STEP, most = FREED_STEPS;
	pn_admit_result result;

	with.given &= REPLAY_PSI_FULL_REJECT;
	if (asked(q, &with, least * FREED_STEP, &result) ||
	    !asked(q, &with, most * FREED_STEP, &result))
		return;
	while (most - least > 1) {
		uint64_t middle = least + (most - least) / 2;

		*(asked(q, &with, middle * FREED_STEP, &result) ? &most : &least) = middle;
	}
	refusal->freed_bytes = most * FREED_STEP;
}

/* Makes *refusal->with admit this one too; where no settings do, none is named. */
static void find_settings(struct story_refusal *refusal, const struct replay_question *q)
{
	struct replay_policy *with = &refusal->with;
	pn_admit_result result;

	for (int tries = 0; tries < 4; tries++) {
		int known = replay_ask(q, with, 0, &result);

		refusal->unsure |= known < 0;
		refusal->estimate |= known > 0;
		if (known < 0 || result.verdict == PN_VERDICT_ADMIT)
			break;
		if (result.check == PN_CHECK_PSI_FULL && raise_psi_limit(with, result.psi_full_pct))
			continue;
		if ((result.check == PN_CHECK_HOST ||
		     (result.check == PN_CHECK_DIE && q->verdict.ask == TRACE_ASK_LOAD)) &&
		    lower_reserve(q, with, result.check, result.reserve_bytes))
			continue;
		refusal->no_settings = true;
		break;
	}
	find_freed(refusal, q);
}

/* ---- one more -----------------------------------------------------------------------------------
 */

/* Does the snapshot show room where the engine had none? Others' reservations are in no record. */
static bool is_claimed(struct story_refusal *refusal, const struct replay_view *view)
{
	const struct trace_verdict *v = &refusal->newest;
	uint64_t there_bytes = v->check == PN_CHECK_HOST ? view->look.host_avail_bytes
							 : view->look.cgroup_headroom_bytes;
	uint64_t room_bytes = u64_sub(there_bytes, v->reserve_bytes);

	if (!view->has_look || (v->check != PN_CHECK_HOST && v->check != PN_CHECK_CGROUP) ||
	    !room_bytes || room_bytes < v->need_bytes || v->have_bytes >= room_bytes)
		return false;
	if (!refusal->claimed_count++)
		refusal->room_bytes = room_bytes;
	return true;
}

/* It is asked again at each later look, until it is admitted. */
static void wait_for_room(struct story_refusal *refusal, const struct replay_question *q)
{
	if (refusal->count > 1)
		return;
	refusal->question = malloc(sizeof(*refusal->question));
	if (refusal->question)
		*refusal->question = *q;
}

static void judge(struct story *story, struct story_refusal *refusal, struct replay_view *view)
{
	struct replay_question question;

	if (refusal->newest.check == PN_CHECK_NONE) /* the batch's gate: the level alone */
		return;
	if (!view || replay_question(view, &story->policy, &refusal->newest, &question)) {
		refusal->unsure = true;
		return;
	}
	if (is_claimed(refusal, view))
		return;
	wait_for_room(refusal, &question);
	if (question.verdict.check == PN_CHECK_WINDOW)
		question.verdict.max_window = 0;
	find_settings(refusal, &question);
}

void story_verdict(struct story *story, struct replay_view *view, uint64_t ts_ns,
		   const struct trace_verdict *verdict)
{
	struct story_refusal *refusal;
	struct replay_question unused;

	if (verdict->verdict == PN_VERDICT_ADMIT) {
		if (view) /* what it needed tells what later ones cost */
			replay_question(view, &story->policy, verdict, &unused);
		return;
	}
	refusal = refusal_get(story, verdict);
	if (!refusal) {
		story->refusal_rest++;
		return;
	}
	if (!refusal->count++) {
		refusal->first = *verdict;
		refusal->first_ns = ts_ns;
		refusal->waiting = true;
		refusal->with = story->policy;
		refusal->least_fit_tokens = verdict->fit_tokens;
	}
	refusal->newest = *verdict;
	if (verdict->fit_tokens < refusal->least_fit_tokens)
		refusal->least_fit_tokens = verdict->fit_tokens;
	if (verdict->n_tokens > refusal->most_tokens)
		refusal->most_tokens = verdict->n_tokens;
	judge(story, refusal, view);
}

static bool would_admit(struct story_refusal *refusal, const struct replay_view *view)
{
	pn_admit_result result;
	int known;

	if (refusal->first.check == PN_CHECK_NONE)
		return view->look.level < PN_MEM_LEVEL_CRITICAL;
	if (!refusal->question) { /* it cannot be asked again */
		refusal->waiting = false;
		return false;
	}
	known = replay_ask_now(refusal->question, view, &result);
	/* The stalls are over, and what it costs is not known: nor is when it would be admitted. */
	if (known == -ENODATA && view->has_look)
		refusal->waiting = false;
	return known >= 0 && result.verdict == PN_VERDICT_ADMIT;
}

void story_release(struct story *story, uint32_t place, const struct replay_view *view,
		   uint64_t ts_ns)
{
	for (unsigned i = 0; i < story->refusal_count; i++) {
		struct story_refusal *refusal = &story->refusal[i];

		if (!refusal->waiting || refusal->first.view != place ||
		    ts_ns <= refusal->first_ns || !would_admit(refusal, view))
			continue;
		refusal->waiting = false;
		refusal->admitted_ns = ts_ns;
	}
}
