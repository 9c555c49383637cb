/* SPDX-License-Identifier: BSD-2-Clause */
/* Verdicts of a trace with other settings. See replay.h. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "core/activation.h"
#include "core/admission.h"
#include "core/replay.h"
#include "core/u64.h"

static bool is_host_ask(const struct trace_verdict *v)
{
	return v->ask == TRACE_ASK_REQUEST || v->ask == TRACE_ASK_SPIKE;
}

/* The engine's settings as far as its answer shows them, and else the agent's. */
static void config_recorded(const struct replay_policy *policy, const struct trace_verdict *v,
			    struct admission_config *ret)
{
	admission_settings(ret, NULL, NULL, NULL, NULL);
	ret->host_reserve_bytes = policy->recorded.host_reserve_bytes;
	ret->die_reserve_bytes = policy->recorded.die_reserve_bytes;
	ret->psi_full_reject_pct = v->psi_limit_pct;
	ret->cgroup = policy->recorded.cgroup_level;
	if (v->ask == TRACE_ASK_SPIKE)
		ret->load_spike_bytes = v->need_bytes;
	if (v->ask == TRACE_ASK_LOAD)
		ret->die_reserve_bytes = v->reserve_bytes;
}

static void config_with(const struct replay_policy *policy, struct admission_config *config)
{
	if (policy->given & REPLAY_HOST_RESERVE)
		config->host_reserve_bytes = policy->with.host_reserve_bytes;
	if (policy->given & REPLAY_DIE_RESERVE)
		config->die_reserve_bytes = policy->with.die_reserve_bytes;
	if (policy->given & REPLAY_PSI_FULL_REJECT)
		config->psi_full_reject_pct = policy->with.psi_full_reject_pct;
	if (policy->given & REPLAY_CGROUP_LEVEL)
		config->cgroup = policy->with.cgroup_level;
}

static void state_make(const struct replay_view *view, struct replay_question *q)
{
	trace_look_unmake(&view->look, &q->state, &q->ext);
	q->state.n_dies = (int)u64_min(view->look.n_dies, PN_MEM_MAX_DIES);
	for (int i = 0; i < q->state.n_dies; i++) {
		q->state.per_die_free[i] = view->dies.die[i].free_bytes;
		q->state.per_die_budget[i] = view->budget_bytes[i];
	}
}

/*
 * The bytes that were available: those above the reserve, and the reserve. At 0 bytes above it, at
 * most the reserve was available.
 */
static uint64_t seen_bytes(const struct trace_verdict *v, uint64_t looked_bytes,
			   uint64_t reserve_bytes)
{
	return v->have_bytes ? u64_add(v->have_bytes, reserve_bytes)
			     : u64_min(looked_bytes, reserve_bytes);
}

/* The source that was compared, which is the scarcest. An admission shows only its reserve. */
static pn_admit_check source_of(const struct replay_question *q)
{
	const struct trace_verdict *v = &q->verdict;
	uint64_t limit_bytes = q->config.cgroup ? q->ext.cgroup_limit_bytes : 0;

	if (v->check == PN_CHECK_HOST || v->check == PN_CHECK_CGROUP || v->check == PN_CHECK_DIE)
		return (pn_admit_check)v->check;
	if (v->die_id >= 0 && !v->reserve_bytes)
		return PN_CHECK_DIE;
	if (limit_bytes && v->reserve_bytes == level_cgroup_reserve_bytes(limit_bytes) &&
	    v->reserve_bytes !=
		    level_reserve_bytes(q->state.host_total_bytes, q->config.host_reserve_bytes))
		return PN_CHECK_CGROUP;
	return PN_CHECK_HOST;
}

/*
 * Sets the bytes that the engine saw: those of the source that it named. No other source is
 * scarcer.
 */
