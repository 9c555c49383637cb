/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside the stand-in driver: this process's place in the script, faults, and sums of memory. */
#ifndef PNMEM_TESTS_LIBCUDA_STATE_H
#define PNMEM_TESTS_LIBCUDA_STATE_H

#include "fake_cuda.h"

/* Maps the script and takes a slot in it, once: CUDA_SUCCESS or CUDA_ERROR_NO_DEVICE. */
CUresult state_open(void);

/* The script; NULL before state_open() succeeded. */
struct fake_cuda *state_fake(void);

/*
 * Begins every entry point (opens the state if need be): counts the call and plays its fault, that
 * is, delays, then returns the scripted error, or CUDA_SUCCESS.
 */
CUresult state_enter(enum fake_function function, int die);

/* For the entry points: returns from them what state_enter() has to say. */
#define ENTER(name, die)                                                                           \
	do {                                                                                       \
		CUresult entered_ = state_enter(FAKE_##name, die);                                 \
                                                                                                   \
		if (entered_)                                                                      \
			return entered_;                                                           \
	} while (0)

/* Die of the calling thread's current context, -1 if it has none. */
int context_current_die(void);

/* Free bytes of a die now, over all living processes; never above its total. */
uint64_t state_free_bytes(int die);

/* Takes memory for this process, or CUDA_ERROR_OUT_OF_MEMORY. Negative: gives it back. */
CUresult state_take(int die, int64_t bytes);

/* Takes or gives up (by = -1) a context as compute mode and free memory allow. */
CUresult state_context(int die, int by);

/* Contexts that this process has on a die. */
int state_contexts(int die);

/* cuMemAlloc and cuMemFree beside the exported ones: what private_calls makes engines call. */
CUresult memory_private_alloc(CUdeviceptr *ret, size_t bytes);
CUresult memory_private_free(CUdeviceptr ptr);

/* Every entry point is exported, and nothing else. */
#define CU_EXPORT(name, parameters) __attribute__((visibility("default"))) CUresult name parameters;
CU_FAKE_FUNCTIONS(CU_EXPORT)
#undef CU_EXPORT

#endif
