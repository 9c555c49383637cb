/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parts of gpu-probe, each a mode of it: run with its arguments, the first being the mode's
 * name. They print lines of words that tools/gpu-check reads, and return an exit status: 0, 1 if
 * what they were asked for cannot be had (with the reason on stderr).
 */
#ifndef PNMEM_TOOLS_GPU_PROBE_H
#define PNMEM_TOOLS_GPU_PROBE_H

#include <stdbool.h>
#include <stddef.h>

int probe_load(char **argv);
int probe_context(char **argv);
int probe_latency(char **argv);
int probe_symbols(char **argv);
int probe_snapshot(char **argv);
int probe_follow(char **argv);

/*
 * Starts the watch and attaches to the agent; false, with a line, if none answers in some seconds.
 */
bool probe_attach(void);

/* Sorts, and returns the value that percent of them do not exceed; 0 without any. */
double probe_percentile(double *values, size_t count, double percent);

#endif
