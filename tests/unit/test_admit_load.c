/* SPDX-License-Identifier: BSD-2-Clause */
/* Admission of model loads and upload bursts; settings, words, and the public functions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "admission_fixture.h"
#include "core/activation.h"

static void spec_constants(void **unused)
{
	assert_int_equal(PN_ADMIT_KV_BYTES_PER_TOKEN_Q4, 5898);
	assert_int_equal(PN_ADMIT_KV_BYTES_PER_TOKEN_FP32, 40960);
	assert_true(PN_ADMIT_DIE_SCRATCH_BYTES == 3 * GIB / 2);
	assert_true(PN_ADMIT_LOAD_SPIKE_BYTES_DEFAULT == 2576980377ull); /* 2.4 GiB */
	assert_true(PN_PSI_FULL_REJECT_DEFAULT == 15.0);
}

/*
 * SPEC "pn_admit_model_load": weights + kv@max_ctx + activation_reserve <= die_free - die_reserve
 */
static void spec_model_load(void **unused)
{
	const uint64_t kv = 5898 * 1000, need = 6 * GIB + kv + 512 * MIB;
	const struct {
		uint64_t free_bytes, weights_bytes;
		int max_ctx;
		pn_admit_verdict verdict;
		int fit;
	} rows[] = {
		{ need + GIB, 6 * GIB, 1000, PN_VERDICT_ADMIT, 1000 },
		{ need + GIB - 1, 6 * GIB, 1000, PN_VERDICT_REJECT, 999 },
		{ need + GIB - kv, 6 * GIB, 1000, PN_VERDICT_REJECT, 0 },
		{ need + GIB - kv, 6 * GIB, 0, PN_VERDICT_ADMIT, 0 },
		{ need + GIB - kv, 6 * GIB, INT_MIN, PN_VERDICT_ADMIT, 0 },
		{ need + GIB, 6 * GIB, INT_MAX, PN_VERDICT_REJECT, 1000 },
		{ 0, 6 * GIB, 1000, PN_VERDICT_REJECT, 0 }, /* free below the reserve */
		{ UINT64_MAX, UINT64_MAX, INT_MAX, PN_VERDICT_REJECT, 0 },
	};

	for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
		struct admission_config config = default_config();
		pn_mem_state state = big_host(0, rows[i].free_bytes);
		pn_admit_result out;

		admission_model_load(&config, rows[i].weights_bytes, rows[i].max_ctx,
				     PN_ADMIT_KV_BYTES_PER_TOKEN_Q4, 512 * MIB, 0, &state, NULL,
				     &out);
		assert_int_equal(out.verdict, rows[i].verdict);
		assert_int_equal(out.fit_tokens, rows[i].fit);
		assert_int_equal(out.check, rows[i].verdict == PN_VERDICT_ADMIT ? PN_CHECK_NONE
										: PN_CHECK_DIE);
		assert_true(out.reserve_bytes == GIB);
		assert_int_equal(out.die_id, 0);
	}
}

static void model_load_settings_and_retry(void **unused)
{
	struct admission_config config = default_config();
	pn_mem_state state = big_host(0, 5 * GIB);
	pn_admit_result out;

	/* 11 GiB budget: 8 GiB may fit once others have freed theirs, 12 GiB never. */
	admission_model_load(&config, 8 * GIB, 0, PN_ADMIT_KV_BYTES_PER_TOKEN_FP32, 0, 0, &state,
			     NULL, &out);
	assert_int_equal(out.retry_after_ms, PN_ADMIT_RETRY_MS);
	admission_model_load(&config, 12 * GIB, 0, PN_ADMIT_KV_BYTES_PER_TOKEN_FP32, 0, 0, &state,
			     NULL, &out);
	assert_int_equal(out.retry_after_ms, 0);
	/* KV at f32 is 40960 a token; without the reserve all of the die counts. */
	config.die_reserve_bytes = 0;
	admission_model_load(&config, 5 * GIB - 40960 * 7, 7, PN_ADMIT_KV_BYTES_PER_TOKEN_FP32, 0,
			     0, &state, NULL, &out);
	assert_int_equal(out.verdict, PN_VERDICT_ADMIT);
	admission_model_load(&config, 5 * GIB - 40960 * 7, 8, PN_ADMIT_KV_BYTES_PER_TOKEN_FP32, 0,
			     0, &state, NULL, &out);
	assert_int_equal(out.fit_tokens, 7);
	/* A model without KV (or a bad geometry): no division by it. */
	config.kv_fp32_bytes_per_token = 0;
	admission_model_load(&config, 6 * GIB, 8, PN_ADMIT_KV_BYTES_PER_TOKEN_FP32, 0, 0, &state,
			     NULL, &out);
	assert_int_equal(out.verdict, PN_VERDICT_REJECT);
	assert_int_equal(out.fit_tokens, 0);
}

