/* SPDX-License-Identifier: BSD-2-Clause */
/* The one clock: CLOCK_MONOTONIC in nanoseconds, which is also bpf_ktime_get_ns(). */
#ifndef PNMEM_HOST_CLOCK_H
#define PNMEM_HOST_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
