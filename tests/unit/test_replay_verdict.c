/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verdicts replayed: what admission.c answered to made-up questions comes out again with the
 * settings of the record, and with others what it would have answered.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/admission.h"
#include "replay_fixture.h"

static void verdict_of(uint32_t ask, uint32_t flags, int n_tokens, int max_window,
		       const pn_admit_result *result, struct trace_verdict *ret)
{
	*ret = (struct trace_verdict){
		.view = 1,
		.pid = 9,
		.ask = ask,
		.flags = flags,
		.n_tokens = n_tokens,
		.max_window = max_window,
		.verdict = result->verdict,
		.check = result->check,
		.fit_tokens = result->fit_tokens,
		.die_id = result->die_id,
		.level = result->level,
		.need_bytes = result->need_bytes,
		.have_bytes = result->have_bytes,
		.reserve_bytes = result->reserve_bytes,
		.psi_full_pct = result->psi_full_pct,
		.psi_limit_pct = result->psi_limit_pct,
	};
}

struct asked {
	uint32_t ask, flags;
	int n_tokens, max_window, die_id;
	uint64_t weights_bytes;
};

static void ask(const struct admission_config *config, const struct asked *a,
		const pn_mem_state *state, const pn_mem_ext *ext, pn_admit_result *ret)
{
	switch (a->ask) {
	case TRACE_ASK_REQUEST:
		admission_request(config, a->n_tokens, a->flags & TRACE_ASK_F_KV_Q4,
				  a->flags & TRACE_ASK_F_GPU_RESIDENT, a->die_id, a->max_window,
				  state, ext, ret);
		break;
	case TRACE_ASK_LOAD:
		admission_model_load(config, a->weights_bytes, a->n_tokens, 5898, GIB / 8,
				     a->die_id, state, NULL, ret);
		break;
	case TRACE_ASK_LOAD_DIE:
		admission_model_load_die(config, a->weights_bytes, GIB / 4, a->die_id, state, NULL,
					 ret);
		break;
	default:
		admission_load_spike(config, state, ext, ret);
		break;
	}
}

static void draw(struct asked *ret)
{
	*ret = (struct asked){
		.ask = TRACE_ASK_REQUEST + random_below(6) % 4,
		.flags = random_below(4),
		.n_tokens = (int)random_below(8) ? (int)random_below(20000) : 0,
		.max_window = (int)(random_below(2) ? random_below(9000) : 0),
		.die_id = (int)random_below(4) - 1,
		.weights_bytes = random_below(6000) * (GIB / 1000),
	};
}

/*
 * Asked of the numbers of each look, and of those of the look after it, which the trace does not
 * have yet: what was answered comes out again; and with other settings what these would answer.
 */
static void test_verdicts(void **state)
{
	struct admission_config config, with;
	static struct replay_view view;
	struct replay_policy same = { level_config_default, level_config_default, 0 };
	struct replay_policy other = { .recorded = level_config_default, .given = 0x1f };
	static struct run run;
	struct recorded r;
	unsigned differ = 0, seen[3] = { 0 }, not_known = 0;

	admission_settings(&config, NULL, NULL, NULL, NULL);
	replay_policy_apply(&other, &other_config);
	with = config;
	with.host_reserve_bytes = other_config.host_reserve_bytes;
	with.die_reserve_bytes = other_config.die_reserve_bytes;
	with.psi_full_reject_pct = other_config.psi_full_reject_pct;
	with.cgroup = other_config.cgroup_level;
	memset(&run, 0, sizeof(run));
	memset(&view, 0, sizeof(view));
	run.now_ns = 1000 * MS_NS;
	random_state = 7;
	for (int i = 0; i < LOOKS; i++) {
		struct trace_verdict verdict;
		pn_admit_result was, would, got;
		struct replay_level level;
		struct asked a;
		bool later = i % 2;
		int result;

		step(&run);
		run.dies = run.next_dies;
		look_at(&run, &level_config_default, &r.look);
		if (!later) {
			record_dies(&run, &r);
			r.ts_ns = run.now_ns;
			replay_one(&view, &same, &r, &level);
		}
		draw(&a);
		ask(&config, &a, &run.state, &run.ext, &was);
		verdict_of(a.ask, a.flags, a.n_tokens, a.max_window, &was, &verdict);
		seen[was.verdict]++;
		result = replay_verdict(&view, &same, &verdict, &got);
		if (later && result) {
			not_known++; /* such as a die that went away meanwhile */
			continue;
		}
		assert_int_equal(result, 0);
		assert_true(replay_verdict_same(&verdict, &got));
		if (later)
			continue;
		ask(&with, &a, &run.state, &run.ext, &would);
		result = replay_verdict(&view, &other, &verdict, &got);
		if (result == -ENODATA && was.check == PN_CHECK_PSI_FULL)
			continue;
		assert_int_equal(result, 0);
		differ += would.verdict != was.verdict;
		assert_int_equal(got.verdict, would.verdict);
		if (a.ask == TRACE_ASK_REQUEST)
			assert_int_equal(got.fit_tokens, would.fit_tokens);
	}
	assert_true(differ > 50 && seen[0] > 100 && seen[1] > 50 && seen[2] > 100);
	assert_true(not_known < LOOKS / 20);
}