static void state_seen(struct replay_question *q)
{
	const struct trace_verdict *v = &q->verdict;
	pn_admit_check source = source_of(q);
	pn_mem_state *state = &q->state;
	pn_mem_ext *ext = &q->ext;
	uint64_t host_reserve, group_reserve, more;

	if (source == PN_CHECK_HOST && v->reserve_bytes)
		q->config.host_reserve_bytes = v->reserve_bytes;
	host_reserve = level_reserve_bytes(state->host_total_bytes, q->config.host_reserve_bytes);
	group_reserve = level_cgroup_reserve_bytes(ext->cgroup_limit_bytes);
	more = u64_add(v->have_bytes, source != PN_CHECK_HOST);
	state->host_avail_bytes =
		source == PN_CHECK_HOST
			? seen_bytes(v, state->host_avail_bytes, host_reserve)
			: u64_max(state->host_avail_bytes, u64_add(more, host_reserve));
	if (ext->cgroup_limit_bytes)
		ext->cgroup_headroom_bytes =
			source == PN_CHECK_CGROUP
				? seen_bytes(v, ext->cgroup_headroom_bytes, group_reserve)
				: u64_max(ext->cgroup_headroom_bytes,
					  u64_add(v->have_bytes, group_reserve));
	if (v->die_id >= 0 && v->die_id < state->n_dies)
		state->per_die_free[v->die_id] =
			source == PN_CHECK_DIE
				? v->have_bytes
				: u64_max(state->per_die_free[v->die_id], v->have_bytes);
}

/* Makes a table of the known points, KV included, with straight lines between them. */
static void cost_by_points(const struct replay_view *view, struct replay_question *q)
{
	const struct trace_verdict *v = &q->verdict;
	pn_admit_anchor *anchor = q->config.lut.anchor;
	bool bytes = v->check == PN_CHECK_HOST || v->check == PN_CHECK_CGROUP ||
		     v->check == PN_CHECK_DIE;
	int n = 0, window = view->cost_window;

	q->config.kv_q4_bytes_per_token = q->config.kv_fp32_bytes_per_token = 0;
	/* the largest possible window, or a window that was just too large */
	if (bytes && v->fit_tokens > 0 && v->fit_tokens < window)
		anchor[n++] = (pn_admit_anchor){ v->fit_tokens, v->have_bytes };
	else if (bytes && !v->fit_tokens && window > PN_ADMIT_MIN_WINDOW)
		anchor[n++] = (pn_admit_anchor){ PN_ADMIT_MIN_WINDOW, u64_add(v->have_bytes, 1) };
	for (int beyond = 0; n < PN_ADMIT_LUT_ANCHORS; beyond++)
		anchor[n++] = (pn_admit_anchor){ window + (beyond < INT_MAX - window ? beyond : 0),
						 view->cost_need_bytes };
}

/*
 * Finds the KV bytes per token: the need of a request less the activation peak of the built-in
 * table. If they are not a whole number per token, the engine has a table of its own. A request
 * that was refused for PSI does not show its need, so an earlier request is taken. Returns as
 * replay_verdict does.
 */
static int cost_find(struct replay_view *view, struct replay_question *q)
{
	const struct trace_verdict *v = &q->verdict;
	int window = v->max_window > 0 && v->max_window < v->n_tokens ? v->max_window : v->n_tokens;
	uint64_t peak_bytes;

	if (v->flags & TRACE_ASK_F_GPU_RESIDENT || window <= 0)
		return 0;
	if (v->check != PN_CHECK_PSI_FULL) {
		peak_bytes = activation_peak_bytes(&q->config.lut, window);
		view->cost_pid = v->pid;
		view->cost_window = window;
		view->cost_need_bytes = v->need_bytes;
		view->cost_even = v->need_bytes >= peak_bytes &&
				  !((v->need_bytes - peak_bytes) % (uint64_t)window);
		view->kv_bytes_per_token = (v->need_bytes - peak_bytes) / (uint64_t)window;
	}
	if (!view->cost_window || view->cost_pid != v->pid)
		return -ENODATA;
	if (!view->cost_even) {
		cost_by_points(view, q);
		return 1;
	}
	q->config.kv_q4_bytes_per_token = q->config.kv_fp32_bytes_per_token =
		view->kv_bytes_per_token;
	return 0;
}

