/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replay: what merge.c and admission.c give for made-up numbers is recorded, and replayed with the
 * settings of the record and with others, whole, thinned as a recorder does and from the middle on.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/admission.h"
#include "core/replay.h"

#define GIB   (1ull << 30)
#define MS_NS 1000000ull
#define LOOKS 3000

/* The same numbers at every run. */
static uint64_t random_state;

static uint32_t random_below(uint32_t n)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(random_state >> 33) % n;
}

struct recorded {
	uint64_t ts_ns;
	bool die_changed;
	struct trace_die die[2];
	struct trace_look look;
};

struct run {
	struct merge_state carry;
	struct die_table dies;
	pn_mem_state state;
	pn_mem_ext ext;
	uint64_t now_ns;
	struct die_table next_dies;
	pn_host_sample sample;
};

/* Numbers that wander over all lines, sometimes jump, and sometimes cannot be read. */
static void step(struct run *run)
{
	pn_host_sample *s = &run->sample;
	uint64_t dt_ns = (random_below(4) ? random_below(30) : random_below(600)) * MS_NS + 12345;

	run->now_ns += dt_ns;
	s->total_bytes = 16 * GIB;
	s->avail_bytes = 3 * GIB / 2 + (uint64_t)random_below(5000) * (GIB / 1000);
	s->psi_some_avg10 = random_below(3) ? 0 : random_below(3000) / 100.0;
	s->psi_full_avg10 = s->psi_some_avg10 > 5 ? random_below(2500) / 100.0 : 0;
	s->cgroup_limit_bytes = random_below(10) ? 8 * GIB : 0;
	s->cgroup_headroom_bytes = (uint64_t)random_below(4000) * (GIB / 1000);
	s->cgroup_current_bytes = 8 * GIB - s->cgroup_headroom_bytes;
	for (int i = 0; i < PN_SRC_DIES; i++) {
		s->source_state[i] = random_below(40) ? PN_SRC_OK : PN_SRC_STALE;
		if (s->source_state[i] == PN_SRC_OK)
			s->source_ns[i] = run->now_ns;
	}
	if (random_below(10))
		return;
	for (int i = 0; i < 2; i++)
		run->next_dies.die[i] = (struct die){
			.id.uuid = { (uint8_t)(i + 1) },
			.free_bytes = (uint64_t)random_below(24) * GIB / 4,
			.budget_bytes = 23 * GIB,
			.sample_ns = run->now_ns,
			.limit_ns = 100 * MS_NS,
		};
	if (!random_below(4))
		run->next_dies.die[1] = (struct die){ 0 };
}

static void look_at(struct run *run, const struct level_config *config, struct trace_look *ret)
{
	struct merge_input in = {
		.now_ns = run->now_ns,
		.host = &run->sample,
		.cgroup = &run->sample,
		.live_some_pct = run->sample.psi_some_avg10 / 2,
		.live_full_pct = run->sample.psi_full_avg10 / 2,
		.dies = &run->dies,
	};

	merge_look(&run->carry, config, &in, &run->state, &run->ext);
	trace_look_make(ret, 1, &run->state, &run->ext);
}

static void record_dies(const struct run *run, struct recorded *ret)
{
	for (int i = 0; i < 2; i++) {
		ret->die[i] = (struct trace_die){
			.view = 1,
			.index = (uint32_t)i,
			.free_bytes = run->state.per_die_free[i],
			.budget_bytes = run->state.per_die_budget[i],
			.sample_ns = run->ext.die_sample_ns[i],
			.state = run->ext.die_state[i],
		};
		memcpy(ret->die[i].uuid, run->ext.die_uuid[i], sizeof(ret->die[i].uuid));
	}
}

