/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gpu-probe follow LIBRARY PCI STEP_MIB STEPS PAIRS LIMIT_MS: a CUDA program that compares what it
 * does with what is published. It allocates STEPS steps and frees them again, then PAIRS times one
 * step each way, and after each call waits until the snapshot says what is free then, to within
 * TOLERANCE_BYTES, or LIMIT_MS have passed. Lines, the second kind for each of the STEPS calls
 * alone:
 *
 *	start PUBLISHED_BYTES DRIVER_BYTES
 *	step HELD_BYTES EXPECTED_BYTES PUBLISHED_BYTES DRIVER_BYTES LATENCY_US	(- : never seen)
 *	end CALLS LATE DRIVER_OFF P50_US P99_US
 *
 * DRIVER_OFF counts calls after which the driver's own figure was not what was done. It gives up
 * after LATE_MAX calls that were never seen; it ends with steps held, so that its exit has
 * something to give back.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "driver.h"
#include "probe.h"
#include "host/clock.h"
#include "pn_memwatch.h"

#define TOLERANCE_BYTES (64ull << 20)
#define CALLS_MAX       4096
#define LATE_MAX        4
#define MS_NS           1000000ull
#define START_NS        (20000 * MS_NS)
/* Longer than the 2 ms that passes stay apart, so that no call waits for the pass of the one
 * before. */
#define PAUSE_US 5000

struct follow {
	struct driver driver;
	int place; /* of the die in the snapshot */
	size_t step_bytes;
	uint64_t limit_ns;
	uint64_t published_bytes; /* at the start, nothing held */
	uint64_t driver_bytes;
	CUdeviceptr held[CALLS_MAX];
	size_t n_held;
	double us[CALLS_MAX];
	size_t calls, seen, driver_off;
};

static bool is_near(uint64_t a, uint64_t b)
{
	return (a > b ? a - b : b - a) <= TOLERANCE_BYTES;
}

/* Waits for a sample of the die from after since_ns. */
static bool wait_for_sample(struct follow *f, const char *pci, uint64_t since_ns)
{
	uint64_t end_ns = clock_now_ns() + START_NS;
	pn_mem_state state;
	pn_mem_ext ext;

	do {
		if (pn_memwatch_read_ext(&state, &ext))
			return false;
		for (int i = 0; i < state.n_dies; i++) {
			if (strcasecmp(ext.die_pci[i], pci) || ext.die_state[i] != PN_SRC_OK ||
			    ext.die_sample_ns[i] < since_ns)
				continue;
			f->place = i;
			f->published_bytes = state.per_die_free[i];
			return true;
		}
		pn_memwatch_wait(PN_WAIT_SNAPSHOT, &state, end_ns, NULL);
	} while (clock_now_ns() < end_ns);
	return false;
}

/* Until the snapshot says wanted_bytes; -1: within the limit it has not. */
static double wait_for_free(const struct follow *f, uint64_t wanted_bytes, uint64_t after_ns,
			    uint64_t *ret_published_bytes)
{
	uint64_t end_ns = after_ns + f->limit_ns;
	pn_mem_state state;

	if (pn_memwatch_read(&state))
		return -1;
	while (!is_near(state.per_die_free[f->place], wanted_bytes)) {
		*ret_published_bytes = state.per_die_free[f->place];
		if (pn_memwatch_wait(PN_WAIT_SNAPSHOT, &state, end_ns, &state))
			return -1;
	}
	*ret_published_bytes = state.per_die_free[f->place];
	return (double)(clock_now_ns() - after_ns) / 1e3;
}

/* False: enough is known. */
static bool call(struct follow *f, bool allocate, bool print)
{
	uint64_t after_ns, held_bytes, published_bytes = 0, driver_bytes, wanted_bytes;
	double us;

	usleep(PAUSE_US);
	if (allocate)
		driver_check(f->driver.cuMemAlloc_v2(&f->held[f->n_held++], f->step_bytes),
			     "cuMemAlloc");
	else
		driver_check(f->driver.cuMemFree_v2(f->held[--f->n_held]), "cuMemFree");
	after_ns = clock_now_ns();
	held_bytes = f->n_held * f->step_bytes;
	wanted_bytes = f->published_bytes - held_bytes;
	us = wait_for_free(f, wanted_bytes, after_ns, &published_bytes);
	driver_bytes = driver_free_bytes(&f->driver, NULL);
	f->driver_off += !is_near(driver_bytes, f->driver_bytes - held_bytes);
	f->calls++;
	if (us >= 0)
		f->us[f->seen++] = us;
	if (!print)
		return f->calls - f->seen < LATE_MAX;
	printf("step %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, held_bytes, wanted_bytes,
	       published_bytes, driver_bytes);
	if (us >= 0)
		printf(" %.0f\n", us);
	else
		printf(" -\n");
	fflush(stdout);
	return f->calls - f->seen < LATE_MAX;
}

int probe_follow(char **argv)
{
	static struct follow f;
	size_t steps = strtoull(argv[4], NULL, 10), pairs = strtoull(argv[5], NULL, 10);
	bool more = true;

	f.step_bytes = strtoull(argv[3], NULL, 10) << 20;
	f.limit_ns = strtoull(argv[6], NULL, 10) * MS_NS;
	if (!f.step_bytes || !steps || 2 * (steps + pairs) + 1 > CALLS_MAX)
		return 1;
	if (!probe_attach())
		return 1;
	driver_open(&f.driver, argv[1]);
	driver_hold(&f.driver, driver_device(&f.driver, argv[2]));
	if (!wait_for_sample(&f, argv[2], clock_now_ns())) {
		fprintf(stderr, "gpu-probe: no fresh sample of %s is published\n", argv[2]);
		return 1;
	}
	f.driver_bytes = driver_free_bytes(&f.driver, NULL);
	printf("start %" PRIu64 " %" PRIu64 "\n", f.published_bytes, f.driver_bytes);
	for (size_t i = 0; i < 2 * steps && more; i++)
		more = call(&f, i < steps, true);
	for (size_t i = 0; i < 2 * pairs + 1 && more; i++)
		more = call(&f, i % 2 == 0, false);
	printf("end %zu %zu %zu %.0f", f.calls, f.calls - f.seen, f.driver_off,
	       probe_percentile(f.us, f.seen, 50));
	printf(" %.0f\n", probe_percentile(f.us, f.seen, 99));
	pn_memwatch_stop();
	return 0;
}
