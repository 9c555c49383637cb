/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Live PSI beside the kernel's own arithmetic, done here as kernel/sched/psi.c does it: averages
 * in fixed point, folded every 2 s from the growth of total=.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/psi_live.h"

#define FIXED_1 2048u
#define S       1000000000ull
#define MS      1000000ull

/* One of the kernel's averages: EXP_10s 1677, EXP_60s 1981, EXP_300s 2034. */
static uint64_t kernel_fold(uint64_t avg, unsigned exp, uint64_t stall_ns, uint64_t period_ns)
{
	uint64_t pct = stall_ns * 100 / period_ns * FIXED_1 +
		       stall_ns * 100 % period_ns * FIXED_1 / period_ns;
	uint64_t next = avg * exp + pct * (FIXED_1 - exp);

	if (pct >= avg)
		next += FIXED_1 - 1;
	return next / FIXED_1;
}

static double kernel_shown(uint64_t avg)
{
	return (double)(avg / FIXED_1) + (double)(avg % FIXED_1 * 100 / FIXED_1) / 100;
}

/* A kernel whose stall time we decide. */
struct kernel {
	uint64_t tick_ns; /* last update */
	uint64_t total_ns, total_at_tick_ns;
	uint64_t avg10, avg60, avg300;
};

static void kernel_run(struct kernel *k, uint64_t now_ns, uint64_t stall_ns)
{
	k->total_ns += stall_ns;
	if (now_ns - k->tick_ns < 2 * S)
		return;
	k->avg10 =
		kernel_fold(k->avg10, 1677, k->total_ns - k->total_at_tick_ns, now_ns - k->tick_ns);
	k->avg60 =
		kernel_fold(k->avg60, 1981, k->total_ns - k->total_at_tick_ns, now_ns - k->tick_ns);
	k->avg300 = kernel_fold(k->avg300, 2034, k->total_ns - k->total_at_tick_ns,
				now_ns - k->tick_ns);
	k->tick_ns = now_ns;
	k->total_at_tick_ns = k->total_ns;
}

static struct psi_reading kernel_read(const struct kernel *k)
{
	return (struct psi_reading){
		.some_avg10_pct = kernel_shown(k->avg10),
		.full_avg10_pct = kernel_shown(k->avg10),
		.some_avg60_pct = kernel_shown(k->avg60),
		.some_avg300_pct = kernel_shown(k->avg300),
		.some_total_us = k->total_ns / 1000,
		.full_total_us = k->total_ns / 1000,
	};
}

/* facts/kernel.md: a constant full stall reads 18.1, 32.9, 45.1, 55.0, 63.2 at the ticks. */
static void test_constant_stall(void **state)
{
	static const double want[] = { 18.1, 32.9, 45.1, 55.0, 63.2 };
	struct kernel k = { 0 };
	struct psi_live live = { 0 };
	struct psi_reading r = kernel_read(&k);
	double some, full;

	psi_live_update(&live, 0, &r);
	for (uint64_t ms = 100; ms <= 10000; ms += 100) {
		kernel_run(&k, ms * MS, 100 * MS);
		r = kernel_read(&k);
		psi_live_update(&live, ms * MS, &r);
		if (ms % 2000)
			continue;
		psi_live_at(&live, ms * MS, 0, &some, &full);
		assert_true(fabs(some - want[ms / 2000 - 1]) < 0.1);
		assert_true(fabs(full - r.full_avg10_pct) < 0.1);
	}
	/* Half a second into the next period the file still lags; the live value does not. */
	kernel_run(&k, 10500 * MS, 500 * MS);
	r = kernel_read(&k);
	psi_live_update(&live, 10500 * MS, &r);
	assert_true(live.some_pct > r.some_avg10_pct + 1);
}