/* An engine's own reserve and PSI limit are in its answer, and stay unless others are given. */
static void test_engine_settings(void **state)
{
	struct replay_policy policy = { level_config_default, level_config_default, 0 };
	struct replay_view view = { .has_look = true };
	struct trace_verdict verdict;
	struct admission_config config;
	pn_mem_state now = { .host_total_bytes = 16 * GIB,
			     .host_avail_bytes = 6 * GIB,
			     .host_psi_full_avg10 = 40 };
	pn_mem_ext ext = { 0 };
	pn_admit_result was, got;

	trace_look_make(&view.look, 1, &now, &ext);
	admission_settings(&config, NULL, NULL, NULL, NULL);
	config.host_reserve_bytes = 5 * GIB;
	config.psi_full_reject_pct = 50;
	admission_load_spike(&config, &now, &ext, &was);
	assert_int_equal(was.verdict, PN_VERDICT_REJECT);
	verdict_of(TRACE_ASK_SPIKE, 0, 0, 0, &was, &verdict);
	assert_int_equal(replay_verdict(&view, &policy, &verdict, &got), 0);
	assert_int_equal(got.verdict, PN_VERDICT_REJECT);
	policy.given = REPLAY_HOST_RESERVE; /* the rule's, 2.4 GiB */
	assert_int_equal(replay_verdict(&view, &policy, &verdict, &got), 0);
	assert_int_equal(got.verdict, PN_VERDICT_ADMIT);

	admission_request(&config, 300, true, false, -1, 0, &now, &ext, &was);
	assert_int_equal(was.verdict, PN_VERDICT_ADMIT);
	verdict_of(TRACE_ASK_REQUEST, TRACE_ASK_F_KV_Q4, 300, 0, &was, &verdict);
	policy.given = 0;
	assert_int_equal(replay_verdict(&view, &policy, &verdict, &got), 0);
	assert_int_equal(got.verdict, PN_VERDICT_ADMIT);
	policy.given = REPLAY_PSI_FULL_REJECT;
	assert_int_equal(replay_verdict(&view, &policy, &verdict, &got), 0);
	assert_int_equal(got.check, PN_CHECK_PSI_FULL);
}

