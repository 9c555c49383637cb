/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every entry point of the stand-in driver, beside those that the sampler calls: what takes or
 * gives back memory, so that uprobes have something to sit on. Types as in dies/cuda_abi.h.
 */
#ifndef PNMEM_TESTS_FAKE_ABI_H
#define PNMEM_TESTS_FAKE_ABI_H

#include "../../tools/gpu/memory_abi.h"

#ifndef __cuda_cuda_h__
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUstream_st *CUstream;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUexecAffinityParam_st CUexecAffinityParam;
typedef struct CUctxCreateParams_st CUctxCreateParams;
/* The fields up to the device; the rest is not looked at. */
typedef struct CUmemAllocationProp_st {
	unsigned int type;
	unsigned int handle_types;
	struct {
		unsigned int type;
		int id;
	} location;
} CUmemAllocationProp;

enum {
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_NOT_FOUND = 500,
};
#endif

/* Used by nobody here, but part of what a sampler may look for. */
#define CU_FAKE_QUERIES(X)                                                                         \
	X(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned int *ret_flags, int *ret_active)) \
	X(cuGetErrorString, (CUresult result, const char **ret_text))

#define CU_FAKE_ASYNC(X, suffix)                                                                   \
	X(cuMemAllocAsync##suffix, (CUdeviceptr * ret, size_t bytes, CUstream stream))             \
	X(cuMemAllocFromPoolAsync##suffix,                                                         \
	  (CUdeviceptr * ret, size_t bytes, CUmemoryPool pool, CUstream stream))                   \
	X(cuMemFreeAsync##suffix, (CUdeviceptr ptr, CUstream stream))

#define CU_FAKE_MEMORY(X)                                                                          \
	X(cuMemAllocPitch_v2, (CUdeviceptr * ret, size_t * ret_pitch, size_t width_bytes,          \
			       size_t height, unsigned int element_bytes))                         \
	X(cuMemAllocManaged, (CUdeviceptr * ret, size_t bytes, unsigned int flags))                \
	X(cuMemCreate, (CUmemGenericAllocationHandle * ret, size_t bytes,                          \
			const CUmemAllocationProp *prop, unsigned long long flags))                \
	X(cuMemRelease, (CUmemGenericAllocationHandle handle))                                     \
	X(cuMemUnmap, (CUdeviceptr ptr, size_t bytes))                                             \
	CU_FAKE_ASYNC(X, )                                                                         \
	CU_FAKE_ASYNC(X, _ptsz)                                                                    \
	X(cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep_bytes))                                 \
	X(cuMemPoolDestroy, (CUmemoryPool pool))                                                   \
	X(cuMemHostAlloc, (void **ret, size_t bytes, unsigned int flags))                          \
	X(cuMemAllocHost_v2, (void **ret, size_t bytes))                                           \
	X(cuMemFreeHost, (void *ptr))                                                              \
	X(cuMemHostRegister_v2, (void *ptr, size_t bytes, unsigned int flags))                     \
	X(cuMemHostUnregister, (void *ptr))                                                        \
	X(cuCtxCreate_v2, (CUcontext * ret, unsigned int flags, CUdevice device))                  \
	X(cuCtxCreate_v3, (CUcontext * ret, CUexecAffinityParam * affinity, int n_affinity,        \
			   unsigned int flags, CUdevice device))                                   \
	X(cuCtxCreate_v4,                                                                          \
	  (CUcontext * ret, CUctxCreateParams * params, unsigned int flags, CUdevice device))      \
	X(cuCtxDestroy_v2, (CUcontext context))

#define CU_FAKE_FUNCTIONS(X)                                                                       \
	CU_SAMPLER_FUNCTIONS(X)                                                                    \
	CU_SAMPLER_OPTIONAL(X)                                                                     \
	CU_PROBE_FUNCTIONS(X)                                                                      \
	CU_FAKE_QUERIES(X)                                                                         \
	CU_FAKE_MEMORY(X)

CU_FAKE_QUERIES(CU_FUNCTION_TYPE)
CU_FAKE_MEMORY(CU_FUNCTION_TYPE)

#endif
