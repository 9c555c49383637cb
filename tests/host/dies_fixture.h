/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For the tests of the die sampler: the stand-in driver's machine of two dies, the agent's part of
 * the conversation, and engines in processes of their own. Include after cmocka.h.
 */
#ifndef PNMEM_TESTS_DIES_FIXTURE_H
#define PNMEM_TESTS_DIES_FIXTURE_H

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cuda/fake_cuda.h"
#include "../skip.h"
#include "../until.h"
#include "support/dies_proc.h"

#define LIBRARY "build/tests/libcuda.so.1"
#define MIB     (1ull << 20)
#define GIB     (1ull << 30)

static char dir[64], script_path[96], mps_folder[96], mps_control[128];
static struct fake_cuda *fake;
static struct dies_proc sampler;

/* ---- the machine and the agent's part ------------------------------------------------------ */

static inline int setup(void **state)
{
	strcpy(dir, "/tmp/pnmem-dies-test-XXXXXX");
	if (!mkdtemp(dir) || chmod(dir, 0755))
		return -1;
	snprintf(script_path, sizeof(script_path), "%s/script", dir);
	snprintf(mps_folder, sizeof(mps_folder), "%s/mps", dir);
	snprintf(mps_control, sizeof(mps_control), "%s/control", mps_folder);
	fake = fake_cuda_create(script_path, 2);
	setenv(FAKE_CUDA_ENV, script_path, 1);
	sampler = (struct dies_proc){ .sock = -1 };
	/* Too little free for the sampler to measure its own context: numbers stand still. */
	for (int i = 0; fake && i < FAKE_MAX_DIES; i++)
		fake->die[i].other_bytes = 7 * GIB;
	return fake ? 0 : -1;
}

static inline int teardown(void **state)
{
	dies_proc_destroy(&sampler);
	fake_cuda_close(fake);
	unlink(mps_control);
	rmdir(mps_folder);
	unlink(script_path);
	return rmdir(dir);
}

static inline struct die_message expect(enum die_kind kind)
{
	struct die_message m = { 0 };

	assert_int_equal(dies_proc_receive(&sampler, &m), 0);
	assert_int_equal(m.header.kind, kind);
	return m;
}

static inline struct die_driver start(void)
{
	assert_int_equal(dies_proc_start(&sampler, LIBRARY), 0);
	return expect(DIE_KIND_DRIVER).driver;
}

/* Receives the whole pass. */
static inline void receive_pass(uint64_t pass, struct die_sample *ret, int n)
{
	struct die_message m;

	for (int i = 0; i < n; i++) {
		m = expect(DIE_KIND_DIE);
		assert_int_equal(m.header.pass, pass);
		assert_int_equal(m.die.index, i);
		assert_int_equal(m.die.n_dies, n);
		ret[i] = m.die;
	}
	m = expect(DIE_KIND_PASS_END);
	assert_int_equal(m.header.pass, pass);
}

static inline void sample(struct die_sample *ret, int n)
{
	static uint64_t pass;

	assert_int_equal(dies_proc_ask(&sampler, ++pass), 0);
	receive_pass(pass, ret, n);
}

static inline void expect_end(int status)
{
	struct die_message m;

	assert_int_equal(dies_proc_receive(&sampler, &m), -EPIPE);
	assert_int_equal(dies_proc_wait(&sampler), status);
}

/* What is free on an untouched die while the sampler has its context. */
static inline uint64_t free_bytes(void)
{
	return (12288 - 768 - 7 * 1024 - 74) * MIB;
}

/*
 * A CUDA program on ordinal `device` in a process of its own: takes bytes (0: the context alone),
 * says with one byte what happened ('+' or '-'), and keeps all of it until it is killed.
 */
static inline pid_t engine_start(int device, size_t bytes, int *ret_fd)
{
	int fds[2];
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		void *lib = dlopen(LIBRARY, RTLD_NOW);
		cuInit_fn *init = (cuInit_fn *)dlsym(lib, "cuInit");
		cuCtxCreate_v2_fn *create = (cuCtxCreate_v2_fn *)dlsym(lib, "cuCtxCreate_v2");
		cuMemAlloc_v2_fn *alloc = (cuMemAlloc_v2_fn *)dlsym(lib, "cuMemAlloc_v2");
		CUcontext context;
		CUdeviceptr ptr;
		bool good =
			!init(0) && !create(&context, 0, device) && (!bytes || !alloc(&ptr, bytes));

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write(fds[1], good ? "+" : "-", 1) == 1)
			pause();
		_exit(0);
	}
	close(fds[1]);
	*ret_fd = fds[0];
	return pid;
}

static inline bool engine_works(int fd)
{
	char said = 0;

	assert_int_equal(read(fd, &said, 1), 1);
	close(fd);
	return said == '+';
}

static inline void engine_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
