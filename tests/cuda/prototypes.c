/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compiled only where the CUDA toolkit's cuda.h is installed (tests/cuda.sh): every prototype that
 * the sampler and the stand-in assume is the toolkit's, by the compiler's own comparison.
 */
/* Declares the versioned names as they are, without the macros that make them plain. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "fake_abi.h"

#define SAME(name, parameters)                                                                     \
	_Static_assert(__builtin_types_compatible_p(name##_fn, __typeof__(name)), #name);
CU_SAMPLER_FUNCTIONS(SAME)
CU_SAMPLER_OPTIONAL(SAME)
CU_PROBE_FUNCTIONS(SAME)
CU_FAKE_QUERIES(SAME)
CU_FAKE_MEMORY(SAME)
