/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The driver's calls that change how much of a die is free and are rare: those that are worth a
 * uprobe. What a library lacks of them is left out. The agent probes their exported symbols;
 * tools/gpu checks that a driver gives engines those same functions, since a static CUDA runtime
 * does not link them but asks cuGetProcAddress.
 */
#ifndef PNMEM_HOST_CUDA_CALLS_H
#define PNMEM_HOST_CUDA_CALLS_H

#define CUDA_ASK_DEFAULT    0
#define CUDA_ASK_PER_THREAD 2 /* the variant of the per-thread default stream */

/* X(symbol, name, version, flags): the last three are how cuGetProcAddress is asked for it. */
#define CUDA_MEMORY_CALLS(X)                                                                       \
	X(cuMemAlloc_v2, cuMemAlloc, 3020, CUDA_ASK_DEFAULT)                                       \
	X(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, CUDA_ASK_DEFAULT)                             \
	X(cuMemAllocManaged, cuMemAllocManaged, 6000, CUDA_ASK_DEFAULT)                            \
	X(cuMemFree_v2, cuMemFree, 3020, CUDA_ASK_DEFAULT)                                         \
	X(cuMemCreate, cuMemCreate, 10020, CUDA_ASK_DEFAULT)                                       \
	X(cuMemRelease, cuMemRelease, 10020, CUDA_ASK_DEFAULT)                                     \
	X(cuMemUnmap, cuMemUnmap, 10020, CUDA_ASK_DEFAULT)                                         \
	X(cuMemAllocAsync, cuMemAllocAsync, 11020, CUDA_ASK_DEFAULT)                               \
	X(cuMemAllocAsync_ptsz, cuMemAllocAsync, 11020, CUDA_ASK_PER_THREAD)                       \
	X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, CUDA_ASK_DEFAULT)               \
	X(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, 11020, CUDA_ASK_PER_THREAD)       \
	X(cuMemFreeAsync, cuMemFreeAsync, 11020, CUDA_ASK_DEFAULT)                                 \
	X(cuMemFreeAsync_ptsz, cuMemFreeAsync, 11020, CUDA_ASK_PER_THREAD)                         \
	X(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, CUDA_ASK_DEFAULT)                               \
	X(cuMemPoolDestroy, cuMemPoolDestroy, 11020, CUDA_ASK_DEFAULT)                             \
	X(cuMemHostAlloc, cuMemHostAlloc, 2020, CUDA_ASK_DEFAULT)                                  \
	X(cuMemAllocHost_v2, cuMemAllocHost, 3020, CUDA_ASK_DEFAULT)                               \
	X(cuMemFreeHost, cuMemFreeHost, 2000, CUDA_ASK_DEFAULT)                                    \
	X(cuMemHostRegister_v2, cuMemHostRegister, 6050, CUDA_ASK_DEFAULT)                         \
	X(cuMemHostUnregister, cuMemHostUnregister, 4000, CUDA_ASK_DEFAULT)                        \
	X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, CUDA_ASK_DEFAULT)              \
	X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, CUDA_ASK_DEFAULT)        \
	X(cuCtxCreate_v2, cuCtxCreate, 3020, CUDA_ASK_DEFAULT)                                     \
	X(cuCtxCreate_v3, cuCtxCreate, 11040, CUDA_ASK_DEFAULT)                                    \
	X(cuCtxCreate_v4, cuCtxCreate, 12050, CUDA_ASK_DEFAULT)                                    \
	X(cuCtxDestroy_v2, cuCtxDestroy, 4000, CUDA_ASK_DEFAULT)

#endif
