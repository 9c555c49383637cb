/* SPDX-License-Identifier: BSD-2-Clause */
/* pn_admit_request: the SPEC's "Admission control", rule by rule, and what garbage may do to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <stdlib.h>

#include "admission_fixture.h"

/* SPEC step 1, at the threshold, with the time until avg10 has decayed below it. */
static void spec_request_psi_full_guard(void **unused)
{
	static const struct {
		double full, limit;
		pn_admit_verdict verdict;
		uint32_t retry_ms;
	} rows[] = {
		{ 0, 15, PN_VERDICT_ADMIT, 0 },
		{ 14.99, 15, PN_VERDICT_ADMIT, 0 },   /* a decaying blip of a model load */
		{ 15, 15, PN_VERDICT_REJECT, 2000 },  /* not before the kernel's next update */
		{ 50, 15, PN_VERDICT_REJECT, 12040 }, /* 10 s * ln(50 / 15) */
		{ 100, 15, PN_VERDICT_REJECT, 18972 },
		{ 40, 60, PN_VERDICT_ADMIT, 0 },
		{ 100, 0.01, PN_VERDICT_REJECT, 60000 },
		{ 1e300, 15, PN_VERDICT_REJECT, 18972 }, /* garbage, but a stall */
		{ 0, 0, PN_VERDICT_REJECT, 60000 },      /* 0 / 0 is no time at all */
	};

	for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
		struct admission_config config = default_config();
		pn_mem_state state = big_host(40 * GIB, 10 * GIB);
		pn_admit_result out;

		config.psi_full_reject_pct = rows[i].limit;
		state.host_psi_full_avg10 = rows[i].full;
		/* "some" alone never rejects: page cache refaults at 42 with memory to spare. */
		state.host_psi_some_avg10 = 42;
		admission_request(&config, 100, true, true, 0, 1000, &state, NULL, &out);
		assert_int_equal(out.verdict, rows[i].verdict);
		assert_int_equal(out.retry_after_ms, rows[i].retry_ms);
		assert_true(out.psi_full_pct == rows[i].full);
		assert_true(out.psi_limit_pct == rows[i].limit);
		if (out.verdict == PN_VERDICT_REJECT) {
			assert_int_equal(out.check, PN_CHECK_PSI_FULL);
			assert_int_equal(out.fit_tokens, 0);
			assert_string_equal(out.reason, "sustained memory stall — retry");
		}
	}
}

/* SPEC decision order: a stall wins over the reserve, the reserve over the window. */
static void spec_request_decision_order(void **unused)
{
	struct admission_config config = default_config();
	pn_mem_state state = big_host(0, 0);
	pn_admit_result out;

	state.host_psi_full_avg10 = 20;
	admission_request(&config, 5000, true, true, 0, 1000, &state, NULL, &out);
	assert_int_equal(out.check, PN_CHECK_PSI_FULL);
	admission_request(&config, 5000, true, false, 0, 1000, &state, NULL, &out);
	assert_int_equal(out.check, PN_CHECK_PSI_FULL);
	state.host_psi_full_avg10 = 0;
	admission_request(&config, 5000, true, true, 0, 1000, &state, NULL, &out);
	assert_int_equal(out.verdict, PN_VERDICT_REJECT);
	assert_int_equal(out.check, PN_CHECK_HOST);
	state.host_avail_bytes++;
	admission_request(&config, 5000, true, true, 0, 1000, &state, NULL, &out);
	assert_int_equal(out.verdict, PN_VERDICT_CAP);
	assert_int_equal(out.check, PN_CHECK_WINDOW);
}