/* SPEC "pn_admit_model_load_die": weights_slice + kv_slice + 1.5 GiB against the die's free. */
static void spec_model_load_die(void **unused)
{
	static const struct {
		uint64_t weights_bytes, kv_bytes, free_bytes;
		pn_admit_verdict verdict;
	} rows[] = {
		{ 4 * GIB, GIB, 13 * GIB / 2, PN_VERDICT_ADMIT },
		{ 4 * GIB, GIB, 13 * GIB / 2 - 1, PN_VERDICT_REJECT },
		{ 0, 0, 3 * GIB / 2, PN_VERDICT_ADMIT },
		{ 0, 0, 0, PN_VERDICT_REJECT },
		{ UINT64_MAX, UINT64_MAX, 11 * GIB, PN_VERDICT_REJECT },
	};

	for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
		struct admission_config config = default_config();
		pn_mem_state state = big_host(0, rows[i].free_bytes);
		pn_admit_result out;

		admission_model_load_die(&config, rows[i].weights_bytes, rows[i].kv_bytes, 0,
					 &state, NULL, &out);
		assert_int_equal(out.verdict, rows[i].verdict);
		assert_int_equal(out.have_bytes, rows[i].free_bytes);
	}
}

/* SPEC "pn_admit_load_spike": 2.4 GiB, or PN_LOAD_SPIKE_BYTES, within host_avail - reserve. */
static void spec_load_spike(void **unused)
{
	struct admission_config config = default_config();
	pn_mem_state state = big_host(2576980377ull, 0);
	pn_admit_result out;

	admission_load_spike(&config, &state, NULL, &out);
	assert_int_equal(out.verdict, PN_VERDICT_ADMIT);
	assert_int_equal(out.need_bytes, 2576980377ull);
	state.host_avail_bytes--;
	admission_load_spike(&config, &state, NULL, &out);
	assert_int_equal(out.verdict, PN_VERDICT_REJECT);
	assert_int_equal(out.check, PN_CHECK_HOST);
	assert_int_equal(out.have_bytes, 2576980376ull);
	assert_int_equal(out.retry_after_ms, PN_ADMIT_RETRY_MS);
	state.host_total_bytes = 3 * GIB; /* 2 GiB above its reserve at the very best */
	admission_load_spike(&config, &state, NULL, &out);
	assert_int_equal(out.retry_after_ms, 0);
}

static const char *good_env(void *arg, const char *name)
{
	static const char *const rows[][2] = {
		{ "PN_HOST_RESERVE_BYTES", "2G" },
		{ "PN_DIE_RESERVE_BYTES", "512M" },
		{ "PN_PSI_FULL_REJECT", "7.5" },
		{ "PN_CGROUP_LEVEL", "0" },
		{ "PN_LOAD_SPIKE_BYTES", "3G" },
		{ "PN_ADMIT_LUT", "1:10,2:20,3:30,4:40,5:50,6:60" },
	};

	for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
		if (strcmp(rows[i][0], name) == 0)
			return rows[i][1];
	return NULL;
}

static const char *bad_env(void *arg, const char *name)
{
	return strcmp(name, "PN_LEVEL_HOLD_MS") == 0 ? NULL : "-1:x";
}

static void count_warning(void *arg, const char *name, const char *value, const char *fallback)
{
	assert_string_equal(value, "-1:x");
	assert_true(strlen(name) > 0 && strlen(fallback) > 0);
	++*(int *)arg;
}

static void settings_from_environment(void **unused)
{
	struct admission_config config, defaults = default_config();
	int warnings = 0;

	assert_int_equal(defaults.host_reserve_bytes, 0);
	assert_true(defaults.die_reserve_bytes == GIB);
	assert_true(defaults.psi_full_reject_pct == 15);
	assert_true(defaults.cgroup);
	assert_false(defaults.lut_set);

	admission_settings(&config, good_env, NULL, count_warning, &warnings);
	assert_int_equal(warnings, 0);
	assert_true(config.host_reserve_bytes == 2 * GIB);
	assert_true(config.die_reserve_bytes == 512 * MIB);
	assert_true(config.psi_full_reject_pct == 7.5);
	assert_true(config.load_spike_bytes == 3 * GIB);
	assert_false(config.cgroup);
	assert_true(config.lut_set);
	assert_int_equal(activation_peak_bytes(&config.lut, 6), 60);

	admission_settings(&config, bad_env, NULL, count_warning, &warnings);
	assert_int_equal(warnings, 6);
	assert_memory_equal(&config.lut, &defaults.lut, sizeof(config.lut));
	assert_int_equal(config.load_spike_bytes, defaults.load_spike_bytes);
	assert_int_equal(config.die_reserve_bytes, defaults.die_reserve_bytes);
	assert_false(config.lut_set);
	admission_settings(&config, bad_env, NULL, NULL, NULL); /* nobody to tell */
}

