/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the CUDA driver's binary interface that a CUDA program of ours calls beside what the
 * sampler calls: taking and giving back memory, and how a CUDA runtime looks functions up.
 */
#ifndef PNMEM_TOOLS_GPU_MEMORY_ABI_H
#define PNMEM_TOOLS_GPU_MEMORY_ABI_H

#include <stdint.h>

#include "dies/cuda_abi.h"

#ifndef __cuda_cuda_h__
typedef unsigned long long CUdeviceptr;
#endif

#define CU_PROBE_FUNCTIONS(X)                                                                      \
	X(cuMemAlloc_v2, (CUdeviceptr * ret, size_t bytes))                                        \
	X(cuMemFree_v2, (CUdeviceptr ptr))                                                         \
	X(cuGetProcAddress,                                                                        \
	  (const char *name, void **ret_function, int cuda_version, uint64_t flags))

CU_PROBE_FUNCTIONS(CU_FUNCTION_TYPE)

#endif
