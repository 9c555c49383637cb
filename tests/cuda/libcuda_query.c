/* SPDX-License-Identifier: BSD-2-Clause */
/* Stand-in driver: start, devices, errors, cuMemGetInfo. See fake_cuda.h. */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcuda_state.h"

#define ADD_ONE(place) __atomic_add_fetch(&(place), 1, __ATOMIC_RELAXED)

static bool is_empty_folder(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	bool empty = dir != NULL;

	while (dir && (entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			empty = false;
	}
	if (dir)
		closedir(dir);
	return empty;
}

/* As a driver looks for an MPS server: a pipe named control in the folder. */
static void look_for_mps(struct fake_cuda *fake)
{
	const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
	char control[160];

	if (folder && !is_empty_folder(folder))
		ADD_ONE(fake->mps_folder_bad);
	snprintf(control, sizeof(control), "%s/control", folder ? folder : fake->mps_folder);
	if (!access(control, F_OK))
		ADD_ONE(fake->mps_joined);
}

/* What a sampler must have set; engines need none of it, so this is only counted. */
static void check_environment(struct fake_cuda *fake)
{
	static const char *const settings[][2] = {
		{ "CUDA_DEVICE_ORDER", "PCI_BUS_ID" },
		{ "CUDA_MODULE_LOADING", "LAZY" },
		{ "CUDA_FORCE_PRELOAD_LIBRARIES", "0" },
		{ "CUDA_DISABLE_JIT", "1" },
	};
	bool bad = getenv("CUDA_VISIBLE_DEVICES") || !getenv("CUDA_MPS_PIPE_DIRECTORY");

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		const char *value = getenv(settings[i][0]);

		bad |= !value || strcmp(value, settings[i][1]);
	}
	if (bad)
		ADD_ONE(fake->bad_environment);
}

CUresult cuInit(unsigned int flags)
{
	ENTER(cuInit, FAKE_ANY_DIE);
	look_for_mps(state_fake());
	check_environment(state_fake());
	return state_fake()->n_dies ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int *ret_version)
{
	ENTER(cuDriverGetVersion, FAKE_ANY_DIE);
	*ret_version = state_fake()->driver_version;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *ret_count)
{
	ENTER(cuDeviceGetCount, FAKE_ANY_DIE);
	*ret_count = state_fake()->n_dies;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *ret_device, int ordinal)
{
	ENTER(cuDeviceGet, ordinal);
	if (ordinal < 0 || ordinal >= state_fake()->n_dies)
		return CUDA_ERROR_INVALID_DEVICE;
	*ret_device = ordinal;
	return CUDA_SUCCESS;
}

/* For the calls that take a device: its fault, or its place in the script. */
#define ENTER_DIE(name, device)                                                                    \
	ENTER(name, device);                                                                       \
	if (device < 0 || device >= FAKE_MAX_DIES)                                                 \
		return CUDA_ERROR_INVALID_DEVICE;                                                  \
	const struct fake_die *die = &state_fake()->die[device]

CUresult cuDeviceGetName(char *name, int name_bytes, CUdevice device)
{
	ENTER_DIE(cuDeviceGetName, device);
	snprintf(name, (size_t)name_bytes, "%s", die->name);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *ret_uuid, CUdevice device)
{
	ENTER_DIE(cuDeviceGetUuid, device);
	memcpy(ret_uuid->bytes, die->uuid, sizeof(ret_uuid->bytes));
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *ret_uuid, CUdevice device)
{
	static const uint8_t none[16];
	bool is_mig;

	ENTER_DIE(cuDeviceGetUuid_v2, device);
	is_mig = memcmp(die->mig_uuid, none, sizeof(none)) != 0;
	memcpy(ret_uuid->bytes, is_mig ? die->mig_uuid : die->uuid, sizeof(ret_uuid->bytes));
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *pci, int pci_bytes, CUdevice device)
{
	ENTER_DIE(cuDeviceGetPCIBusId, device);
	snprintf(pci, (size_t)pci_bytes, "%s", die->pci);
	return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *ret_bytes, CUdevice device)
{
	ENTER_DIE(cuDeviceTotalMem_v2, device);
	*ret_bytes = die->total_bytes;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *ret, CUdevice_attribute attribute, CUdevice device)
{
	ENTER_DIE(cuDeviceGetAttribute, device);
	switch ((int)attribute) {
	case CU_DEVICE_ATTRIBUTE_INTEGRATED:
		*ret = die->integrated;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
		*ret = __atomic_load_n(&die->compute_mode, __ATOMIC_RELAXED);
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD:
		*ret = die->board_group >= 0;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID:
		*ret = die->board_group;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult cuMemGetInfo_v2(size_t *ret_free_bytes, size_t *ret_total_bytes)
{
	int current = context_current_die();
	const struct fake_die *die;

	ENTER(cuMemGetInfo_v2, current);
	if (current < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	die = &state_fake()->die[current];
	*ret_free_bytes = die->lie_free_bytes ? die->lie_free_bytes : state_free_bytes(current);
	*ret_total_bytes = die->lie_total_bytes ? die->lie_total_bytes : die->total_bytes;
	return CUDA_SUCCESS;
}

static const struct {
	unsigned int result;
	const char *name;
} error_names[] = {
	{ 0, "CUDA_SUCCESS" },
	{ 1, "CUDA_ERROR_INVALID_VALUE" },
	{ 2, "CUDA_ERROR_OUT_OF_MEMORY" },
	{ 3, "CUDA_ERROR_NOT_INITIALIZED" },
	{ 34, "CUDA_ERROR_STUB_LIBRARY" },
	{ 46, "CUDA_ERROR_DEVICE_UNAVAILABLE" },
	{ 100, "CUDA_ERROR_NO_DEVICE" },
	{ 101, "CUDA_ERROR_INVALID_DEVICE" },
	{ 201, "CUDA_ERROR_INVALID_CONTEXT" },
	{ 214, "CUDA_ERROR_ECC_UNCORRECTABLE" },
	{ 220, "CUDA_ERROR_NVLINK_UNCORRECTABLE" },
	{ 226, "CUDA_ERROR_CONTAINED" },
	{ 700, "CUDA_ERROR_ILLEGAL_ADDRESS" },
	{ 719, "CUDA_ERROR_LAUNCH_FAILED" },
	{ 802, "CUDA_ERROR_SYSTEM_NOT_READY" },
	{ 803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" },
	{ 804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE" },
	{ 805, "CUDA_ERROR_MPS_CONNECTION_FAILED" },
	{ 999, "CUDA_ERROR_UNKNOWN" },
};

CUresult cuGetErrorName(CUresult result, const char **ret_name)
{
	ENTER(cuGetErrorName, FAKE_ANY_DIE);
	for (size_t i = 0; i < sizeof(error_names) / sizeof(error_names[0]); i++) {
		if (error_names[i].result == (unsigned int)result) {
			*ret_name = error_names[i].name;
			return CUDA_SUCCESS;
		}
	}
	*ret_name = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult result, const char **ret_text)
{
	ENTER(cuGetErrorString, FAKE_ANY_DIE);
	return cuGetErrorName(result, ret_text);
}
