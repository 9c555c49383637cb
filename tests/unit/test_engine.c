/* SPDX-License-Identifier: BSD-2-Clause */
/* pn_admit: the SPEC's five steps, the ladder's log line and its rate limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "admission_fixture.h"
#include "host/clock.h"
#include "core/activation.h"
#include "core/engine.h"

#define SECOND_NS 1000000000ull
#define LOGGERS   4
#define LOG_TRIES 2000

static pn_mem_state host_at(pn_mem_level level)
{
	return (pn_mem_state){ .host_total_bytes = 64 * GIB,
			       .host_avail_bytes = 40 * GIB,
			       .level = level };
}

/* SPEC steps 4 and 5: the clamp comes before admission; the status maps the verdict. */
static void spec_ladder_clamps_before_admission(void **unused)
{
	static const struct {
		pn_mem_level level;
		bool ladder_off;
		int max_window, n_tokens;
		pn_admit_status status;
		int fit, clamp_from, clamp_to;
	} rows[] = {
		{ PN_MEM_LEVEL_OK, false, 16384, 16384, PN_ADMIT_OK, 16384, 0, 0 },
		{ PN_MEM_LEVEL_WATCH, false, 16384, 16384, PN_ADMIT_OK, 16384, 0, 0 },
		{ PN_MEM_LEVEL_TIGHT, false, 16384, 16384, PN_ADMIT_CAPPED, 8192, 16384, 8192 },
		{ PN_MEM_LEVEL_TIGHT, false, 16384, 8192, PN_ADMIT_OK, 8192, 16384, 8192 },
		{ PN_MEM_LEVEL_CRITICAL, false, 16384, 8192, PN_ADMIT_CAPPED, 4096, 16384, 4096 },
		{ PN_MEM_LEVEL_TIGHT, true, 16384, 16384, PN_ADMIT_OK, 16384, 0, 0 },
		{ PN_MEM_LEVEL_OK, false, 16384, 20000, PN_ADMIT_CAPPED, 16384, 0, 0 },
		{ PN_MEM_LEVEL_CRITICAL, false, 0, INT_MAX, PN_ADMIT_OK, INT_MAX, 0, 0 },
		{ PN_MEM_LEVEL_CRITICAL, false, -7, 9, PN_ADMIT_OK, 9, 0, 0 },
		{ PN_MEM_LEVEL_CRITICAL, false, 1, 9, PN_ADMIT_CAPPED, 1, 0, 0 },
		{ PN_MEM_LEVEL_CRITICAL, false, 2, 9, PN_ADMIT_CAPPED, 1, 2, 1 },
		{ PN_MEM_LEVEL_TIGHT, false, 16384, -4, PN_ADMIT_OK, 0, 16384, 8192 },
	};
	struct admission_config config = default_config();

	for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
		pn_engine model = { .max_window = rows[i].max_window, .gpu_resident = true };
		pn_mem_state state = host_at(rows[i].level);
		struct engine_clamp clamp;
		pn_admit_result out;

		assert_int_equal(engine_decide(&config, &model, rows[i].n_tokens,
					       rows[i].ladder_off, &state, NULL, &out, &clamp),
				 rows[i].status);
		assert_int_equal(out.fit_tokens, rows[i].fit);
		assert_int_equal(out.level, rows[i].level);
		assert_int_equal(clamp.from_tokens, rows[i].clamp_from);
		assert_int_equal(clamp.to_tokens, rows[i].clamp_to);
	}
}

/* A denial, by the reserve or by a stall, carries the level for bs_notify_pressure (SPEC D3). */
static void spec_denied(void **unused)
{
	struct admission_config config = default_config();
	pn_engine model = { .max_window = 1000, .gpu_resident = true };
	pn_mem_state state = host_at(PN_MEM_LEVEL_CRITICAL);
	struct engine_clamp clamp;
	pn_admit_result out;

	state.host_avail_bytes = GIB;
	assert_int_equal(engine_decide(&config, &model, 10, false, &state, NULL, &out, &clamp),
			 PN_ADMIT_DENIED);
	assert_int_equal(out.check, PN_CHECK_HOST);
	assert_int_equal(out.level, PN_MEM_LEVEL_CRITICAL);
	state = host_at(PN_MEM_LEVEL_CRITICAL);
	state.host_psi_full_avg10 = 15;
	assert_int_equal(engine_decide(&config, &model, 10, false, &state, NULL, &out, &clamp),
			 PN_ADMIT_DENIED);
	assert_int_equal(out.check, PN_CHECK_PSI_FULL);
	assert_int_equal(out.fit_tokens, 0);
}

