/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the CUDA driver's binary interface that the sampler calls, so that no CUDA header is
 * needed. Types have cuda.h's own names and give way to it where it was included first: that is
 * how tests/cuda/prototypes.c compares the two. Names carry the version suffix of the symbol: the
 * unversioned cuMemGetInfo and cuDeviceTotalMem are an old 32-bit interface.
 */
#ifndef PNMEM_DIES_CUDA_ABI_H
#define PNMEM_DIES_CUDA_ABI_H

#include <stddef.h>

#ifndef __cuda_cuda_h__
typedef unsigned int CUresult;
typedef unsigned int CUdevice_attribute;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUuuid_st {
	char bytes[16];
} CUuuid;

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_STUB_LIBRARY = 34,
	CUDA_ERROR_DEVICE_UNAVAILABLE = 46, /* exclusive or prohibited, and not ours */
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
	CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
};

enum {
	CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
	CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
	CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD = 84,
	CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID = 85,
};

enum {
	CU_COMPUTEMODE_DEFAULT = 0,
	CU_COMPUTEMODE_PROHIBITED = 2,
	CU_COMPUTEMODE_EXCLUSIVE_PROCESS = 3,
};

enum { CU_CTX_SCHED_BLOCKING_SYNC = 4 };
#endif

/* X(name, parameters): what every driver since R450 exports. */
#define CU_SAMPLER_FUNCTIONS(X)                                                                    \
	X(cuInit, (unsigned int flags))                                                            \
	X(cuDriverGetVersion, (int *ret_version))                                                  \
	X(cuDeviceGetCount, (int *ret_count))                                                      \
	X(cuDeviceGet, (CUdevice * ret_device, int ordinal))                                       \
	X(cuDeviceGetName, (char *name, int name_bytes, CUdevice device))                          \
	X(cuDeviceGetUuid, (CUuuid * ret_uuid, CUdevice device))                                   \
	X(cuDeviceGetPCIBusId, (char *pci, int pci_bytes, CUdevice device))                        \
	X(cuDeviceTotalMem_v2, (size_t * ret_bytes, CUdevice device))                              \
	X(cuDeviceGetAttribute, (int *ret, CUdevice_attribute attribute, CUdevice device))         \
	X(cuDevicePrimaryCtxRetain, (CUcontext * ret_context, CUdevice device))                    \
	X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                         \
	X(cuDevicePrimaryCtxSetFlags_v2, (CUdevice device, unsigned int flags))                    \
	X(cuCtxPushCurrent_v2, (CUcontext context))                                                \
	X(cuCtxPopCurrent_v2, (CUcontext * ret_context))                                           \
	X(cuMemGetInfo_v2, (size_t * ret_free_bytes, size_t * ret_total_bytes))                    \
	X(cuGetErrorName, (CUresult result, const char **ret_name))

/* Since 11.4; it alone tells a MIG instance's UUID from its GPU's. */
#define CU_SAMPLER_OPTIONAL(X) X(cuDeviceGetUuid_v2, (CUuuid * ret_uuid, CUdevice device))

#define CU_FUNCTION_TYPE(name, parameters) typedef CUresult name##_fn parameters;
CU_SAMPLER_FUNCTIONS(CU_FUNCTION_TYPE)
CU_SAMPLER_OPTIONAL(CU_FUNCTION_TYPE)

#endif
