/* SPDX-License-Identifier: BSD-2-Clause */
/* Percentiles. See samples.h. */
#include "samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void samples_add(struct samples *samples, double value)
{
	if (samples->count < SAMPLES_MAX)
		samples->value[samples->count++] = value;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double samples_percentile(const struct samples *samples, double percent)
{
	static double sorted[SAMPLES_MAX];
	size_t rank;

	if (!samples->count)
		return NAN;
	memcpy(sorted, samples->value, samples->count * sizeof(sorted[0]));
	qsort(sorted, samples->count, sizeof(sorted[0]), compare);
	rank = (size_t)ceil(percent / 100 * (double)samples->count);
	return sorted[rank > 1 ? rank - 1 : 0];
}
