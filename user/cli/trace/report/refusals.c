/* SPDX-License-Identifier: BSD-2-Clause */
/* Refusals and their remedies. See refusals.h. */
#include "cli/trace/report/refusals.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/u64.h"
#include "pn_admission.h"
#include "pn_memwatch.h"

#define MIB (1ull << 20)
/* The step of a search. It bounds the number of searches. */
#define FREED_STEP (64ull << 10)
/* More than any machine has. A larger number comes from a file that is not right. */
#define FREED_STEPS (1ull << 34)

void refusals_open(struct refusals *refusals)
{
	refusals->policy.recorded = refusals->policy.with = level_config_default;
}

void refusals_close(struct refusals *refusals)
{
	for (uint32_t i = 0; i < TRACE_VIEWS_MAX; i++)
		free(refusals->view[i]);
	for (unsigned i = 0; i < refusals->count; i++)
		free(refusals->refusal[i].question);
}

void refusals_config(struct refusals *refusals, const struct trace_config *config)
{
	replay_recorded(config, &refusals->policy.recorded);
	refusals->policy.with = refusals->policy.recorded;
}

/* What the replay keeps of a view from record to record; NULL without memory or a place. */
static struct replay_view *view_of(struct refusals *refusals, uint32_t place)
{
	if (place == TRACE_VIEW_NONE)
		return NULL;
	if (!refusals->view[place])
		refusals->view[place] = calloc(1, sizeof(*refusals->view[place]));
	return refusals->view[place];
}

void refusals_die(struct refusals *refusals, uint32_t place, const struct trace_die *die)
{
	struct replay_view *view = view_of(refusals, place);

	if (view)
		replay_die(view, &refusals->policy, die);
}

static struct refusal *refusal_get(struct refusals *refusals, const struct trace_verdict *verdict)
{
	for (unsigned i = 0; i < refusals->count; i++) {
		const struct trace_verdict *first = &refusals->refusal[i].first;

		if (first->pid == verdict->pid && first->ask == verdict->ask &&
		    first->check == verdict->check && first->verdict == verdict->verdict)
			return &refusals->refusal[i];
	}
	if (refusals->count == REFUSALS_MAX)
		return NULL;
	return &refusals->refusal[refusals->count++];
}

/* ---- settings ------------------------------------------------------------------------------- */

static bool asked(const struct replay_question *q, const struct replay_policy *with,
		  uint64_t freed_bytes, pn_admit_result *ret)
{
	replay_ask(q, with, freed_bytes, ret);
	return ret->verdict == PN_VERDICT_ADMIT;
}

/* Sets the least limit that admits this, with two decimals as the setting has. */
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

/* Sets the largest reserve, in MiB and above 0, with which this check admits it. */
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

/* Finds how much less in use would have sufficed, with the recorded reserves. */
static void find_freed(struct refusal *refusal, const struct replay_question *q)
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

/* Makes *refusal->with admit this one too. If no settings admit it, the report names none. */
static void find_settings(struct refusal *refusal, const struct replay_question *q)
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

/* ---- one more ------------------------------------------------------------------------------- */

/*
 * Does the snapshot show room where the engine had none? The reservations of others are in no
 * record.
 */
static bool is_claimed(struct refusal *refusal, const struct replay_view *view)
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

/* Keeps the first question. refusals_look asks it again until a look admits it. */
static void wait_for_room(struct refusal *refusal, const struct replay_question *q)
{
	if (refusal->count > 1)
		return;
	refusal->question = malloc(sizeof(*refusal->question));
	if (refusal->question)
		*refusal->question = *q;
}

static void judge(struct refusals *refusals, struct refusal *refusal, struct replay_view *view)
{
	struct replay_question question;

	if (refusal->newest.check == PN_CHECK_NONE) /* the batch's gate: the level alone */
		return;
	if (!view || replay_question(view, &refusals->policy, &refusal->newest, &question)) {
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

void refusals_verdict(struct refusals *refusals, const struct trace_verdict *verdict,
		      uint64_t ts_ns)
{
	struct replay_view *view = view_of(refusals, verdict->view);
	struct refusal *refusal;
	struct replay_question unused;

	refusals->verdict_count[verdict->verdict]++;
	if (verdict->verdict == PN_VERDICT_ADMIT) {
		if (view) /* its need tells what later requests cost */
			replay_question(view, &refusals->policy, verdict, &unused);
		return;
	}
	refusal = refusal_get(refusals, verdict);
	if (!refusal) {
		refusals->rest_count++;
		return;
	}
	if (!refusal->count++) {
		refusal->first = *verdict;
		refusal->first_ns = ts_ns;
		refusal->waiting = true;
		refusal->with = refusals->policy;
		refusal->least_fit_tokens = verdict->fit_tokens;
	}
	refusal->newest = *verdict;
	if (verdict->fit_tokens < refusal->least_fit_tokens)
		refusal->least_fit_tokens = verdict->fit_tokens;
	if (verdict->n_tokens > refusal->most_tokens)
		refusal->most_tokens = verdict->n_tokens;
	judge(refusals, refusal, view);
}

static bool would_admit(struct refusal *refusal, const struct replay_view *view)
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
	/*
	 * The stalls are over, but the cost of the request is not known, so no later look can admit
	 * it.
	 */
	if (known == -ENODATA && view->has_look)
		refusal->waiting = false;
	return known >= 0 && result.verdict == PN_VERDICT_ADMIT;
}

void refusals_look(struct refusals *refusals, const struct trace_look *look, uint64_t ts_ns)
{
	struct replay_view *view = view_of(refusals, look->view);

	if (!view)
		return;
	replay_see(view, look);
	for (unsigned i = 0; i < refusals->count; i++) {
		struct refusal *refusal = &refusals->refusal[i];

		if (!refusal->waiting || refusal->first.view != look->view ||
		    ts_ns <= refusal->first_ns || !would_admit(refusal, view))
			continue;
		refusal->waiting = false;
		refusal->admitted_ns = ts_ns;
	}
}
