/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gpu-probe: a CUDA program for checking pnmem on a machine with a GPU, or with the stand-in
 * driver. It needs the driver alone, no toolkit, and is told what to do by tools/gpu-check.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pn_memwatch.h"
#include "probe.h"

/* The library looks for an agent once a second. */
#define ATTACH_TRIES   60
#define ATTACH_STEP_US 50000

static const struct mode {
	const char *name, *arguments;
	int argc; /* with the name */
	int (*run)(char **argv);
} modes[] = {
	{ "load", "LIBRARY PCI STEP_MIB", 4, probe_load },
	{ "context", "LIBRARY PCI", 3, probe_context },
	{ "latency", "LIBRARY PCI COUNT", 4, probe_latency },
	{ "symbols", "LIBRARY", 2, probe_symbols },
	{ "snapshot", "", 1, probe_snapshot },
	{ "follow", "LIBRARY PCI STEP_MIB STEPS PAIRS LIMIT_MS", 7, probe_follow },
};

#define MODE_COUNT (sizeof(modes) / sizeof(modes[0]))

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double probe_percentile(double *values, size_t count, double percent)
{
	size_t rank = (size_t)ceil(percent / 100 * (double)count);

	if (!count)
		return 0;
	qsort(values, count, sizeof(*values), compare);
	return values[rank > 1 ? rank - 1 : 0];
}

bool probe_attach(void)
{
	if (pn_memwatch_start())
		return false;
	for (int i = 0; i < ATTACH_TRIES && pn_memwatch_source() != PN_SOURCE_AGENT; i++)
		usleep(ATTACH_STEP_US);
	if (pn_memwatch_source() == PN_SOURCE_AGENT)
		return true;
	fprintf(stderr, "gpu-probe: no agent answers\n");
	return false;
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < MODE_COUNT; i++)
		if (argc == modes[i].argc + 1 && !strcmp(argv[1], modes[i].name))
			return modes[i].run(argv + 1);
	for (size_t i = 0; i < MODE_COUNT; i++)
		fprintf(stderr, "%s gpu-probe %s %s\n", i ? "      " : "usage:", modes[i].name,
			modes[i].arguments);
	return 2;
}
