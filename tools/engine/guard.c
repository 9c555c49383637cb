/* SPDX-License-Identifier: BSD-2-Clause */
/* See guard.h. */
#include "guard.h"

#include <errno.h>
#include <stdio.h>

#include "pn_memwatch.h"
#include "pn_reserve.h"

/* No load takes longer; what an engine that hangs has held is free again after it. */
#define LOAD_MAX_MS 1800000

static void log_line(void *arg, const char *line)
{
	fprintf(stderr, "engine: %s\n", line);
}

int guard_start(struct guard *guard)
{
	char warnings[512];

	if (!guard->on)
		return 0;
	/* The library never writes anywhere itself: its lines, and the ladder's, go to our log. */
	guard->engine.log = log_line;
	pn_memwatch_log_to(log_line, NULL);
	if (pn_admit_settings_check(warnings, sizeof(warnings)))
		fputs(warnings, stderr);
	/* After this the first read has real numbers; no agent is no error. */
	return pn_memwatch_start();
}

void guard_stop(struct guard *guard)
{
	if (guard->on)
		pn_memwatch_stop();
}

const char *guard_name(const struct guard *guard)
{
	if (!guard->on)
		return "not guarded";
	return pn_memwatch_source() == PN_SOURCE_AGENT ? "guarded by pnmemd"
						       : "guarded by its own poll";
}

pn_mem_level guard_level(const struct guard *guard)
{
	pn_mem_state state;

	if (!guard->on || pn_memwatch_read(&state))
		return PN_MEM_LEVEL_OK;
	return state.level;
}

/* "Where the ladder is consumed": the plan for a level, or the configuration if switched off. */
static pn_ladder_plan ladder_plan(const struct guard *guard, pn_mem_level level)
{
	return pn_ladder_plan_for(pn_ladder_disabled() ? PN_MEM_LEVEL_OK : level,
				  &guard->configured);
}

bool guard_kv_q4(const struct guard *guard)
{
	/* qwen35moe_kv_init: rung 4a acts at allocation only; a live cache is never converted. */
	if (!guard->on)
		return guard->configured.kv_q4;
	return ladder_plan(guard, guard_level(guard)).force_kv_q4;
}

bool guard_kv_evict(const struct guard *guard)
{
	/* Rung 4b is a flag; what to evict is sequence_evict's choice. */
	if (!guard->on)
		return guard->configured.kv_evict;
	return ladder_plan(guard, guard_level(guard)).kv_evict;
}

int guard_slot_ceiling(const struct guard *guard, pn_mem_level level)
{
	/* pn_qwen35moe_gpu_ladder_max_slots: rung 2, for bs_new and for the bind guard. */
	if (!guard->on)
		return guard->configured.max_slots;
	return ladder_plan(guard, level).max_slots;
}

void guard_die_sampled(const struct guard *guard, int die, uint64_t total_bytes,
		       uint64_t free_bytes)
{
	/* The die feed: after each cuMemGetInfo. A read that follows sees it. */
	if (guard->on)
		pn_memwatch_set_die(die, free_bytes, pn_memwatch_die_budget(total_bytes),
				    total_bytes - free_bytes);
}

static bool admitted(const pn_admit_result *res, struct refusal *ret_refusal)
{
	if (res->verdict != PN_VERDICT_REJECT)
		return true;
	ret_refusal->retry_after_ms = res->retry_after_ms;
	ret_refusal->level = (int)res->level;
	pn_admit_explain(res, ret_refusal->reason, sizeof(ret_refusal->reason));
	return false;
}

bool guard_hold(const struct guard *guard, int die, uint64_t bytes, uint64_t *ret_hold,
		struct refusal *ret_refusal)
{
	uint64_t fit_bytes;
	char where[16] = "host";

	*ret_hold = 0;
	if (!guard->on || !bytes)
		return true;
	/* Without an agent this is held against our own threads alone, which is all that can be. */
	if (pn_reserve(die < 0 ? PN_RESERVE_HOST : die, bytes, LOAD_MAX_MS, ret_hold, &fit_bytes) !=
	    -ENOSPC)
		return true;
	if (die >= 0)
		snprintf(where, sizeof(where), "die %d", die);
	ret_refusal->retry_after_ms = PN_ADMIT_RETRY_MS;
	ret_refusal->level = (int)guard_level(guard);
	snprintf(ret_refusal->reason, sizeof(ret_refusal->reason),
		 "%s: %llu MiB wanted, %llu MiB neither in use nor reserved", where,
		 (unsigned long long)bytes >> 20, (unsigned long long)fit_bytes >> 20);
	return false;
}

void guard_let_go(const struct guard *guard, uint64_t hold, bool taken)
{
	if (!hold)
		return;
	if (taken)
		pn_commit(hold);
	else
		pn_release(hold);
}

bool guard_load_die(const struct guard *guard, int die, const pn_model_slice *slice,
		    struct refusal *ret_refusal)
{
	pn_admit_result res;
	pn_mem_state state;
	pn_mem_ext ext;

	if (!guard->on || pn_memwatch_read_ext(&state, &ext))
		return true;
	/* Before an upload, for each die of the split. */
	pn_admit_model_load_die_ext(slice->weights_bytes, slice->kv_bytes + slice->state_bytes, die,
				    &state, &ext, &res);
	return admitted(&res, ret_refusal);
}

bool guard_load_stage(const struct guard *guard, struct refusal *ret_refusal)
{
	pn_admit_result res;
	pn_mem_state state;
	pn_mem_ext ext;

	if (!guard->on)
		return true;
	/* Before the upload starts, and again before each stage: a load takes minutes. */
	pn_memwatch_poll_now();
	if (pn_memwatch_read_ext(&state, &ext))
		return true;
	pn_admit_load_spike_ext(&state, &ext, &res);
	return admitted(&res, ret_refusal);
}

bool guard_admit(struct guard *guard, int n_tokens, struct admission *ret,
		 struct refusal *ret_refusal)
{
	pn_admit_status status;
	pn_admit_result res;

	*ret = (struct admission){ .fit_tokens = n_tokens };
	if (!guard->on)
		return true;
	/* sg_run_completion, before any prefill. pn_admit itself applies rung 3. */
	status = pn_admit_result_for(&guard->engine, n_tokens, &res);
	if (status == PN_ADMIT_DENIED)
		return admitted(&res, ret_refusal);
	*ret = (struct admission){
		.fit_tokens = res.fit_tokens,
		.capped = status == PN_ADMIT_CAPPED,
		.level = res.level,
	};
	return true;
}

void guard_memory_taken(const struct guard *guard)
{
	if (guard->on)
		pn_memwatch_poll_now();
}
