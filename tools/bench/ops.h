/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that take nanoseconds: timed in loops of many, the loops of all calls compared taking
 * turns. A loop lasts well under a scheduler tick, so that most of them are undisturbed and the
 * median over rounds is the cost on a quiet CPU; p99 is over rounds too, so it shows the
 * machine's noise rather than a single call's worst case.
 */
#ifndef PNMEM_BENCH_OPS_H
#define PNMEM_BENCH_OPS_H

#include <stddef.h>

#include "samples.h"

struct op {
	void (*loop)(void *arg, size_t n); /* makes the call n times */
	void *arg;
	struct samples ns; /* per call, one sample a round */
};

#define OPS_ROUNDS       1001
#define OPS_ROUNDS_QUICK 21
#define OPS_LOOP         2000

void ops_measure(struct op *ops, size_t count, size_t rounds);

/* Makes the compiler believe that *p has been used, and may have been changed. */
#define op_keep(p) __asm__ volatile("" : : "r"(p) : "memory")

#endif
