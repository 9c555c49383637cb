/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cuda-load LIBRARY PCI STEP_MIB: a CUDA program on one die, driven from its standard input, on a
 * real driver or the stand-in. Needs no toolkit. Each character read is one step: '+' allocates,
 * '-' frees what was allocated last, anything else (a newline) is skipped; it ends with its input.
 * It answers each step, and its start, with a line:
 *
 *	BEFORE_NS AFTER_NS HELD_BYTES FREE_BYTES TOTAL_BYTES
 *
 * the first two being CLOCK_MONOTONIC around the call, the last two what cuMemGetInfo says then.
 * Exit status 1: CUDA refused, with the reason on standard error.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "fake_abi.h"
#include "host/clock.h"

#define STEPS_MAX 4096

#define CU_USED(X)                                                                                 \
	X(cuInit)                                                                                  \
	X(cuDeviceGetCount)                                                                        \
	X(cuDeviceGet)                                                                             \
	X(cuDeviceGetPCIBusId)                                                                     \
	X(cuCtxCreate_v2)                                                                          \
	X(cuMemAlloc_v2)                                                                           \
	X(cuMemFree_v2)                                                                            \
	X(cuMemGetInfo_v2)

#define FIELD(name) name##_fn *name;
static struct {
	CU_USED(FIELD)
} cu;

static CUdeviceptr held[STEPS_MAX];
static int n_held;

static void check(CUresult result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "cuda-load: %s: CUresult %u\n", what, (unsigned int)result);
	exit(1);
}

static void load(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);

	if (!library) {
		fprintf(stderr, "cuda-load: %s\n", dlerror());
		exit(1);
	}
#define FIND(name)                                                                                 \
	cu.name = (name##_fn *)dlsym(library, #name);                                              \
	if (!cu.name)                                                                              \
		check(CUDA_ERROR_NOT_INITIALIZED, "no " #name);
	CU_USED(FIND)
}

static CUdevice find_device(const char *pci)
{
	CUdevice device;
	int n = 0;

	check(cu.cuDeviceGetCount(&n), "cuDeviceGetCount");
	for (int i = 0; i < n; i++) {
		char name[32];

		check(cu.cuDeviceGet(&device, i), "cuDeviceGet");
		check(cu.cuDeviceGetPCIBusId(name, sizeof(name), device), "cuDeviceGetPCIBusId");
		if (!strcasecmp(name, pci))
			return device;
	}
	fprintf(stderr, "cuda-load: no die %s\n", pci);
	exit(1);
}

static void report(uint64_t before_ns, uint64_t after_ns, size_t step_bytes)
{
	size_t free_bytes, total_bytes;

	check(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes), "cuMemGetInfo");
	printf("%llu %llu %zu %zu %zu\n", (unsigned long long)before_ns,
	       (unsigned long long)after_ns, (size_t)n_held * step_bytes, free_bytes, total_bytes);
	fflush(stdout);
}

static void step(int what, size_t step_bytes)
{
	uint64_t before_ns;

	if (what == '+' ? n_held == STEPS_MAX : what != '-' || !n_held)
		return;
	before_ns = clock_now_ns();
	if (what == '+')
		check(cu.cuMemAlloc_v2(&held[n_held++], step_bytes), "cuMemAlloc");
	else
		check(cu.cuMemFree_v2(held[--n_held]), "cuMemFree");
	report(before_ns, clock_now_ns(), step_bytes);
}

int main(int argc, char **argv)
{
	size_t step_bytes = argc == 4 ? strtoull(argv[3], NULL, 10) << 20 : 0;
	uint64_t before_ns = clock_now_ns();
	CUcontext context;
	int c;

	if (!step_bytes) {
		fprintf(stderr, "usage: cuda-load LIBRARY PCI STEP_MIB < STEPS\n");
		return 2;
	}
	load(argv[1]);
	check(cu.cuInit(0), "cuInit");
	check(cu.cuCtxCreate_v2(&context, 0, find_device(argv[2])), "cuCtxCreate");
	report(before_ns, clock_now_ns(), step_bytes);
	while ((c = getchar()) != EOF)
		step(c, step_bytes);
	return 0;
}