/* SPEC step 2: host cost 0; one byte above the reserve admits any length up to max_window. */
static void spec_request_gpu_resident(void **unused)
{
	static const struct {
		uint64_t above_reserve_bytes;
		int n_prompt, max_window;
		pn_admit_verdict verdict;
		int fit;
	} rows[] = {
		{ 0, 10, 1000, PN_VERDICT_REJECT, 0 },
		{ 1, 10, 1000, PN_VERDICT_ADMIT, 10 },
		{ 1, 1000, 1000, PN_VERDICT_ADMIT, 1000 },
		{ 1, 1001, 1000, PN_VERDICT_CAP, 1000 },
		{ 1, INT_MAX, 262144, PN_VERDICT_CAP, 262144 },
		{ 1, INT_MAX, INT_MAX, PN_VERDICT_ADMIT, INT_MAX },
		{ 1, INT_MAX, 0, PN_VERDICT_ADMIT, INT_MAX }, /* 0: no limit */
		{ 1, 7, -1, PN_VERDICT_ADMIT, 7 },
		{ 1, 0, 1000, PN_VERDICT_ADMIT, 0 },
		{ 1, INT_MIN, 1000, PN_VERDICT_ADMIT, 0 },
		{ 1, 300, 200, PN_VERDICT_CAP, 200 }, /* the operator's window may be small */
	};

	for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
		struct admission_config config = default_config();
		/* The die is full: that is not this path's business. */
		pn_mem_state state = big_host(rows[i].above_reserve_bytes, 0);
		pn_admit_result out;

		admission_request(&config, rows[i].n_prompt, false, true, 0, rows[i].max_window,
				  &state, NULL, &out);
		assert_int_equal(out.verdict, rows[i].verdict);
		assert_int_equal(out.fit_tokens, rows[i].fit);
		assert_int_equal(out.need_bytes, 0);
		assert_int_equal(out.have_bytes, rows[i].above_reserve_bytes);
		if (out.verdict == PN_VERDICT_REJECT)
			assert_int_equal(out.retry_after_ms, PN_ADMIT_RETRY_MS);
	}
}

/* SPEC "Why TIGHT is normal on the mini": 8 GiB of host, a fraction above its 1.2 GiB reserve. */
static void spec_tight_mini_admits(void **unused)
{
	struct admission_config config = default_config();
	pn_mem_state state = { .host_total_bytes = 8 * GIB,
			       .host_avail_bytes = 1400 * MIB,
			       .host_psi_full_avg10 = 0.4,
			       .level = PN_MEM_LEVEL_TIGHT };
	pn_admit_result out;

	admission_request(&config, 8192, true, true, -1, 8192, &state, NULL, &out);
	assert_int_equal(out.verdict, PN_VERDICT_ADMIT);
	assert_int_equal(out.fit_tokens, 8192);
	assert_int_equal(out.level, PN_MEM_LEVEL_TIGHT);
	assert_int_equal(out.reserve_bytes, 1288490188); /* 15 % */
}

/* SPEC step 3: the cost against host and die; who has less decides and is named. */
static void spec_request_cpu_path(void **unused)
{
	struct admission_config config = default_config();
	uint64_t cost_2000 = admission_host_cost_bytes(&config, 2000, true);
	uint64_t cost_300 = admission_host_cost_bytes(&config, 300, true);
	uint64_t cost_min = admission_host_cost_bytes(&config, PN_ADMIT_MIN_WINDOW, true);
	const struct {
		uint64_t host_bytes, die_free_bytes;
		int n_prompt, max_window, die_id;
		pn_admit_verdict verdict;
		int fit;
		pn_admit_check check;
	} rows[] = {
		{ cost_2000, 10 * GIB, 2000, 4096, 0, PN_VERDICT_ADMIT, 2000, PN_CHECK_NONE },
		{ cost_2000, cost_2000, 2000, 4096, 0, PN_VERDICT_ADMIT, 2000, PN_CHECK_NONE },
		{ cost_2000 - 1, 10 * GIB, 2000, 4096, 0, PN_VERDICT_CAP, 1999, PN_CHECK_HOST },
		{ 40 * GIB, cost_2000 - 1, 2000, 4096, 0, PN_VERDICT_CAP, 1999, PN_CHECK_DIE },
		{ cost_300, cost_2000, 2000, 4096, 0, PN_VERDICT_CAP, 300, PN_CHECK_HOST },
		{ cost_2000, cost_300, 2000, 4096, 0, PN_VERDICT_CAP, 300, PN_CHECK_DIE },
		{ cost_2000, cost_300, 2000, 4096, -1, PN_VERDICT_ADMIT, 2000, PN_CHECK_NONE },
		{ cost_2000, 10 * GIB, 9000, 2000, 0, PN_VERDICT_CAP, 2000, PN_CHECK_WINDOW },
		{ cost_300, 10 * GIB, 9000, 2000, 0, PN_VERDICT_CAP, 300, PN_CHECK_HOST },
		{ cost_2000, 10 * GIB, INT_MAX, 0, 0, PN_VERDICT_CAP, 2000, PN_CHECK_HOST },
		{ cost_min, 10 * GIB, 2000, 0, 0, PN_VERDICT_CAP, 256, PN_CHECK_HOST },
		{ cost_min - 1, 10 * GIB, 2000, 0, 0, PN_VERDICT_REJECT, 0, PN_CHECK_HOST },
		{ cost_min - 1, 10 * GIB, 100, 0, 0, PN_VERDICT_ADMIT, 100, PN_CHECK_NONE },
		{ 1, 10 * GIB, 100, 0, 0, PN_VERDICT_REJECT, 0, PN_CHECK_HOST },
		{ 0, 10 * GIB, 1, 0, 0, PN_VERDICT_REJECT, 0, PN_CHECK_HOST },
		{ 40 * GIB, 0, 1, 0, 0, PN_VERDICT_REJECT, 0, PN_CHECK_DIE },
		{ 0, 0, 1, 0, 0, PN_VERDICT_REJECT, 0, PN_CHECK_HOST },
		{ 0, 0, 0, 0, 0, PN_VERDICT_ADMIT, 0, PN_CHECK_NONE },
		{ 0, 0, INT_MIN, INT_MIN, 0, PN_VERDICT_ADMIT, 0, PN_CHECK_NONE },
	};

	for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
		pn_mem_state state = big_host(rows[i].host_bytes, rows[i].die_free_bytes);
		pn_admit_result out;

		admission_request(&config, rows[i].n_prompt, true, false, rows[i].die_id,
				  rows[i].max_window, &state, NULL, &out);
		assert_int_equal(out.verdict, rows[i].verdict);
		assert_int_equal(out.fit_tokens, rows[i].fit);
		assert_int_equal(out.check, rows[i].check);
		assert_int_equal(out.die_id, rows[i].die_id);
		if (out.check == PN_CHECK_HOST)
			assert_int_equal(out.have_bytes, rows[i].host_bytes);
		if (out.check == PN_CHECK_DIE)
			assert_int_equal(out.have_bytes, rows[i].die_free_bytes);
		assert_true(out.verdict == PN_VERDICT_ADMIT || out.need_bytes > out.have_bytes ||
			    out.check == PN_CHECK_WINDOW);
	}
}

