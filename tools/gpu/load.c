/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gpu-probe load LIBRARY PCI STEP_MIB: a CUDA program on one die, driven from its standard input.
 * Each character read is one step: '+' allocates, '-' frees what was allocated last, '?' does
 * neither, anything else (a newline) is skipped; it ends with its input. It answers each step, and
 * its start, with a line:
 *
 *	BEFORE_NS AFTER_NS HELD_BYTES FREE_BYTES TOTAL_BYTES
 *
 * the first two being CLOCK_MONOTONIC around the call, the last two what cuMemGetInfo says then.
 */
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"
#include "probe.h"
#include "host/clock.h"

#define STEPS_MAX 4096

static struct driver driver;
static CUdeviceptr held[STEPS_MAX];
static int n_held;

static void report(uint64_t before_ns, uint64_t after_ns, size_t step_bytes)
{
	uint64_t total_bytes, free_bytes = driver_free_bytes(&driver, &total_bytes);

	printf("%llu %llu %zu %llu %llu\n", (unsigned long long)before_ns,
	       (unsigned long long)after_ns, (size_t)n_held * step_bytes,
	       (unsigned long long)free_bytes, (unsigned long long)total_bytes);
	fflush(stdout);
}

static void step(int what, size_t step_bytes)
{
	uint64_t before_ns = clock_now_ns();

	if (what == '+' && n_held < STEPS_MAX)
		driver_check(driver.cuMemAlloc_v2(&held[n_held++], step_bytes), "cuMemAlloc");
	else if (what == '-' && n_held)
		driver_check(driver.cuMemFree_v2(held[--n_held]), "cuMemFree");
	else if (what != '?')
		return;
	report(before_ns, clock_now_ns(), step_bytes);
}

int probe_load(char **argv)
{
	size_t step_bytes = strtoull(argv[3], NULL, 10) << 20;
	uint64_t before_ns = clock_now_ns();
	int c;

	driver_open(&driver, argv[1]);
	driver_hold(&driver, driver_device(&driver, argv[2]));
	report(before_ns, clock_now_ns(), step_bytes);
	while ((c = getchar()) != EOF)
		step(c, step_bytes);
	return 0;
}