/* SPEC step 3: the die with the fewest free bytes, of those that the model uses and exist. */
static void spec_worst_die(void **unused)
{
	static const struct {
		uint32_t mask;
		int n_dies, worst;
	} rows[] = {
		{ 0, 16, -1 },
		{ 0xffffffff, 16, 5 },
		{ 0xffffffff, 5, 2 },
		{ 0xffffffff, INT_MAX, 5 },
		{ 0xffffffff, -1, -1 },
		{ 1u << 0 | 1u << 1, 16, 1 },
		{ 1u << 3, 16, -1 }, /* budget 0: not there, whatever its free bytes say */
		{ 1u << 3 | 1u << 4, 16, 4 },
		{ 1u << 6 | 1u << 7, 16, 6 }, /* equal: the lowest */
		{ 0xffff0000, 16, -1 },
	};
	pn_mem_state state = { 0 };

	for (int die = 0; die < PN_MEM_MAX_DIES; die++) {
		state.per_die_free[die] = 8 * GIB;
		state.per_die_budget[die] = 11 * GIB;
	}
	state.per_die_free[1] = 7 * GIB;
	state.per_die_free[2] = 6 * GIB;
	state.per_die_free[3] = state.per_die_budget[3] = 0;
	state.per_die_free[5] = 5 * GIB;
	for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
		state.n_dies = rows[i].n_dies;
		assert_int_equal(engine_worst_die(rows[i].mask, &state), rows[i].worst);
	}
}

/* The die that was chosen is the one that is compared on the CPU path. */
static void worst_die_is_compared(void **unused)
{
	struct admission_config config = default_config();
	pn_engine model = { .die_mask = 3 };
	pn_mem_state state = host_at(PN_MEM_LEVEL_OK);
	struct engine_clamp clamp;
	pn_admit_result out;

	state.n_dies = 2;
	state.per_die_budget[0] = state.per_die_budget[1] = 11 * GIB;
	state.per_die_free[0] = 10 * GIB;
	state.per_die_free[1] = GIB;
	assert_int_equal(engine_decide(&config, &model, 4000, false, &state, NULL, &out, &clamp),
			 PN_ADMIT_CAPPED);
	assert_int_equal(out.check, PN_CHECK_DIE);
	assert_int_equal(out.die_id, 1);
}

/* An engine's own costs are used; the operator's table has the last word. */
static void model_overrides(void **unused)
{
	static const pn_admit_lut lut = {
		{ { 1, 1 }, { 2, 2 }, { 3, 3 }, { 4, 4 }, { 5, 5 }, { 100, 100 } }
	};
	struct admission_config config = default_config();
	pn_engine model = { .kv_q4 = true };
	pn_mem_state state = host_at(PN_MEM_LEVEL_OK);
	struct engine_clamp clamp;
	pn_admit_result out;

	engine_decide(&config, &model, 100, false, &state, NULL, &out, &clamp);
	assert_int_equal(out.need_bytes, admission_host_cost_bytes(&config, 100, true));
	model.lut = &lut;
	engine_decide(&config, &model, 100, false, &state, NULL, &out, &clamp);
	assert_int_equal(out.need_bytes, 5898 * 100 + 100);
	model.kv_bytes_per_token = 5760;
	engine_decide(&config, &model, 100, false, &state, NULL, &out, &clamp);
	assert_int_equal(out.need_bytes, 5760 * 100 + 100);
	config.lut_set = true;
	engine_decide(&config, &model, 100, false, &state, NULL, &out, &clamp);
	assert_int_equal(out.need_bytes, 5760 * 100 + activation_peak_bytes(&config.lut, 100));
}

/* SPEC "The logged TIGHT clamp", word for word up to the bracket. */
static void spec_clamp_line(void **unused)
{
	struct engine_clamp clamp = { 16384, 8192 };
	pn_mem_state state = host_at(PN_MEM_LEVEL_TIGHT);
	char line[192], small[12];

	state.host_avail_bytes = 3 * GIB / 2;
	state.host_psi_some_avg10 = 12.5;
	engine_clamp_line(&clamp, &state, line, sizeof(line));
	assert_string_equal(line, "[ladder] TIGHT -> prefill window clamped 16384 -> 8192 (host "
				  "1.50 GiB available, PSI some 12.50 % full 0.00 %)");
	engine_clamp_line(&clamp, &state, small, sizeof(small));
	assert_string_equal(small, "[ladder] TI");
}

static void log_once_a_second_per_level(void **unused)
{
	pn_engine model = { 0 };

	assert_true(engine_log_due(&model, PN_MEM_LEVEL_TIGHT, 5 * SECOND_NS));
	assert_false(engine_log_due(&model, PN_MEM_LEVEL_TIGHT, 5 * SECOND_NS));
	assert_false(engine_log_due(&model, PN_MEM_LEVEL_TIGHT, 6 * SECOND_NS - 1));
	assert_true(engine_log_due(&model, PN_MEM_LEVEL_CRITICAL, 6 * SECOND_NS - 1));
	assert_true(engine_log_due(&model, PN_MEM_LEVEL_TIGHT, 6 * SECOND_NS));
	assert_false(engine_log_due(&model, PN_MEM_LEVEL_CRITICAL, 6 * SECOND_NS));
	/* A level out of range stays inside the array. */
	engine_log_due(&model, (pn_mem_level)-1, SECOND_NS);
	engine_log_due(&model, (pn_mem_level)1000, SECOND_NS);
}

struct logger {
	pn_engine *model;
	pthread_barrier_t *start;
	int lines;
};