/* SPEC "Binary-search for the largest fitting window": against a search from below. */
static void spec_request_largest_window(void **unused)
{
	struct admission_config config = default_config();

	srandom(11);
	for (int round = 0; round < 300; round++) {
		uint64_t have_bytes = (uint64_t)random() % (20 * GIB);
		pn_mem_state state = big_host(have_bytes, 64 * GIB);
		bool kv_q4 = random() & 1;
		/* Every other round the answer lies beyond the last anchor. */
		long step = round % 2 ? 3000 : 100;
		pn_admit_result out;
		int largest = 0;

		for (int i = 0; i < PN_ADMIT_LUT_ANCHORS; i++)
			config.lut.anchor[i] = (pn_admit_anchor){
				(i ? config.lut.anchor[i - 1].n_tokens : 0) + 1 +
					(int)(random() % step),
				(i ? config.lut.anchor[i - 1].peak_bytes : 0) +
					(uint64_t)random() % (step * MIB),
			};
		while (largest < 20000 &&
		       admission_host_cost_bytes(&config, largest + 1, kv_q4) <= have_bytes)
			largest++;
		admission_request(&config, 20000, kv_q4, false, 0, 0, &state, NULL, &out);
		assert_int_equal(out.fit_tokens, largest >= PN_ADMIT_MIN_WINDOW ? largest : 0);
	}
}

/* Waiting helps only where the smallest window could ever fit. */
static void request_retry_hint(void **unused)
{
	struct admission_config config = default_config();
	pn_mem_state state = big_host(0, 0);
	pn_admit_result out;

	admission_request(&config, 2000, true, false, -1, 0, &state, NULL, &out);
	assert_int_equal(out.retry_after_ms, PN_ADMIT_RETRY_MS);
	/* 76 MiB above the reserve if all else were freed. */
	state.host_total_bytes = state.host_avail_bytes = 1100 * MIB;
	admission_request(&config, 2000, true, false, -1, 0, &state, NULL, &out);
	assert_int_equal(out.verdict, PN_VERDICT_REJECT);
	assert_int_equal(out.retry_after_ms, 0);
	state = big_host(40 * GIB, 0);
	state.per_die_budget[0] = MIB;
	config.die_reserve_bytes = 0;
	admission_request(&config, 2000, true, false, 0, 0, &state, NULL, &out);
	assert_int_equal(out.check, PN_CHECK_DIE);
	assert_int_equal(out.retry_after_ms, 0);
}

