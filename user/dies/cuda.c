/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening the CUDA driver. See cuda.h. */
#include "dies/cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ERROR_PREFIX "CUDA_ERROR_"

/* A folder that was removed while open: nobody can put anything in it, and none stays behind. */
static int open_removed_folder(void)
{
	static const char *const parents[] = { "/run", "/tmp", "/dev/shm" };
	int err = -ENOENT;

	for (size_t i = 0; i < sizeof(parents) / sizeof(parents[0]); i++) {
		char path[64];
		int fd;

		snprintf(path, sizeof(path), "%s/pnmem-dies-XXXXXX", parents[i]);
		if (!mkdtemp(path)) {
			err = -errno;
			continue;
		}
		fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			err = -errno;
		rmdir(path);
		if (fd >= 0)
			return fd;
	}
	return err;
}

int cuda_prepare_environment(void)
{
	char mps_folder[32];
	int fd = open_removed_folder();
	const char *const settings[][2] = {
		{ "CUDA_DEVICE_ORDER", "PCI_BUS_ID" },     { "CUDA_MODULE_LOADING", "LAZY" },
		{ "CUDA_FORCE_PRELOAD_LIBRARIES", "0" },   { "CUDA_DISABLE_JIT", "1" },
		{ "CUDA_MPS_PIPE_DIRECTORY", mps_folder },
	};

	if (fd < 0)
		return fd;
	snprintf(mps_folder, sizeof(mps_folder), "/proc/self/fd/%d", fd);
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (setenv(settings[i][0], settings[i][1], 1))
			return -errno;
	}
	return unsetenv("CUDA_VISIBLE_DEVICES") ? -errno : 0;
}

bool cuda_has_kernel_driver(void)
{
	return !access("/proc/driver/nvidia/version", F_OK) || !access("/dev/dxg", F_OK);
}

void cuda_copy_text(char *to, size_t bytes, const char *from)
{
	size_t n = 0;

	for (; n + 1 < bytes && from[n]; n++)
		to[n] = from[n] < ' ' || from[n] > '~' ? '?' : from[n];
	memset(to + n, 0, bytes - n);
}

void cuda_error_name(const struct cuda *cuda, CUresult result, char *to, size_t bytes)
{
	const char *name = NULL;

	memset(to, 0, bytes);
	if (result == CUDA_SUCCESS)
		return;
	if (cuda->cuGetErrorName(result, &name) || !name) {
		snprintf(to, bytes, "CUresult %u", (unsigned int)result);
		return;
	}
	if (!strncmp(name, ERROR_PREFIX, strlen(ERROR_PREFIX)))
		name += strlen(ERROR_PREFIX);
	cuda_copy_text(to, bytes, name);
}

/* The file behind a loaded library, in place of the name it was asked for by. */
static void resolved_path(void *library, char *path, size_t bytes)
{
	struct link_map *map;
	char *real;

	if (dlinfo(library, RTLD_DI_LINKMAP, &map))
		return;
	real = realpath(map->l_name, NULL);
	if (real)
		cuda_copy_text(path, bytes, real);
	free(real);
}

/* Fills the table; returns the name of a symbol that is missing, or NULL. */
static const char *find_symbols(void *library, struct cuda *cuda)
{
#define FIND(name, parameters) cuda->name = (name##_fn *)dlsym(library, #name);
#define REQUIRE(name, parameters)                                                                  \
	FIND(name, parameters)                                                                     \
	if (!cuda->name)                                                                           \
		return #name;
	CU_SAMPLER_OPTIONAL(FIND)
	CU_SAMPLER_FUNCTIONS(REQUIRE)
#undef REQUIRE
#undef FIND
	return NULL;
}

static enum die_exit refuse(struct die_driver *driver, enum die_driver_state state, const char *why)
{
	static const enum die_exit exits[] = {
		[DIE_DRIVER_NO_DEVICE] = DIE_EXIT_NO_DEVICE,
		[DIE_DRIVER_NONE] = DIE_EXIT_NO_DRIVER,
		[DIE_DRIVER_STUB] = DIE_EXIT_STUB,
		[DIE_DRIVER_MISMATCH] = DIE_EXIT_MISMATCH,
		[DIE_DRIVER_ERROR] = DIE_EXIT_CUDA,
	};

	driver->state = state;
	driver->n_dies = 0;
	if (why)
		cuda_copy_text(driver->error_name, sizeof(driver->error_name), why);
	return exits[state];
}

static enum die_exit refuse_result(const struct cuda *cuda, struct die_driver *driver,
				   CUresult result)
{
	enum die_driver_state state;

	driver->cu_result = (int32_t)result;
	cuda_error_name(cuda, result, driver->error_name, sizeof(driver->error_name));
	switch ((int)result) {
	case CUDA_ERROR_NO_DEVICE:
		state = DIE_DRIVER_NO_DEVICE;
		break;
	case CUDA_ERROR_STUB_LIBRARY:
		state = DIE_DRIVER_STUB;
		break;
	case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
	case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
		state = DIE_DRIVER_MISMATCH;
		break;
	default:
		state = DIE_DRIVER_ERROR;
	}
	return refuse(driver, state, NULL);
}

enum die_exit cuda_open(const char *library_name, struct cuda *cuda, struct die_driver *driver)
{
	const char *missing;
	CUresult result;
	void *library;
	int count = 0, version = 0;

	memset(driver, 0, sizeof(*driver));
	cuda_copy_text(driver->library_path, sizeof(driver->library_path), library_name);
	library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return refuse(driver, DIE_DRIVER_NONE, "library cannot be opened");
	resolved_path(library, driver->library_path, sizeof(driver->library_path));
	missing = find_symbols(library, cuda);
	if (missing) {
		char why[64];

		snprintf(why, sizeof(why), "no %s", missing);
		return refuse(driver, DIE_DRIVER_ERROR, why);
	}
	if (!cuda->cuDriverGetVersion(&version) && version > 0)
		driver->driver_version = version;
	result = cuda->cuInit(0);
	if (!result)
		result = cuda->cuDeviceGetCount(&count);
	if (result)
		return refuse_result(cuda, driver, result);
	if (count <= 0)
		return refuse(driver, DIE_DRIVER_NO_DEVICE, NULL);
	driver->n_dies = count < DIE_MESSAGE_MAX_DIES ? count : DIE_MESSAGE_MAX_DIES;
	return DIE_EXIT_CLOSED;
}
