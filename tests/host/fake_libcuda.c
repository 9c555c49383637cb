/* SPDX-License-Identifier: BSD-2-Clause */
/* A libcuda that does nothing, for probing: three of the real one's memory calls, and one other. */
#define EXPORT __attribute__((visibility("default"), noinline))

EXPORT int cuMemAlloc_v2(unsigned long long *ret, unsigned long bytes);
EXPORT int cuMemFree_v2(unsigned long long address);
EXPORT int cuCtxDestroy_v2(void *context);
EXPORT int cuLaunchKernel(void);

int cuMemAlloc_v2(unsigned long long *ret, unsigned long bytes)
{
	*ret = bytes;
	return 0;
}

int cuMemFree_v2(unsigned long long address)
{
	return address == 0;
}

int cuCtxDestroy_v2(void *context)
{
	return context != 0;
}

int cuLaunchKernel(void)
{
	return 0;
}