static void answer(const struct replay_question *q, pn_admit_result *ret)
{
	const struct trace_verdict *v = &q->verdict;

	switch (v->ask) {
	case TRACE_ASK_REQUEST:
		admission_request(&q->config, v->n_tokens, v->flags & TRACE_ASK_F_KV_Q4,
				  v->flags & TRACE_ASK_F_GPU_RESIDENT, v->die_id, v->max_window,
				  &q->state, &q->ext, ret);
		break;
	case TRACE_ASK_LOAD:
		admission_model_load(&q->config, v->need_bytes, 0, 0, 0, v->die_id, &q->state, NULL,
				     ret);
		break;
	case TRACE_ASK_LOAD_DIE:
		admission_model_load_die(&q->config,
					 u64_sub(v->need_bytes, PN_ADMIT_DIE_SCRATCH_BYTES), 0,
					 v->die_id, &q->state, NULL, ret);
		break;
	default:
		admission_load_spike(&q->config, &q->state, &q->ext, ret);
		break;
	}
}

bool replay_verdict_same(const struct trace_verdict *v, const pn_admit_result *result)
{
	return result->verdict == v->verdict &&
	       (v->ask != TRACE_ASK_REQUEST || result->fit_tokens == v->fit_tokens);
}

static int replay_slot(const struct replay_view *view, pn_admit_result *ret)
{
	if (!view->at_critical)
		return -ENODATA;
	*ret = (pn_admit_result){
		.die_id = -1,
		.level = (pn_mem_level)(view->at_critical - 1),
		.verdict = view->at_critical - 1 == PN_MEM_LEVEL_CRITICAL ? PN_VERDICT_REJECT
									  : PN_VERDICT_ADMIT,
		.reason = "the level",
	};
	return 0;
}

int replay_question(struct replay_view *view, const struct replay_policy *policy,
		    const struct trace_verdict *v, struct replay_question *ret)
{
	pn_admit_result recorded;

	if (!view->has_look || v->ask < TRACE_ASK_REQUEST || v->ask > TRACE_ASK_SPIKE)
		return -ENODATA;
	*ret = (struct replay_question){ .verdict = *v };
	config_recorded(policy, v, &ret->config);
	state_make(view, ret);
	ret->state.host_psi_full_avg10 = v->psi_full_pct;
	ret->ext.live_psi_full_avg10 = 0;
	if (v->ask == TRACE_ASK_REQUEST)
		ret->cost = cost_find(view, ret);
	if (is_host_ask(v) && v->check != PN_CHECK_PSI_FULL)
		state_seen(ret);
	else if (v->die_id >= 0 && v->die_id < ret->state.n_dies)
		ret->state.per_die_free[v->die_id] =
			seen_bytes(v, ret->state.per_die_free[v->die_id], v->reserve_bytes);
	answer(ret, &recorded);
	return replay_verdict_same(v, &recorded) && recorded.check == (pn_admit_check)v->check
		       ? 0
		       : -ENODATA;
}

static int known(const struct replay_question *q, const pn_admit_result *result)
{
	return result->check == PN_CHECK_PSI_FULL ? 0 : q->cost;
}

int replay_ask(const struct replay_question *question, const struct replay_policy *policy,
	       uint64_t freed_bytes, pn_admit_result *ret)
{
	struct replay_question q = *question;
	pn_mem_state *state = &q.state;

	config_with(policy, &q.config);
	state->host_avail_bytes = u64_add(state->host_avail_bytes, freed_bytes);
	q.ext.cgroup_headroom_bytes = u64_add(q.ext.cgroup_headroom_bytes, freed_bytes);
	for (int i = 0; i < state->n_dies; i++)
		state->per_die_free[i] = u64_add(state->per_die_free[i], freed_bytes);
	answer(&q, ret);
	return known(&q, ret);
}

int replay_ask_now(const struct replay_question *question, const struct replay_view *view,
		   pn_admit_result *ret)
{
	struct replay_question q = *question;

	if (!view->has_look)
		return -ENODATA;
	state_make(view, &q);
	answer(&q, ret);
	return known(&q, ret);
}

int replay_verdict(struct replay_view *view, const struct replay_policy *policy,
		   const struct trace_verdict *v, pn_admit_result *ret)
{
	struct replay_question question;

	if (v->ask == TRACE_ASK_SLOT)
		return replay_slot(view, ret);
	if (replay_question(view, policy, v, &question))
		return -ENODATA;
	return replay_ask(&question, policy, 0, ret);
}
