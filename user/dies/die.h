/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One die: its identity, and a sample of its memory. A sample needs a CUDA context on the die,
 * which is kept from one sample to the next (retaining it takes 100 times as long as asking), but
 * never taken where it would be in an engine's way: the compute mode is read before each sample,
 * and a context that is held when an administrator makes the die exclusive is given up.
 */
#ifndef PNMEM_DIES_DIE_H
#define PNMEM_DIES_DIE_H

#include "core/die_message.h"
#include "dies/cuda.h"

struct die {
	CUdevice device;
	int ordinal;                /* CUDA's, by which it is looked up */
	struct die_sample identity; /* what does not change; state DIE_ERROR: not to be had */
	CUcontext context;          /* NULL: not held */
	bool is_mig;
	uint64_t own_context_bytes; /* 0: not measured; context_cost.h */
	int cost_tries;             /* measurements begun */
};

/* Looks up n_dies devices and sorts them by PCI id; their index is their place in dies[]. */
void dies_identify(const struct cuda *cuda, struct die *dies, int n_dies);

/*
 * Takes a sample. Returns true if the process is good for more, also after figures that cannot be,
 * and false after an error that only goes away with the process; ret is complete in both cases. One
 * thread.
 */
bool die_sample(const struct cuda *cuda, struct die *die, struct die_sample *ret);

#endif