/* Whatever the pattern: right after a kernel update, file and live agree within 1 point. */
static void test_agrees_after_ticks(void **state)
{
	for (unsigned seed = 1; seed <= 50; seed++) {
		struct kernel k = { 0 };
		struct psi_live live = { 0 };
		struct psi_reading r = kernel_read(&k);
		double some, full;
		uint64_t last_tick;

		srand(seed);
		psi_live_update(&live, 0, &r);
		for (uint64_t ms = 0; ms < 60000;) {
			uint64_t step = 20 + (uint64_t)rand() % 80;
			/* Bursts and pauses of random length and weight. */
			uint64_t stall = rand() % 3 ? 0 : step * ((uint64_t)rand() % 101) / 100;

			ms += step;
			last_tick = k.tick_ns;
			kernel_run(&k, ms * MS, stall * MS);
			r = kernel_read(&k);
			psi_live_update(&live, ms * MS, &r);
			psi_live_at(&live, ms * MS, 0, &some, &full);
			if (k.tick_ns != last_tick)
				assert_true(fabs(some - r.some_avg10_pct) <= 1);
		}
	}
}

/* One millisecond of full stall is enough to show, which the SPEC's "> 0" rows rest on. */
static void test_first_stall_shows(void **state)
{
	struct psi_live live = { 0 };
	struct psi_reading r = { 0 };
	double some, full;

	psi_live_update(&live, S, &r);
	r.some_total_us = r.full_total_us = 900;
	psi_live_update(&live, S + 2 * MS, &r);
	psi_live_at(&live, S + 2 * MS, 0, &some, &full);
	assert_true(full == 0);
	r.some_total_us = r.full_total_us = 1100;
	psi_live_update(&live, S + 3 * MS, &r);
	psi_live_at(&live, S + 3 * MS, 0, &some, &full);
	assert_true(full > 0 && full < 0.02);
}

static void test_decays_by_itself(void **state)
{
	struct psi_live live = { 0 };
	struct psi_reading r = { .some_avg10_pct = 20, .full_avg10_pct = 10 };
	double some, full;

	psi_live_update(&live, S, &r);
	psi_live_at(&live, S, 0, &some, &full);
	assert_true(some == 20 && full == 10);
	psi_live_at(&live, 3 * S, 0, &some, &full);
	assert_true(fabs(some - 20 * 1677.0 / 2048) < 0.02);
	psi_live_at(&live, 120 * S, 0, &some, &full);
	assert_true(some == 0 && full == 0);
}

/* The hooks' clock carries `some` between reads, is bounded by the time passed, and is not kept. */
static void test_stall_clock(void **state)
{
	struct psi_live live = { 0 };
	struct psi_reading r = { 0 };
	double some, full, again;

	psi_live_update(&live, S, &r);
	psi_live_at(&live, S + 50 * MS, 25 * MS, &some, &full);
	assert_true(fabs(some - 0.25) < 0.02 && full == 0);
	psi_live_at(&live, S + 50 * MS, 999 * S, &some, &full);
	assert_true(some < 0.51);
	psi_live_at(&live, S + 50 * MS, 0, &again, &full);
	assert_true(again == 0);
}

static void test_restart(void **state)
{
	struct psi_live live = { 0 };
	struct psi_reading r = { .some_total_us = 1000000, .full_total_us = 1000000 };

	psi_live_update(&live, S, &r);
	r.some_total_us = 5; /* went backwards: no huge difference by underflow */
	psi_live_update(&live, 2 * S, &r);
	assert_true(live.some_pct == 0);
}

static void test_shown(void **state)
{
	assert_true(psi_live_shown(0) == 0);
	assert_true(psi_live_shown(-1) == 0);
	assert_true(psi_live_shown(NAN) == 0);
	assert_true(psi_live_shown(20 / 2048.0) == 0);
	assert_true(psi_live_shown(21 / 2048.0) == 0.01);
	assert_true(psi_live_shown(1e9) == 100);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_constant_stall),
		cmocka_unit_test(test_agrees_after_ticks),
		cmocka_unit_test(test_first_stall_shows),
		cmocka_unit_test(test_decays_by_itself),
		cmocka_unit_test(test_stall_clock),
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_shown),
	};

	return cmocka_run_group_tests_name("psi_live", tests, NULL, NULL);
}
