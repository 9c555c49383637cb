/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gpu-probe latency LIBRARY PCI COUNT: what the driver's calls take, in one line:
 *
 *	COUNT P50_US P99_US MAX_US INIT_MS RETAIN_MS
 *
 * the first four of cuMemGetInfo, then opening and cuInit, and taking a context.
 */
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"
#include "probe.h"
#include "host/clock.h"

#define COUNT_MAX 100000

static double ms(uint64_t from_ns, uint64_t to_ns)
{
	return (double)(to_ns - from_ns) / 1e6;
}

int probe_latency(char **argv)
{
	static double us[COUNT_MAX];
	size_t count = strtoull(argv[3], NULL, 10);
	uint64_t start_ns = clock_now_ns(), open_ns, held_ns;
	struct driver driver;

	if (!count || count > COUNT_MAX)
		return 1;
	driver_open(&driver, argv[1]);
	open_ns = clock_now_ns();
	driver_hold(&driver, driver_device(&driver, argv[2]));
	held_ns = clock_now_ns();
	for (size_t i = 0; i < count; i++) {
		uint64_t before_ns = clock_now_ns();

		driver_free_bytes(&driver, NULL);
		us[i] = (double)(clock_now_ns() - before_ns) / 1e3;
	}
	printf("%zu %.1f", count, probe_percentile(us, count, 50));
	printf(" %.1f %.1f", probe_percentile(us, count, 99), probe_percentile(us, count, 100));
	printf(" %.0f %.0f\n", ms(start_ns, open_ns), ms(open_ns, held_ns));
	return 0;
}