static void explains_in_words(void **unused)
{
	struct admission_config config = default_config();
	pn_mem_state state = big_host(GIB, 300 * MIB);
	pn_admit_result out;
	char text[512], small[8] = "xxxxxxx";
	size_t length;

	admission_request(&config, 4000, true, false, 0, 0, &state, NULL, &out);
	length = pn_admit_explain(&out, text, sizeof(text));
	assert_int_equal(length, strlen(text));
	assert_non_null(strstr(text, "cap at"));
	assert_non_null(strstr(text, "die 0"));
	assert_non_null(strstr(text, "has 300.0 MiB"));
	assert_non_null(strstr(text, out.reason));
	assert_int_equal(pn_admit_explain(&out, small, sizeof(small)), length);
	assert_int_equal(strlen(small), sizeof(small) - 1);
	assert_int_equal(pn_admit_explain(&out, NULL, 0), length);

	state.host_psi_full_avg10 = 23.4;
	admission_request(&config, 4000, true, false, 0, 0, &state, NULL, &out);
	pn_admit_explain(&out, text, sizeof(text));
	assert_string_equal(text, "reject: PSI full avg10 23.40 %, limit 15.00 %; "
				  "sustained memory stall — retry");

	admission_load_spike(&config, &state, NULL, &out);
	pn_admit_explain(&out, text, sizeof(text));
	assert_non_null(strstr(text, "reject: host: needs 2.40 GiB, has 1.00 GiB above a reserve "
				     "of 9.60 GiB; "));

	state.host_psi_full_avg10 = 0;
	admission_request(&config, 4000, true, true, 0, 3000, &state, NULL, &out);
	pn_admit_explain(&out, text, sizeof(text));
	assert_non_null(strstr(text, "cap at 3000 tokens: the prompt is longer"));

	admission_model_load_die(&config, 0, 0, 9, &state, NULL, &out);
	pn_admit_explain(&out, text, sizeof(text));
	assert_non_null(strstr(text, "reject: no such die"));
}

/* In a process of its own: the environment is read once. Exits with the line that failed. */
#define CHILD_CHECK(condition)                                                                     \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void in_child_public_functions(void)
{
	pn_mem_state state = big_host(2 * GIB, 5 * GIB);
	pn_admit_result out;
	pn_mem_ext ext = { .cgroup_limit_bytes = GIB };
	char text[256];

	setenv("PN_HOST_RESERVE_BYTES", "1G", 1);
	setenv("PN_LOAD_SPIKE_BYTES", "nonsense", 1);
	setenv("PN_DIE_RESERVE_BYTES", "2G", 1);
	setenv("PN_ADMIT_LUT", "1:1,2:2,3:3,4:4,5:5,6:6", 1);
	unsetenv("PN_PSI_FULL_REJECT");
	unsetenv("PN_CGROUP_LEVEL");
	unsetenv("PN_LEVEL_HOLD_MS");
	CHILD_CHECK(pn_admit_activation_bytes(4) == 4);
	unsetenv("PN_ADMIT_LUT"); /* too late to matter */
	CHILD_CHECK(pn_admit_activation_bytes(4) == 4);
	CHILD_CHECK(pn_admit_host_cost_bytes(4, true) == 4 * 5898 + 4);
	CHILD_CHECK(pn_admit_settings_check(text, sizeof(text)) == 1);
	CHILD_CHECK(strstr(text, "PN_LOAD_SPIKE_BYTES=nonsense"));
	CHILD_CHECK(pn_admit_settings_check(NULL, 0) == 1);

	pn_admit_request(10, true, true, 0, 5, &state, &out);
	CHILD_CHECK(out.verdict == PN_VERDICT_CAP && out.reserve_bytes == GIB);
	pn_admit_request_ext(10, true, true, 0, 5, &state, &ext, &out);
	CHILD_CHECK(out.check == PN_CHECK_CGROUP);
	pn_admit_model_load(3 * GIB, 0, PN_ADMIT_KV_BYTES_PER_TOKEN_Q4, 0, 0, &state, &out);
	CHILD_CHECK(out.verdict == PN_VERDICT_ADMIT && out.reserve_bytes == 2 * GIB);
	pn_admit_model_load_die(4 * GIB, 0, 0, &state, &out);
	CHILD_CHECK(out.verdict == PN_VERDICT_REJECT);
	pn_admit_load_spike(&state, &out);
	CHILD_CHECK(out.need_bytes == PN_ADMIT_LOAD_SPIKE_BYTES_DEFAULT);
	CHILD_CHECK(out.verdict == PN_VERDICT_ADMIT);
	pn_admit_load_spike_ext(&state, &ext, &out);
	CHILD_CHECK(out.verdict == PN_VERDICT_REJECT);
}

static void public_functions_use_the_environment(void **unused)
{
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		in_child_public_functions();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spec_constants),
		cmocka_unit_test(spec_model_load),
		cmocka_unit_test(model_load_settings_and_retry),
		cmocka_unit_test(spec_model_load_die),
		cmocka_unit_test(spec_load_spike),
		cmocka_unit_test(settings_from_environment),
		cmocka_unit_test(explains_in_words),
		cmocka_unit_test(public_functions_use_the_environment),
	};

	return cmocka_run_group_tests_name("admit_load", tests, NULL, NULL);
}