static void *logger_run(void *arg)
{
	struct logger *logger = arg;

	pthread_barrier_wait(logger->start);
	for (uint64_t i = 0; i < LOG_TRIES; i++)
		logger->lines += engine_log_due(logger->model, PN_MEM_LEVEL_TIGHT,
						(1 + i * 3 / LOG_TRIES) * SECOND_NS);
	return NULL;
}

/* Threads that clamp in the same second (the 1st, 2nd or 3rd here) write one line between them. */
static void log_limit_holds_across_threads(void **unused)
{
	struct logger loggers[LOGGERS];
	pthread_t threads[LOGGERS];
	pthread_barrier_t start;
	pn_engine model = { 0 };
	int lines = 0;

	assert_int_equal(pthread_barrier_init(&start, NULL, LOGGERS), 0);
	for (int i = 0; i < LOGGERS; i++) {
		loggers[i] = (struct logger){ &model, &start, 0 };
		assert_int_equal(pthread_create(&threads[i], NULL, logger_run, &loggers[i]), 0);
	}
	for (int i = 0; i < LOGGERS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		lines += loggers[i].lines;
	}
	pthread_barrier_destroy(&start);
	/* Not exactly 3: the fastest thread may be in its 3rd before any other tries. */
	assert_in_range(lines, 1, 3);
	assert_true(model.log_next_ns[PN_MEM_LEVEL_TIGHT] == 4 * SECOND_NS);
}

/* SPEC step 1: without a running pn_memwatch nothing is refused. */
static void spec_fail_open(void **unused)
{
	pn_engine model = { .max_window = 10, .gpu_resident = true };
	pn_admit_result out;
	int fit = -1;

	assert_false(pn_memwatch_running());
	assert_int_equal(pn_admit(&model, 1 << 20, &fit), PN_ADMIT_OK);
	assert_int_equal(fit, 1 << 20);
	assert_int_equal(pn_admit(&model, -3, &fit), PN_ADMIT_OK);
	assert_int_equal(fit, 0);
	assert_int_equal(pn_admit(&model, 5, NULL), PN_ADMIT_OK);
	assert_int_equal(pn_admit_result_for(&model, 5, &out), PN_ADMIT_OK);
	assert_int_equal(out.verdict, PN_VERDICT_ADMIT);
	assert_non_null(out.reason);
}

struct log_count {
	int lines, odd;
};

static void count_line(void *arg, const char *line)
{
	struct log_count *count = arg;

	count->lines++;
	if (strncmp(line, "[ladder] CRITICAL -> prefill window clamped 4096 -> 1024 (", 57) != 0)
		count->odd++;
}

/* In a process of its own, as the environment is read once. Exits with the step that failed. */
static void in_child_live(void)
{
	struct log_count count = { 0, 0 };
	pn_engine model = {
		.max_window = 4096, .gpu_resident = true, .log = count_line, .log_arg = &count
	};
	pn_admit_result out;
	uint64_t begin_ns;
	int fit = -1;

	/* A reserve beyond any host: CRITICAL by bytes, everywhere. */
	setenv("PN_HOST_RESERVE_BYTES", "1048576T", 1);
	setenv("PN_SOCKET", "/nonexistent/pnmem.sock", 1);
	unsetenv("PN_LADDER_DISABLE");
	unsetenv("PN_PSI_FULL_REJECT");
	begin_ns = clock_now_ns();
	if (pn_memwatch_start() != 0)
		_exit(1);
	if (pn_admit(&model, 100, &fit) != PN_ADMIT_DENIED || fit != 0)
		_exit(2);
	if (pn_admit_result_for(&model, 100, &out) != PN_ADMIT_DENIED)
		_exit(3);
	if (out.check != PN_CHECK_HOST && out.check != PN_CHECK_PSI_FULL)
		_exit(4);
	if (out.level != PN_MEM_LEVEL_CRITICAL)
		_exit(5);
	if (count.lines < 1 || count.odd)
		_exit(6);
	/* The two calls are one line, unless this machine took a second over them. */
	if (count.lines > 1 && clock_now_ns() - begin_ns < SECOND_NS)
		_exit(7);
	model.log = NULL;
	pn_admit(&model, 100, NULL);
	pn_memwatch_stop();
	if (pn_admit(&model, 100, &fit) != PN_ADMIT_OK || fit != 100)
		_exit(8);
	_exit(0);
}

/* SPEC steps 1 to 5 on the running watch of this machine. */
static void spec_live_snapshot(void **unused)
{
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0)
		in_child_live();
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	/* First: its child must be the one that reads the environment. */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spec_live_snapshot),
		cmocka_unit_test(spec_ladder_clamps_before_admission),
		cmocka_unit_test(spec_denied),
		cmocka_unit_test(spec_worst_die),
		cmocka_unit_test(worst_die_is_compared),
		cmocka_unit_test(model_overrides),
		cmocka_unit_test(spec_clamp_line),
		cmocka_unit_test(log_once_a_second_per_level),
		cmocka_unit_test(log_limit_holds_across_threads),
		cmocka_unit_test(spec_fail_open),
	};

	return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
