/* SPDX-License-Identifier: BSD-2-Clause */
/* Identity and samples of a die. See die.h. */
#include "dies/die.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/clock.h"

/* Writes an error into a sample. Returns whether the process is good for more. */
static bool fail(const struct cuda *cuda, struct die_sample *s, CUresult result)
{
	s->state = result == CUDA_ERROR_DEVICE_UNAVAILABLE ? DIE_NO_CONTEXT : DIE_ERROR;
	s->cuda_error = (int32_t)result;
	cuda_error_name(cuda, result, s->error_name, sizeof(s->error_name));
	return !die_sample_ends_process(s);
}

/* "0000:3B:00.0" to the form that sysfs and nvidia-smi share; "" if it is not of that form. */
static void normalise_pci(const char *from, char *to, size_t bytes)
{
	unsigned int domain, bus, device, function;

	memset(to, 0, bytes);
	if (sscanf(from, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4 ||
	    domain > 0xfffffff || bus > 0xff || device > 0xff || function > 0xf)
		return;
	snprintf(to, bytes, "%04x:%02x:%02x.%x", domain, bus, device, function);
}

static CUresult read_pci(const struct cuda *cuda, struct die *die)
{
	struct die_sample *s = &die->identity;
	char pci[32] = "";
	CUresult result = cuda->cuDeviceGetPCIBusId(pci, sizeof(pci), die->device);

	if (result)
		return result;
	pci[sizeof(pci) - 1] = 0;
	normalise_pci(pci, s->pci, sizeof(s->pci));
	return CUDA_SUCCESS;
}

/* A MIG instance has a UUID of its own, beside that of its GPU; older drivers say it by name. */
static CUresult read_uuid(const struct cuda *cuda, struct die *die)
{
	CUuuid gpu = { { 0 } }, instance;
	CUresult result = cuda->cuDeviceGetUuid(&gpu, die->device);

	instance = gpu;
	if (!result && cuda->cuDeviceGetUuid_v2)
		result = cuda->cuDeviceGetUuid_v2(&instance, die->device);
	memcpy(die->identity.uuid, instance.bytes, sizeof(die->identity.uuid));
	die->is_mig = memcmp(&gpu, &instance, sizeof(gpu)) || strstr(die->identity.name, " MIG ");
	return result;
}

static CUresult read_board(const struct cuda *cuda, struct die *die)
{
	int many = 0, group = -1;
	CUresult result;

	die->identity.board_group = -1;
	result =
		cuda->cuDeviceGetAttribute(&many, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD, die->device);
	if (!result && many)
		result = cuda->cuDeviceGetAttribute(
			&group, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID, die->device);
	if (!result && group >= 0)
		die->identity.board_group = group;
	return result;
}

static CUresult read_identity(const struct cuda *cuda, struct die *die)
{
	struct die_sample *s = &die->identity;
	size_t total_bytes = 0;
	char name[256] = "";
	int integrated = 0;
	CUresult result;

	result = cuda->cuDeviceGetName(name, sizeof(name), die->device);
	name[sizeof(name) - 1] = 0;
	cuda_copy_text(s->name, sizeof(s->name), name);
	if (!result)
		result = read_uuid(cuda, die);
	if (!result)
		result = read_board(cuda, die);
	if (!result)
		result = cuda->cuDeviceGetAttribute(&integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED,
						    die->device);
	if (!result)
		result = cuda->cuDeviceTotalMem_v2(&total_bytes, die->device);
	s->integrated = integrated != 0;
	s->total_bytes = total_bytes;
	return result;
}

static void identify(const struct cuda *cuda, struct die *die, int ordinal)
{
	CUresult result;

	memset(die, 0, sizeof(*die));
	die->ordinal = ordinal;
	die->identity.board_group = -1;
	result = cuda->cuDeviceGet(&die->device, ordinal);
	if (!result)
		result = read_pci(cuda, die);
	if (!result)
		result = read_identity(cuda, die);
	if (result) {
		fail(cuda, &die->identity, result);
		die->identity.state = DIE_ERROR;
	} else if (!die->identity.pci[0]) {
		die->identity.state = DIE_ERROR;
		cuda_copy_text(die->identity.error_name, sizeof(die->identity.error_name),
			       "PCI id not understood");
	}
}

/* Domains may be of more than four digits: longer is larger. Unknown ids come last. */
static int by_pci(const void *a, const void *b)
{
	const char *pci_a = ((const struct die *)a)->identity.pci;
	const char *pci_b = ((const struct die *)b)->identity.pci;
	size_t a_len = strlen(pci_a), b_len = strlen(pci_b);

	if (!a_len || !b_len)
		return (a_len == 0) - (b_len == 0);
	if (a_len != b_len)
		return a_len < b_len ? -1 : 1;
	return strcmp(pci_a, pci_b);
}

void dies_identify(const struct cuda *cuda, struct die *dies, int n_dies)
{
	for (int i = 0; i < n_dies; i++)
		identify(cuda, &dies[i], i);
	qsort(dies, (size_t)n_dies, sizeof(*dies), by_pci);
	for (int i = 0; i < n_dies; i++) {
		dies[i].identity.index = i;
		dies[i].identity.n_dies = n_dies;
	}
}

static CUresult retain(const struct cuda *cuda, struct die *die)
{
	/* Only how our own thread waits; not worth an error. */
	cuda->cuDevicePrimaryCtxSetFlags_v2(die->device, CU_CTX_SCHED_BLOCKING_SYNC);
	return cuda->cuDevicePrimaryCtxRetain(&die->context, die->device);
}

static CUresult release(const struct cuda *cuda, struct die *die)
{
	die->context = NULL;
	return cuda->cuDevicePrimaryCtxRelease_v2(die->device);
}

/* Once more, where that failed and the process is still good: its place among the dies stays. */
static void identify_again(const struct cuda *cuda, struct die *die)
{
	int32_t index = die->identity.index, n_dies = die->identity.n_dies;

	identify(cuda, die, die->ordinal);
	die->identity.index = index;
	die->identity.n_dies = n_dies;
}

/* The sample's time is taken before: an allocation that is older than it is in the numbers. */
static bool ask(const struct cuda *cuda, struct die *die, struct die_sample *s)
{
	size_t free_bytes = 0, total_bytes = 0;
	uint64_t now_ns = clock_now_ns();
	CUcontext popped;
	CUresult result = cuda->cuCtxPushCurrent_v2(die->context);

	if (!result) {
		result = cuda->cuMemGetInfo_v2(&free_bytes, &total_bytes);
		cuda->cuCtxPopCurrent_v2(&popped);
	}
	if (result)
		return fail(cuda, s, result);
	if (!total_bytes || free_bytes > total_bytes) {
		s->state = DIE_ERROR;
		snprintf(s->error_name, sizeof(s->error_name), "%s",
			 total_bytes ? "free above total" : "total is 0");
		return true;
	}
	s->sample_ns = now_ns;
	s->free_bytes = free_bytes;
	s->total_bytes = total_bytes;
	s->own_context_bytes =
		die->own_context_bytes < total_bytes ? die->own_context_bytes : total_bytes;
	return true;
}

bool die_sample(const struct cuda *cuda, struct die *die, struct die_sample *s)
{
	int compute_mode = CU_COMPUTEMODE_DEFAULT;
	CUresult result;

	if (die->identity.state == DIE_ERROR && !die_sample_ends_process(&die->identity))
		identify_again(cuda, die);
	*s = die->identity;
	s->sample_ns = clock_now_ns();
	if (s->state == DIE_ERROR)
		return !die_sample_ends_process(s);
	result = cuda->cuDeviceGetAttribute(&compute_mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE,
					    die->device);
	if (result)
		return fail(cuda, s, result);
	s->compute_mode = compute_mode;
	if (s->integrated) {
		s->state = DIE_INTEGRATED;
		return true;
	}
	if (die->is_mig) {
		s->state = DIE_MIG_PARENT;
		return true;
	}
	if (compute_mode != CU_COMPUTEMODE_DEFAULT) {
		s->state = DIE_NO_CONTEXT;
		result = die->context ? release(cuda, die) : CUDA_SUCCESS;
		return result ? fail(cuda, s, result) : true;
	}
	result = die->context ? CUDA_SUCCESS : retain(cuda, die);
	if (result) {
		die->context = NULL;
		return fail(cuda, s, result);
	}
	return ask(cuda, die, s);
}