/* KV bytes of the engine's own model come out of what it needed; its own table does not. */
static void test_engine_cost(void **state)
{
	struct replay_policy policy = { level_config_default, level_config_default,
					REPLAY_PSI_FULL_REJECT };
	struct replay_view view = { .has_look = true };
	struct trace_verdict verdict;
	struct admission_config config;
	pn_mem_state now = { .host_total_bytes = 16 * GIB, .host_avail_bytes = 4 * GIB };
	pn_mem_ext ext = { 0 };
	pn_admit_result was, got;

	trace_look_make(&view.look, 1, &now, &ext);
	admission_settings(&config, NULL, NULL, NULL, NULL);
	config.kv_fp32_bytes_per_token = 123456;

	/*
	 * Refused for PSI before anything is known of its cost: what else would be, is not known.
	 */
	now.host_psi_full_avg10 = 20;
	admission_request(&config, 8000, false, false, -1, 0, &now, &ext, &was);
	verdict_of(TRACE_ASK_REQUEST, 0, 8000, 0, &was, &verdict);
	assert_int_equal(replay_verdict(&view, &policy, &verdict, &got), 0);
	policy.with.psi_full_reject_pct = 30;
	assert_int_equal(replay_verdict(&view, &policy, &verdict, &got), -ENODATA);

	now.host_psi_full_avg10 = 0;
	admission_request(&config, 1000, false, false, -1, 0, &now, &ext, &was);
	verdict_of(TRACE_ASK_REQUEST, 0, 1000, 0, &was, &verdict);
	assert_int_equal(replay_verdict(&view, &policy, &verdict, &got), 0);
	assert_int_equal(got.need_bytes, was.need_bytes);

	/* Now it is. */
	now.host_psi_full_avg10 = 20;
	config.psi_full_reject_pct = 30;
	admission_request(&config, 8000, false, false, -1, 0, &now, &ext, &was);
	config.psi_full_reject_pct = 15;
	admission_request(&config, 8000, false, false, -1, 0, &now, &ext, &got);
	verdict_of(TRACE_ASK_REQUEST, 0, 8000, 0, &got, &verdict);
	assert_int_equal(got.check, PN_CHECK_PSI_FULL);
	assert_int_equal(replay_verdict(&view, &policy, &verdict, &got), 0);
	assert_int_equal(got.verdict, was.verdict);
	assert_int_equal(got.fit_tokens, was.fit_tokens);
}

/*
 * An engine's own activation table is not in the trace: what it was answered comes out again, and
 * other settings give an estimate between the points that are known.
 */
static void test_engine_table(void **state)
{
	struct replay_policy policy = { level_config_default, level_config_default, 0 };
	struct replay_view view = { .has_look = true };
	struct admission_config config;
	pn_mem_state now = { .host_total_bytes = 16 * GIB };
	pn_mem_ext ext = { 0 };
	unsigned seen = 0;

	admission_settings(&config, NULL, NULL, NULL, NULL);
	for (int i = 0; i < PN_ADMIT_LUT_ANCHORS; i++)
		config.lut.anchor[i].peak_bytes = config.lut.anchor[i].peak_bytes / 3 + 7;
	for (int mib = 2400; mib < 6000; mib += 50) {
		struct trace_verdict verdict;
		pn_admit_result was, got;

		now.host_avail_bytes = (uint64_t)mib << 20;
		trace_look_make(&view.look, 1, &now, &ext);
		admission_request(&config, 3001, false, false, -1, 0, &now, &ext, &was);
		verdict_of(TRACE_ASK_REQUEST, 0, 3001, 0, &was, &verdict);
		policy.given = 0;
		assert_int_equal(replay_verdict(&view, &policy, &verdict, &got), 1);
		assert_true(replay_verdict_same(&verdict, &got));
		seen |= 1u << was.verdict;
		/* All of memory in reserve, and none of it. */
		policy.given = REPLAY_HOST_RESERVE;
		policy.with.host_reserve_bytes = 16 * GIB;
		assert_int_equal(replay_verdict(&view, &policy, &verdict, &got), 1);
		assert_int_equal(got.verdict, PN_VERDICT_REJECT);
		policy.with.host_reserve_bytes = 1;
		assert_int_equal(replay_verdict(&view, &policy, &verdict, &got), 1);
		assert_true(got.fit_tokens >= was.fit_tokens);
	}
	assert_int_equal(seen, 7);
}

/*
 * A question asked again: by how much less would have had to be in use, though what a verdict had
 * above the reserve ends at 0; and at a later look, where all of admission decides anew.
 */
