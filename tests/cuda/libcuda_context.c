/* SPDX-License-Identifier: BSD-2-Clause */
/* Stand-in driver: contexts, primary and made, and each thread's stack of them. */
#include <stdbool.h>
#include <stdlib.h>

#include "libcuda_state.h"

#define STACK_MAX 16

struct CUctx_st {
	int die;
};

static struct CUctx_st primary[FAKE_MAX_DIES];
static _Thread_local CUcontext stack[STACK_MAX];
static _Thread_local int depth;

int context_current_die(void)
{
	return depth ? stack[depth - 1]->die : FAKE_ANY_DIE;
}

static bool device_ok(CUdevice device)
{
	return device >= 0 && device < state_fake()->n_dies;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ret_context, CUdevice device)
{
	CUresult result;

	ENTER(cuDevicePrimaryCtxRetain, device);
	if (!device_ok(device))
		return CUDA_ERROR_INVALID_DEVICE;
	result = state_context(device, 1);
	if (result)
		return result;
	primary[device].die = device;
	*ret_context = &primary[device];
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	ENTER(cuDevicePrimaryCtxRelease_v2, device);
	return device_ok(device) ? state_context(device, -1) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
	ENTER(cuDevicePrimaryCtxSetFlags_v2, device);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *ret_flags, int *ret_active)
{
	ENTER(cuDevicePrimaryCtxGetState, device);
	if (!device_ok(device))
		return CUDA_ERROR_INVALID_DEVICE;
	*ret_flags = 0;
	*ret_active = state_contexts(device) > 0;
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	ENTER(cuCtxPushCurrent_v2, context->die);
	if (depth == STACK_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	stack[depth++] = context;
	return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *ret_context)
{
	ENTER(cuCtxPopCurrent_v2, context_current_die());
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	*ret_context = stack[--depth];
	return CUDA_SUCCESS;
}

/* Makes a context and, as CUDA does, makes it current. */
static CUresult create(CUcontext *ret_context, CUdevice device)
{
	CUresult result;
	CUcontext context;

	if (!device_ok(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (depth == STACK_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	result = state_context(device, 1);
	if (result)
		return result;
	context = malloc(sizeof(*context));
	if (!context)
		abort();
	context->die = device;
	stack[depth++] = context;
	*ret_context = context;
	return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *ret, unsigned int flags, CUdevice device)
{
	ENTER(cuCtxCreate_v2, device);
	return create(ret, device);
}

CUresult cuCtxCreate_v3(CUcontext *ret, CUexecAffinityParam *affinity, int n_affinity,
			unsigned int flags, CUdevice device)
{
	ENTER(cuCtxCreate_v3, device);
	return create(ret, device);
}

CUresult cuCtxCreate_v4(CUcontext *ret, CUctxCreateParams *params, unsigned int flags,
			CUdevice device)
{
	ENTER(cuCtxCreate_v4, device);
	return create(ret, device);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
	CUresult result;

	ENTER(cuCtxDestroy_v2, context->die);
	result = state_context(context->die, -1);
	if (depth && stack[depth - 1] == context)
		depth--;
	free(context);
	return result;
}
