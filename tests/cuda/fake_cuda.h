/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The script of the stand-in driver: a file that every process which opened
 * build/tests/libcuda.so.1 maps, named by the environment variable FAKE_CUDA. A test changes what
 * the machine is (dies, modes, what others use) and what goes wrong (errors, delays, lies) while it
 * runs, and sees what was called. Memory that a process took comes back when the process ends, as
 * with a real driver.
 */
#ifndef PNMEM_TESTS_FAKE_CUDA_H
#define PNMEM_TESTS_FAKE_CUDA_H

#include <stdint.h>

#include "fake_abi.h"

#define FAKE_CUDA_ENV    "FAKE_CUDA"
#define FAKE_MAGIC       0x454b4146u
#define FAKE_MAX_DIES    20
#define FAKE_MAX_PROCS   64
#define FAKE_ANY_DIE     (-1)
#define FAKE_ALWAYS      (-1)
#define FAKE_FOR_EVER_NS UINT64_MAX

/* One number for each entry point: FAKE_cuInit ... */
enum fake_function {
#define FAKE_NUMBER(name, parameters) FAKE_##name,
	CU_FAKE_FUNCTIONS(FAKE_NUMBER)
#undef FAKE_NUMBER
		FAKE_FUNCTIONS,
};

struct fake_die {
	uint64_t total_bytes;
	uint64_t system_bytes;    /* the driver's own, never free */
	uint64_t context_bytes;   /* what each process with a context takes */
	uint64_t other_bytes;     /* in use by processes that this driver does not see */
	uint64_t leak_bytes;      /* added to other_bytes with each process's first context */
	uint64_t lie_free_bytes;  /* not 0: cuMemGetInfo says this is free */
	uint64_t lie_total_bytes; /* not 0: and this in all */
	char name[128];
	char pci[32];
	uint8_t uuid[16];
	uint8_t mig_uuid[16]; /* not all 0: a MIG instance */
	int32_t compute_mode;
	int32_t integrated;
	int32_t board_group; /* -1: alone on its board */
	int32_t reserved;
};

/* What happens to the next calls of a function. */
struct fake_fault {
	int32_t result;    /* CUresult, 0: it works */
	int32_t die;       /* FAKE_ANY_DIE, or only for this one */
	int64_t times;     /* calls left, FAKE_ALWAYS; 0: no fault */
	uint64_t delay_ns; /* before it does anything; FAKE_FOR_EVER_NS: until changed */
};

/* Slot i belongs to the process that holds a lock on byte i of the file. */
struct fake_process {
	int32_t pid;
	int32_t contexts[FAKE_MAX_DIES];
	uint64_t allocated_bytes[FAKE_MAX_DIES];
};

struct fake_cuda {
	uint32_t magic;
	int32_t driver_version;
	int32_t n_dies;
	int32_t private_calls; /* cuGetProcAddress gives other functions than those exported */
	char mps_folder[128];  /* where MPS would listen unless the environment names another */
	struct fake_die die[FAKE_MAX_DIES];
	struct fake_fault fault[FAKE_FUNCTIONS];

	/* Written by the stand-in. */
	uint64_t calls[FAKE_FUNCTIONS];
	uint32_t mps_joined;      /* times cuInit found an MPS server where it was told to look */
	uint32_t mps_folder_bad;  /* times that folder was missing or not empty */
	uint32_t bad_environment; /* times a setting was missing that a sampler must make */
	uint32_t reserved2;
	struct fake_process process[FAKE_MAX_PROCS];
};

/*
 * Creates the script at path with n K80 dies of 12 GiB, 11.25 GiB of it usable, two to a board, and
 * maps it; NULL with errno. To be called before any process opens the driver.
 */
struct fake_cuda *fake_cuda_create(const char *path, int n_dies);

/* Maps a script that there is; NULL with errno. */
struct fake_cuda *fake_cuda_open(const char *path);

void fake_cuda_close(struct fake_cuda *fake);

/* Makes `function` return `result` after delay_ns, from the next call on, `times` times. */
void fake_cuda_fault(struct fake_cuda *fake, enum fake_function function, int die, int result,
		     uint64_t delay_ns, int64_t times);

uint64_t fake_cuda_calls(const struct fake_cuda *fake, enum fake_function function);

#endif