static void test_question(void **state)
{
	const struct replay_policy policy = { level_config_default, level_config_default, 0 };
	const uint64_t host_reserve = 2576980377, group_reserve = GIB; /* of 16 and 8 GiB */

	for (int group = 0; group < 2; group++) {
		struct replay_view view = { .has_look = true };
		pn_mem_state now = { .host_total_bytes = 16 * GIB,
				     .host_avail_bytes = group ? 12 * GIB : GIB };
		pn_mem_ext ext = { .cgroup_limit_bytes = group ? 8 * GIB : 0,
				   .cgroup_headroom_bytes = group ? GIB / 4 : 0 };
		uint64_t freed = group ? group_reserve - GIB / 4 : host_reserve - GIB;
		struct replay_question question;
		struct admission_config config;
		struct trace_verdict verdict;
		pn_admit_result result;

		admission_settings(&config, NULL, NULL, NULL, NULL);
		config.load_spike_bytes = GIB / 2;
		freed += GIB / 2;
		admission_load_spike(&config, &now, &ext, &result);
		assert_int_equal(result.check, group ? PN_CHECK_CGROUP : PN_CHECK_HOST);
		assert_int_equal(result.have_bytes, 0);
		verdict_of(TRACE_ASK_SPIKE, 0, 0, 0, &result, &verdict);
		trace_look_make(&view.look, 1, &now, &ext);
		assert_int_equal(replay_question(&view, &policy, &verdict, &question), 0);
		assert_int_equal(replay_ask(&question, &policy, freed - 1, &result), 0);
		assert_int_equal(result.verdict, PN_VERDICT_REJECT);
		assert_int_equal(replay_ask(&question, &policy, freed, &result), 0);
		assert_int_equal(result.verdict, PN_VERDICT_ADMIT);

		view.look.host_avail_bytes = 12 * GIB;
		view.look.cgroup_headroom_bytes = 4 * GIB;
		assert_int_equal(replay_ask_now(&question, &view, &result), 0);
		assert_int_equal(result.verdict, PN_VERDICT_ADMIT);
		view.look.host_avail_bytes = GIB;
		assert_int_equal(replay_ask_now(&question, &view, &result), 0);
		assert_int_equal(result.verdict, PN_VERDICT_REJECT);
		view.has_look = false;
		assert_int_equal(replay_ask_now(&question, &view, &result), -ENODATA);
	}
}

/* The gate refuses at CRITICAL; whoever is told of it may be told a little late. */
static void test_slot(void **state)
{
	struct replay_policy policy = { level_config_default, level_config_default, 0 };
	const struct trace_verdict verdict = { .ask = TRACE_ASK_SLOT,
					       .verdict = PN_VERDICT_REJECT };
	struct trace_look look = {
		.level = PN_MEM_LEVEL_CRITICAL,
		.wanted_level = PN_MEM_LEVEL_CRITICAL,
		.host_psi_full_avg10 = 20,
		.source_ns = { [PN_SRC_PSI] = 1000 },
		.source_state = { [PN_SRC_PSI] = PN_SRC_OK },
	};

	for (int with = 0; with < 2; with++) {
		struct replay_view view = { 0 };
		struct replay_level level;
		pn_admit_result got;

		if (with)
			policy.with.psi_full_reject_pct = 30;
		assert_int_equal(replay_verdict(&view, &policy, &verdict, &got), -ENODATA);
		replay_look(&view, &policy, 1000, &look, &level);
		assert_int_equal(level.level, with ? PN_MEM_LEVEL_TIGHT : PN_MEM_LEVEL_CRITICAL);
		assert_int_equal(replay_verdict(&view, &policy, &verdict, &got), 0);
		assert_int_equal(got.verdict, with ? PN_VERDICT_ADMIT : PN_VERDICT_REJECT);
		assert_int_equal(replay_verdict_same(&verdict, &got), !with);
		look.level = look.wanted_level = PN_MEM_LEVEL_OK;
		look.host_psi_full_avg10 = 0;
		replay_look(&view, &policy, 900000000, &look, &level);
		assert_int_equal(replay_verdict(&view, &policy, &verdict, &got), 0);
		assert_int_equal(got.verdict, with ? PN_VERDICT_ADMIT : PN_VERDICT_REJECT);
		look.level = look.wanted_level = PN_MEM_LEVEL_CRITICAL;
		look.host_psi_full_avg10 = 20;
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_verdicts),    cmocka_unit_test(test_engine_settings),
		cmocka_unit_test(test_engine_cost), cmocka_unit_test(test_engine_table),
		cmocka_unit_test(test_slot),        cmocka_unit_test(test_question),
	};

	return cmocka_run_group_tests_name("replay_verdict", tests, NULL, NULL);
}