/* n_dies and die_id are data from shared memory: only dies within both bounds, with a budget. */
static void die_data_is_not_trusted(void **unused)
{
	static const struct {
		int n_dies, die_id;
		bool known;
	} rows[] = {
		{ 1, 0, true },        { 1, 1, false },       { 16, 15, true },
		{ 17, 16, false },     { INT_MAX, 15, true }, { INT_MAX, INT_MAX - 1, false },
		{ -3, 0, false },      { 16, -1, false },     { 16, INT_MIN, false },
		{ INT_MAX, 3, false }, /* budget 0 */
	};

	for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
		struct admission_config config = default_config();
		pn_mem_state state = big_host(40 * GIB, 0);
		pn_admit_result out;

		state.n_dies = rows[i].n_dies;
		for (int die = 0; die < PN_MEM_MAX_DIES; die++)
			state.per_die_budget[die] = die == 3 ? 0 : GIB;
		assert_int_equal(admission_die_known(&state, rows[i].die_id), rows[i].known);

		/* A request without a known die is judged by the host alone ... */
		admission_request(&config, 100, true, false, rows[i].die_id, 0, &state, NULL, &out);
		assert_int_equal(out.check, rows[i].known ? PN_CHECK_DIE : PN_CHECK_NONE);
		/* ... an upload to no die is refused. */
		admission_model_load_die(&config, 0, 0, rows[i].die_id, &state, NULL, &out);
		assert_int_equal(out.check, rows[i].known ? PN_CHECK_DIE : PN_CHECK_NO_DIE);
		assert_int_equal(out.verdict, PN_VERDICT_REJECT);
		admission_model_load(&config, 1, 0, PN_ADMIT_KV_BYTES_PER_TOKEN_Q4, 0,
				     rows[i].die_id, &state, NULL, &out);
		assert_int_equal(out.check, rows[i].known ? PN_CHECK_DIE : PN_CHECK_NO_DIE);
		assert_int_equal(out.verdict, PN_VERDICT_REJECT);
	}
}

static void check_request_invariants(const pn_admit_result *out, int n_prompt, int max_window)
{
	int prompt = n_prompt > 0 ? n_prompt : 0;

	assert_non_null(out->reason);
	assert_true(out->fit_tokens >= 0 && out->fit_tokens <= prompt);
	if (max_window > 0)
		assert_true(out->fit_tokens <= max_window);
	assert_int_equal(out->verdict == PN_VERDICT_ADMIT, out->check == PN_CHECK_NONE);
	switch (out->verdict) {
	case PN_VERDICT_ADMIT:
		assert_int_equal(out->fit_tokens, prompt);
		break;
	case PN_VERDICT_CAP:
		assert_true(out->fit_tokens > 0 && out->fit_tokens < prompt);
		break;
	default:
		assert_int_equal(out->fit_tokens, 0);
		break;
	}
}

/* Every extreme of every number, together (run under UBSan too): the result stays coherent. */
static void request_extremes(void **unused)
{
	static const int ints[] = { INT_MIN, -1, 0, 1, 255, 256, 65536, INT_MAX };
	static const uint64_t bytes[] = { 0, 1, GIB, 9 * GIB, UINT64_MAX / 2, UINT64_MAX };
	struct admission_config config = default_config();
	size_t n = ARRAY_LENGTH(bytes);

	for (size_t i = 0; i < n * n * n; i++) {
		pn_mem_state state = { .host_total_bytes = bytes[i % n],
				       .host_avail_bytes = bytes[i / n % n],
				       .n_dies = INT_MAX };

		state.per_die_free[0] = bytes[i / n / n];
		state.per_die_budget[0] = bytes[(i + 1) % n];
		config.kv_q4_bytes_per_token = bytes[(i + 2) % n];
		config.host_reserve_bytes = bytes[(i + 3) % n];
		for (size_t p = 0; p < ARRAY_LENGTH(ints); p++)
			for (size_t w = 0; w < ARRAY_LENGTH(ints); w++)
				for (int bits = 0; bits < 4; bits++) {
					pn_admit_result out;

					admission_request(&config, ints[p], bits & 1, bits & 2, 0,
							  ints[w], &state, NULL, &out);
					check_request_invariants(&out, ints[p], ints[w]);
				}
	}
}