/* Records a run with one setting, and the levels that the same numbers give with another. */
static struct recorded *record(const struct level_config *config, const struct level_config *other,
			       pn_mem_level *ret_other)
{
	struct recorded *ret = test_calloc(LOOKS, sizeof(*ret));
	static struct run run, second;
	struct trace_look look;

	memset(&run, 0, sizeof(run));
	memset(&second, 0, sizeof(second));
	run.now_ns = 1000 * MS_NS;
	random_state = 42;
	for (int i = 0; i < LOOKS; i++) {
		step(&run);
		run.dies = run.next_dies;
		look_at(&run, config, &ret[i].look);
		record_dies(&run, &ret[i]);
		/* Published a little later than looked. */
		ret[i].ts_ns = run.now_ns + random_below(1000) * 1000;
		second.now_ns = run.now_ns;
		second.sample = run.sample;
		second.dies = run.next_dies;
		for (int die = 0; die < 2; die++)
			if (second.dies.die[die].budget_bytes)
				second.dies.die[die].budget_bytes +=
					config->die_reserve_bytes - other->die_reserve_bytes;
		look_at(&second, other, &look);
		ret_other[i] = (pn_mem_level)look.level;
	}
	return ret;
}

static void replay_one(struct replay_view *view, const struct replay_policy *policy,
		       const struct recorded *r, struct replay_level *ret)
{
	for (uint32_t i = 0; i < r->look.n_dies; i++)
		replay_die(view, policy, &r->die[i]);
	replay_look(view, policy, r->ts_ns, &r->look, ret);
}

static const struct level_config other_config = {
	.host_reserve_bytes = 2 * GIB,
	.psi_full_reject_pct = 5,
	.die_reserve_bytes = 20 * GIB,
	.hold_ns = 40 * MS_NS,
	.cgroup_level = false,
};

/* Every look again: the level, what the numbers want, and why. */
static void test_same_settings(void **state)
{
	static pn_mem_level unused[LOOKS];
	struct recorded *r = record(&level_config_default, &other_config, unused);
	struct replay_policy policy = { level_config_default, level_config_default, 0 };
	static struct replay_view view;
	struct replay_level level;
	unsigned seen = 0;

	memset(&view, 0, sizeof(view));
	for (int i = 0; i < LOOKS; i++) {
		replay_one(&view, &policy, &r[i], &level);
		assert_true(level.replayed);
		assert_int_equal(level.level, r[i].look.level);
		assert_int_equal(level.reasons, r[i].look.reasons);
		seen |= 1u << level.level | (level.reasons & PN_REASON_HELD);
	}
	assert_int_equal(seen, 0xf | PN_REASON_HELD); /* there was something to get wrong */
	test_free(r);
}

/* All settings at once, and each by itself: as if it had been run with them. */
static void test_other_settings(void **state)
{
	static const uint32_t given[] = { REPLAY_HOST_RESERVE,    REPLAY_DIE_RESERVE,
					  REPLAY_PSI_FULL_REJECT, REPLAY_LEVEL_HOLD,
					  REPLAY_CGROUP_LEVEL,    0x1f };
	static pn_mem_level want[LOOKS];

	for (unsigned g = 0; g < 6; g++) {
		struct replay_policy policy = { .recorded = level_config_default,
						.given = given[g] };
		struct recorded *r;
		static struct replay_view view;
		struct replay_level level;
		unsigned differ = 0;

		memset(&view, 0, sizeof(view));
		replay_policy_apply(&policy, &other_config);
		r = record(&level_config_default, &policy.with, want);
		for (int i = 0; i < LOOKS; i++) {
			replay_one(&view, &policy, &r[i], &level);
			assert_int_equal(level.level, want[i]);
			differ += level.level != (pn_mem_level)r[i].look.level;
		}
		assert_true(differ > 20);
		test_free(r);
	}
}

