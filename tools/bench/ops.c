/* SPDX-License-Identifier: BSD-2-Clause */
/* Loops that take turns. See ops.h. */
#include "ops.h"

#include "host/clock.h"

static double ns_per_call(const struct op *op)
{
	uint64_t start_ns = clock_now_ns();

	op->loop(op->arg, OPS_LOOP);
	return (double)(clock_now_ns() - start_ns) / OPS_LOOP;
}

void ops_measure(struct op *ops, size_t count, size_t rounds)
{
	for (size_t i = 0; i < count; i++)
		ns_per_call(&ops[i]); /* caches and branch predictor */
	for (size_t round = 0; round < rounds; round++)
		for (size_t i = 0; i < count; i++)
			samples_add(&ops[i].ns, ns_per_call(&ops[i]));
}
