/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The CUDA driver as a CUDA program of ours uses it. Allocating and freeing go through the
 * functions that cuGetProcAddress gives, as those of a statically linked CUDA runtime do; a driver
 * that is too old for that is asked for its symbols. Every function ends the program with a line if
 * CUDA refuses. One thread.
 */
#ifndef PNMEM_TOOLS_GPU_DRIVER_H
#define PNMEM_TOOLS_GPU_DRIVER_H

#include "memory_abi.h"

struct driver {
	void *library; /* of dlopen */
#define FIELD(name, parameters) name##_fn *name;
	CU_SAMPLER_FUNCTIONS(FIELD)
	CU_PROBE_FUNCTIONS(FIELD)
#undef FIELD
};

/* Opens a library (a path, or a name that the loader finds) and initialises it. */
void driver_open(struct driver *driver, const char *library);

/* The device with this PCI bus id. */
CUdevice driver_device(const struct driver *driver, const char *pci);

/* Retains its primary context as the sampler does, and makes it current. */
void driver_hold(const struct driver *driver, CUdevice device);

uint64_t driver_free_bytes(const struct driver *driver, uint64_t *ret_total_bytes);

/* One line on stderr and the end, unless the result is 0. */
void driver_check(CUresult result, const char *what);

#endif