/* A recorder leaves out what changes nothing for 20 ms. */
static void test_thinned(void **state)
{
	static pn_mem_level unused[LOOKS];
	struct recorded *r = record(&level_config_default, &other_config, unused), *last = NULL;
	struct replay_policy policy = { level_config_default, level_config_default, 0 };
	static struct replay_view view;
	struct replay_level level;
	unsigned left_out = 0;

	memset(&view, 0, sizeof(view));
	for (int i = 0; i < LOOKS; i++) {
		if (last && r[i].look.level == last->look.level &&
		    r[i].look.wanted_level == last->look.wanted_level &&
		    r[i].look.reasons == last->look.reasons &&
		    r[i].ts_ns - last->ts_ns < 20 * MS_NS) {
			left_out++;
			continue;
		}
		last = &r[i];
		replay_one(&view, &policy, &r[i], &level);
		assert_int_equal(level.level, r[i].look.level);
	}
	assert_true(left_out > 50);
	test_free(r);
}

/* What was held when the trace began falls when it did. */
static void test_from_the_middle(void **state)
{
	static pn_mem_level unused[LOOKS];
	struct recorded *r = record(&level_config_default, &other_config, unused);
	struct replay_policy policy = { level_config_default, level_config_default, 0 };
	static struct replay_view view;
	struct replay_level level;
	unsigned held = 0;

	for (int first = 1; first < LOOKS - 40; first++) {
		memset(&view, 0, sizeof(view));
		held += r[first].look.level > r[first].look.wanted_level;
		for (int i = first; i < first + 40; i++) {
			replay_one(&view, &policy, &r[i], &level);
			assert_int_equal(level.level, r[i].look.level);
		}
	}
	assert_true(held > 100);
	test_free(r);
}

/* A die whose record was overwritten: as recorded until it is known. */
static void test_unknown_die(void **state)
{
	struct replay_policy policy = { level_config_default, level_config_default, 0 };
	struct replay_view view = { 0 };
	struct trace_die die = { .free_bytes = GIB, .budget_bytes = 23 * GIB, .state = PN_SRC_OK };
	struct trace_look look = { .level = PN_MEM_LEVEL_TIGHT,
				   .wanted_level = PN_MEM_LEVEL_TIGHT,
				   .reasons = PN_REASON_DIE0,
				   .n_dies = 1 };
	struct replay_level level;
	pn_admit_result result;
	struct trace_verdict verdict = { .ask = TRACE_ASK_SPIKE };

	replay_look(&view, &policy, 1000, &look, &level);
	assert_false(level.replayed);
	assert_int_equal(level.level, PN_MEM_LEVEL_TIGHT);
	assert_int_equal(replay_verdict(&view, &policy, &verdict, &result), -ENODATA);
	replay_die(&view, &policy, &die);
	replay_look(&view, &policy, 2000, &look, &level);
	assert_true(level.replayed);
	assert_int_equal(level.level, PN_MEM_LEVEL_TIGHT);
	die.index = DIE_TABLE_MAX; /* nor beyond the table */
	replay_die(&view, &policy, &die);
}

/* ---- verdicts -----------------------------------------------------------------------------------
 */

static const char *no_setting(const char *name)
{
	return NULL;
}

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
				     a->die_id, state, ret);
		break;
	case TRACE_ASK_LOAD_DIE:
		admission_model_load_die(config, a->weights_bytes, GIB / 4, a->die_id, state, ret);
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

	admission_settings(&config, no_setting, NULL, NULL);
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
	admission_settings(&config, no_setting, NULL, NULL);
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
	admission_settings(&config, no_setting, NULL, NULL);
	config.kv_fp32_bytes_per_token = 123456;

	/* Refused for PSI before anything is known of its cost: what else would be, is not known.
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

	admission_settings(&config, no_setting, NULL, NULL);
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
		cmocka_unit_test(test_same_settings),   cmocka_unit_test(test_other_settings),
		cmocka_unit_test(test_thinned),         cmocka_unit_test(test_from_the_middle),
		cmocka_unit_test(test_unknown_die),     cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_engine_settings), cmocka_unit_test(test_engine_cost),
		cmocka_unit_test(test_engine_table),    cmocka_unit_test(test_slot),
	};

	return cmocka_run_group_tests_name("replay", tests, NULL, NULL);
}
