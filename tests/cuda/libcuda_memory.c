/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stand-in driver: device and host memory. A device pointer or handle only says what it stands for
 * (die + 1 in its highest byte, bytes below), so that nothing needs to be remembered.
 */
#include <stdlib.h>

#include "libcuda_state.h"

#define BYTES_BITS 56
#define PITCH      512

static CUresult take(unsigned long long *ret, size_t bytes, int die)
{
	CUresult result;

	if (die < 0 || die >= state_fake()->n_dies)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!bytes || bytes >> BYTES_BITS)
		return CUDA_ERROR_INVALID_VALUE;
	result = state_take(die, (int64_t)bytes);
	if (!result)
		*ret = (unsigned long long)(die + 1) << BYTES_BITS | bytes;
	return result;
}

static int die_of(unsigned long long ptr)
{
	return (int)(ptr >> BYTES_BITS) - 1;
}

static CUresult give_back(unsigned long long ptr)
{
	int die = die_of(ptr);

	if (die < 0 || die >= FAKE_MAX_DIES)
		return ptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	return state_take(die, -(int64_t)(ptr & ((1ull << BYTES_BITS) - 1)));
}

CUresult cuMemAlloc_v2(CUdeviceptr *ret, size_t bytes)
{
	ENTER(cuMemAlloc_v2, context_current_die());
	return take(ret, bytes, context_current_die());
}

CUresult memory_private_alloc(CUdeviceptr *ret, size_t bytes)
{
	return take(ret, bytes, context_current_die());
}

CUresult memory_private_free(CUdeviceptr ptr)
{
	return give_back(ptr);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *ret, size_t *ret_pitch, size_t width_bytes, size_t height,
			    unsigned int element_bytes)
{
	ENTER(cuMemAllocPitch_v2, context_current_die());
	*ret_pitch = (width_bytes + PITCH - 1) / PITCH * PITCH;
	return take(ret, *ret_pitch * height, context_current_die());
}

CUresult cuMemAllocManaged(CUdeviceptr *ret, size_t bytes, unsigned int flags)
{
	ENTER(cuMemAllocManaged, context_current_die());
	return take(ret, bytes, context_current_die());
}

CUresult cuMemFree_v2(CUdeviceptr ptr)
{
	ENTER(cuMemFree_v2, die_of(ptr));
	return give_back(ptr);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *ret, size_t bytes,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	ENTER(cuMemCreate, prop->location.id);
	return take(ret, bytes, prop->location.id);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	ENTER(cuMemRelease, die_of(handle));
	return give_back(handle);
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t bytes)
{
	ENTER(cuMemUnmap, FAKE_ANY_DIE);
	return CUDA_SUCCESS;
}

/* The per-thread-stream variants do the same. */
#define ASYNC(suffix)                                                                              \
	CUresult cuMemAllocAsync##suffix(CUdeviceptr *ret, size_t bytes, CUstream stream)          \
	{                                                                                          \
		ENTER(cuMemAllocAsync##suffix, context_current_die());                             \
		return take(ret, bytes, context_current_die());                                    \
	}                                                                                          \
                                                                                                   \
	CUresult cuMemAllocFromPoolAsync##suffix(CUdeviceptr *ret, size_t bytes,                   \
						 CUmemoryPool pool, CUstream stream)               \
	{                                                                                          \
		ENTER(cuMemAllocFromPoolAsync##suffix, context_current_die());                     \
		return take(ret, bytes, context_current_die());                                    \
	}                                                                                          \
                                                                                                   \
	CUresult cuMemFreeAsync##suffix(CUdeviceptr ptr, CUstream stream)                          \
	{                                                                                          \
		ENTER(cuMemFreeAsync##suffix, die_of(ptr));                                        \
		return give_back(ptr);                                                             \
	}

ASYNC()
ASYNC(_ptsz)

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes)
{
	ENTER(cuMemPoolTrimTo, FAKE_ANY_DIE);
	return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	ENTER(cuMemPoolDestroy, FAKE_ANY_DIE);
	return CUDA_SUCCESS;
}

static CUresult take_host(void **ret, size_t bytes)
{
	*ret = malloc(bytes);
	return *ret ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemHostAlloc(void **ret, size_t bytes, unsigned int flags)
{
	ENTER(cuMemHostAlloc, FAKE_ANY_DIE);
	return take_host(ret, bytes);
}

CUresult cuMemAllocHost_v2(void **ret, size_t bytes)
{
	ENTER(cuMemAllocHost_v2, FAKE_ANY_DIE);
	return take_host(ret, bytes);
}

CUresult cuMemFreeHost(void *ptr)
{
	ENTER(cuMemFreeHost, FAKE_ANY_DIE);
	free(ptr);
	return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned int flags)
{
	ENTER(cuMemHostRegister_v2, FAKE_ANY_DIE);
	return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *ptr)
{
	ENTER(cuMemHostUnregister, FAKE_ANY_DIE);
	return CUDA_SUCCESS;
}
