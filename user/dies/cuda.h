/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The CUDA driver as the sampler uses it: opened by dlopen in an environment that keeps it from
 * joining or disturbing anybody, initialised, and its errors put into words. What is asked of a
 * die is in die.h.
 */
#ifndef PNMEM_DIES_CUDA_H
#define PNMEM_DIES_CUDA_H

#include "core/die_message.h"
#include "dies/cuda_abi.h"

/* Entry points by their symbols' names; cuDeviceGetUuid_v2 may be NULL. */
struct cuda {
#define CUDA_FIELD(name, parameters) name##_fn *name;
	CU_SAMPLER_FUNCTIONS(CUDA_FIELD)
	CU_SAMPLER_OPTIONAL(CUDA_FIELD)
#undef CUDA_FIELD
};

/*
 * Sets this process's environment for cuInit: all devices by PCI order, nothing loaded or compiled
 * ahead, and an MPS folder that exists, is empty and stays so, since a client of an MPS server can
 * bring its other clients down. Before dlopen, single-threaded. 0 or -errno: then do not go on.
 */
int cuda_prepare_environment(void);

/* Whether a kernel driver is loaded: cuInit without one takes long and, as root, makes devices. */
bool cuda_has_kernel_driver(void);

/*
 * Opens and initialises libcuda and counts its devices; fills ret_driver in any case, as it is sent
 * to the agent. Returns DIE_EXIT_CLOSED (0) with *ret_cuda usable until the process ends, or the
 * exit status that fits. The library is never closed: its threads may still run.
 */
enum die_exit cuda_open(const char *library, struct cuda *ret_cuda, struct die_driver *ret_driver);

/* Copies text that a driver gave, cut to bytes - 1, with '?' for what is not printable ASCII. */
void cuda_copy_text(char *to, size_t bytes, const char *from);

/* The name of an error without its CUDA_ERROR_ prefix; "" for 0. */
void cuda_error_name(const struct cuda *cuda, CUresult result, char *to, size_t bytes);

#endif