/* An engine's table is input: no order, no value may cause a fault (run under UBSan too). */
static void request_broken_tables(void **unused)
{
	struct admission_config config = default_config();
	pn_mem_state state = big_host(40 * GIB, 0);

	srandom(3);
	for (int round = 0; round < 20000; round++) {
		pn_admit_lut lut;
		pn_admit_result out;
		int n_prompt, max_window;

		for (int i = 0; i < PN_ADMIT_LUT_ANCHORS; i++) {
			lut.anchor[i].n_tokens = (int)random() * (random() & 1 ? 1 : -1);
			lut.anchor[i].peak_bytes = (uint64_t)random() << (random() % 34);
		}
		if (round % 3 == 0)
			lut.anchor[5].n_tokens = lut.anchor[4].n_tokens = 0;
		config.lut = lut;
		n_prompt = round % 2 ? INT_MAX : (int)random();
		max_window = round % 5 ? (int)(random() % 300000) : 0;
		admission_request(&config, n_prompt, true, false, -1, max_window, &state, NULL,
				  &out);
		check_request_invariants(&out, n_prompt, max_window);
	}
}

static void ext_counts_the_cgroup(void **unused)
{
	struct admission_config config = default_config();
	pn_mem_state state = big_host(40 * GIB, 0);
	pn_mem_ext ext = { .cgroup_limit_bytes = 20 * GIB, .cgroup_headroom_bytes = GIB };
	pn_admit_result out;

	/* An ancestor of 20 GiB is full to its reserve (1 GiB): the host's 40 GiB do not help. */
	admission_request(&config, 100, true, true, -1, 0, &state, &ext, &out);
	assert_int_equal(out.verdict, PN_VERDICT_REJECT);
	assert_int_equal(out.check, PN_CHECK_CGROUP);
	assert_true(out.reserve_bytes == GIB);
	ext.cgroup_headroom_bytes++;
	admission_request(&config, 100, true, true, -1, 0, &state, &ext, &out);
	assert_int_equal(out.verdict, PN_VERDICT_ADMIT);
	ext.cgroup_headroom_bytes = 2 * GIB;
	admission_request(&config, 4000, true, false, -1, 0, &state, &ext, &out);
	assert_int_equal(out.verdict, PN_VERDICT_CAP);
	assert_int_equal(out.check, PN_CHECK_CGROUP);
	assert_true(out.have_bytes == GIB);

	/* Where the host has less than the cgroup, the host is named. */
	state.host_avail_bytes -= 40 * GIB - 1;
	admission_request(&config, 4000, true, false, -1, 0, &state, &ext, &out);
	assert_int_equal(out.check, PN_CHECK_HOST);
	assert_int_equal(out.have_bytes, 1);
	state.host_avail_bytes += 40 * GIB - 1;

	/* A burst of 2.4 GiB with 1 GiB left. */
	admission_load_spike(&config, &state, &ext, &out);
	assert_int_equal(out.verdict, PN_VERDICT_REJECT);
	assert_int_equal(out.check, PN_CHECK_CGROUP);
	ext.cgroup_limit_bytes = 2 * GIB; /* can never hold it */
	admission_load_spike(&config, &state, &ext, &out);
	assert_int_equal(out.retry_after_ms, 0);

	/* PN_CGROUP_LEVEL=0, no extension, or no limit: exactly the SPEC. */
	ext.cgroup_headroom_bytes = 0;
	admission_load_spike(&config, &state, NULL, &out);
	assert_int_equal(out.verdict, PN_VERDICT_ADMIT);
	config.cgroup = false;
	admission_load_spike(&config, &state, &ext, &out);
	assert_int_equal(out.verdict, PN_VERDICT_ADMIT);
	config.cgroup = true;
	ext.cgroup_limit_bytes = 0;
	admission_load_spike(&config, &state, &ext, &out);
	assert_int_equal(out.verdict, PN_VERDICT_ADMIT);
}

/* memory.current 25.69 GiB under a limit of 26, of which 25.03 GiB page cache: not a small room. */
static void ext_page_cache_is_not_usage(void **unused)
{
	struct admission_config config = default_config();
	pn_mem_state state = big_host(40 * GIB, 0);
	pn_mem_ext ext = { .cgroup_limit_bytes = 26 * GIB };
	pn_admit_result out;

	state.cgroup_max_bytes = 26 * GIB;
	state.cgroup_current_bytes = 2569 * GIB / 100;
	ext.cgroup_headroom_bytes = 26 * GIB - state.cgroup_current_bytes + 2503 * GIB / 100;
	admission_request(&config, 8192, true, false, -1, 8192, &state, &ext, &out);
	assert_int_equal(out.verdict, PN_VERDICT_ADMIT);
	admission_request(&config, 8192, true, false, -1, 8192, &state, NULL, &out);
	assert_int_equal(out.verdict, PN_VERDICT_ADMIT);
}

