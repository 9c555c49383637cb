/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The measured values of one thing. Of fixed size and without pointers, so that a child process
 * can fill one in shared memory.
 */
#ifndef PNMEM_BENCH_SAMPLES_H
#define PNMEM_BENCH_SAMPLES_H

#include <stddef.h>

#define SAMPLES_MAX 4096

struct samples {
	size_t count;
	double value[SAMPLES_MAX];
};

/* Adds one; what does not fit is left out. */
void samples_add(struct samples *samples, double value);

/* The value that percent of the samples do not exceed (nearest rank); NAN without samples. */
double samples_percentile(const struct samples *samples, double percent);

#endif
