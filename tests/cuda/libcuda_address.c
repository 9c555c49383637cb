/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stand-in driver: cuGetProcAddress, of the memory calls. As in the real ones, the functions that
 * it gives are those exported; or, if the script says so, others, which no uprobe sees.
 */
#include <stddef.h>
#include <string.h>

#include "host/cuda_calls.h"
#include "libcuda_state.h"

static const struct call {
	const char *name;
	int version;
	uint64_t flags;
	void *function;
} calls[] = {
#define CALL(symbol, name, version, flags) { #name, version, flags, (void *)symbol },
	CUDA_MEMORY_CALLS(CALL)
#undef CALL
};

static const struct call *find(const char *name, int cuda_version, uint64_t flags)
{
	const struct call *best = NULL;

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (!strcmp(calls[i].name, name) && calls[i].flags == flags &&
		    calls[i].version <= cuda_version && (!best || calls[i].version > best->version))
			best = &calls[i];
	}
	return best;
}

CUresult cuGetProcAddress(const char *name, void **ret_function, int cuda_version, uint64_t flags)
{
	const struct call *call = find(name, cuda_version, flags);

	ENTER(cuGetProcAddress, FAKE_ANY_DIE);
	if (!call)
		return CUDA_ERROR_NOT_FOUND;
	*ret_function = call->function;
	if (state_fake()->private_calls && call->function == (void *)cuMemAlloc_v2)
		*ret_function = (void *)memory_private_alloc;
	if (state_fake()->private_calls && call->function == (void *)cuMemFree_v2)
		*ret_function = (void *)memory_private_free;
	return CUDA_SUCCESS;
}