static void ext_live_stall(void **unused)
{
	struct admission_config config = default_config();
	pn_mem_state state = big_host(40 * GIB, 0);
	pn_mem_ext ext = { .live_psi_full_avg10 = 15 };
	pn_admit_result out;

	state.host_psi_full_avg10 = 3;
	admission_request(&config, 10, true, true, -1, 0, &state, &ext, &out);
	assert_int_equal(out.check, PN_CHECK_PSI_FULL);
	assert_true(out.psi_full_pct == 15);
	admission_request(&config, 10, true, true, -1, 0, &state, NULL, &out);
	assert_int_equal(out.verdict, PN_VERDICT_ADMIT);
}

/* Admission subtracts the bytes that others have reserved, from the source they belong to only. */
static void reserved_by_others(void **unused)
{
	static const struct {
		uint64_t host, cgroup, die; /* GiB reserved, of 10 and 6 and 9 */
		uint64_t request_have, spike_have, load_have;
		pn_admit_check request_check;
	} rows[] = {
		{ 0, 0, 0, 6, 6, 9, PN_CHECK_CGROUP }, { 3, 0, 0, 6, 6, 9, PN_CHECK_CGROUP },
		{ 5, 0, 0, 5, 5, 9, PN_CHECK_HOST },   { 4, 4, 0, 2, 2, 9, PN_CHECK_CGROUP },
		{ 0, 0, 4, 5, 6, 5, PN_CHECK_DIE },    { 90, 90, 90, 0, 0, 0, PN_CHECK_CGROUP },
	};

	for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
		const struct admission_config config = default_config();
		const pn_mem_state state = big_host(10 * GIB, 9 * GIB);
		const pn_mem_ext ext = {
			.cgroup_limit_bytes = 20 * GIB,
			.cgroup_headroom_bytes = 7 * GIB,
			.host_reserved_bytes = rows[i].host * GIB,
			.cgroup_reserved_bytes = rows[i].cgroup * GIB,
			.die_reserved_bytes = { rows[i].die * GIB },
		};
		pn_admit_result out;

		admission_request(&config, 1 << 22, false, false, 0, 0, &state, &ext, &out);
		assert_int_equal(out.have_bytes, rows[i].request_have * GIB);
		if (rows[i].host < 90)
			assert_int_equal(out.check, rows[i].request_check);
		admission_load_spike(&config, &state, &ext, &out);
		assert_int_equal(out.have_bytes, rows[i].spike_have * GIB);
		assert_int_equal(out.claimed_bytes, (out.have_bytes + rows[i].host * GIB == 10 * GIB
							     ? rows[i].host
							     : rows[i].cgroup) *
							    GIB);
		admission_model_load_die(&config, 0, 0, 0, &state, &ext, &out);
		assert_int_equal(out.have_bytes, rows[i].load_have * GIB);
		admission_model_load(&config, 0, 0, 0, 0, 0, &state, &ext, &out);
		/* PN_DIE_RESERVE_BYTES is kept free as well. */
		assert_int_equal(out.have_bytes,
				 (rows[i].load_have ? rows[i].load_have - 1 : 0) * GIB);
		/* The SPEC's own do not know of it. */
		admission_load_spike(&config, &state, NULL, &out);
		assert_int_equal(out.have_bytes, 10 * GIB);
		admission_model_load_die(&config, 0, 0, 0, &state, NULL, &out);
		assert_int_equal(out.have_bytes, 9 * GIB);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spec_request_psi_full_guard),
		cmocka_unit_test(spec_request_decision_order),
		cmocka_unit_test(spec_request_gpu_resident),
		cmocka_unit_test(spec_tight_mini_admits),
		cmocka_unit_test(spec_request_cpu_path),
		cmocka_unit_test(spec_request_largest_window),
		cmocka_unit_test(request_retry_hint),
		cmocka_unit_test(die_data_is_not_trusted),
		cmocka_unit_test(request_extremes),
		cmocka_unit_test(request_broken_tables),
		cmocka_unit_test(ext_counts_the_cgroup),
		cmocka_unit_test(ext_page_cache_is_not_usage),
		cmocka_unit_test(ext_live_stall),
		cmocka_unit_test(reserved_by_others),
	};

	return cmocka_run_group_tests_name("admission", tests, NULL, NULL);
}
