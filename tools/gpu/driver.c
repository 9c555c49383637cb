/* SPDX-License-Identifier: BSD-2-Clause */
/* The CUDA driver. See driver.h. */
#include "driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define NOT_EXPORTED 500 /* CUDA_ERROR_NOT_FOUND */

void driver_check(CUresult result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: %s: CUresult %u\n", program_invocation_short_name, what,
		(unsigned int)result);
	exit(1);
}

static void ask_for(const struct driver *driver, const char *name, int version, void *function)
{
	if (driver->cuGetProcAddress)
		driver_check(driver->cuGetProcAddress(name, function, version, 0), name);
}

void driver_open(struct driver *driver, const char *library)
{
	driver->library = dlopen(library, RTLD_NOW);
	if (!driver->library) {
		fprintf(stderr, "%s: %s\n", program_invocation_short_name, dlerror());
		exit(1);
	}
#define FIND(name, parameters) driver->name = (name##_fn *)dlsym(driver->library, #name);
#define NEED(name, parameters)                                                                     \
	FIND(name, parameters)                                                                     \
	if (!driver->name)                                                                         \
		driver_check(NOT_EXPORTED, #name);
	CU_SAMPLER_FUNCTIONS(NEED)
	CU_PROBE_FUNCTIONS(FIND)
#undef NEED
#undef FIND
	ask_for(driver, "cuMemAlloc", 3020, &driver->cuMemAlloc_v2);
	ask_for(driver, "cuMemFree", 3020, &driver->cuMemFree_v2);
	if (!driver->cuMemAlloc_v2 || !driver->cuMemFree_v2)
		driver_check(NOT_EXPORTED, "cuMemAlloc_v2, cuMemFree_v2");
	driver_check(driver->cuInit(0), "cuInit");
}

CUdevice driver_device(const struct driver *driver, const char *pci)
{
	CUdevice device;
	int n = 0;

	driver_check(driver->cuDeviceGetCount(&n), "cuDeviceGetCount");
	for (int i = 0; i < n; i++) {
		char name[32] = "";

		driver_check(driver->cuDeviceGet(&device, i), "cuDeviceGet");
		driver_check(driver->cuDeviceGetPCIBusId(name, sizeof(name), device),
			     "cuDeviceGetPCIBusId");
		if (!strcasecmp(name, pci))
			return device;
	}
	fprintf(stderr, "%s: no die %s\n", program_invocation_short_name, pci);
	exit(1);
}

void driver_hold(const struct driver *driver, CUdevice device)
{
	CUcontext context;

	driver->cuDevicePrimaryCtxSetFlags_v2(device, CU_CTX_SCHED_BLOCKING_SYNC);
	driver_check(driver->cuDevicePrimaryCtxRetain(&context, device),
		     "cuDevicePrimaryCtxRetain");
	driver_check(driver->cuCtxPushCurrent_v2(context), "cuCtxPushCurrent");
}

uint64_t driver_free_bytes(const struct driver *driver, uint64_t *ret_total_bytes)
{
	size_t free_bytes = 0, total_bytes = 0;

	driver_check(driver->cuMemGetInfo_v2(&free_bytes, &total_bytes), "cuMemGetInfo");
	if (ret_total_bytes)
		*ret_total_bytes = total_bytes;
	return free_bytes;
}
