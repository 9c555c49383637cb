/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The die sampler on the stand-in driver: what it says of healthy dies and of its own context, and
 * that it stays out of engines' way. A failing driver is in test_dies_faults.c.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "dies_fixture.h"

/* ---- healthy dies -------------------------------------------------------------------------- */

static void test_two_dies(void **state)
{
	uint64_t before_ns = clock_now_ns();
	struct die_driver driver = start();
	struct die_sample die[2];

	assert_int_equal(driver.state, DIE_DRIVER_OK);
	assert_int_equal(driver.n_dies, 2);
	assert_int_equal(driver.driver_version, 11040);
	assert_non_null(strstr(driver.library_path, "/" LIBRARY));
	sample(die, 2);
	/* The stand-in's ordinals go against the bus: ordinal 1 comes first. */
	assert_string_equal(die[0].pci, "0000:3e:00.0");
	assert_string_equal(die[1].pci, "0000:3f:00.0");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(die[i].state, DIE_OK);
		assert_string_equal(die[i].name, "Tesla K80");
		assert_memory_equal(die[i].uuid, fake->die[1 - i].uuid, 16);
		assert_int_equal(die[i].board_group, 0);
		assert_int_equal(die[i].integrated, 0);
		assert_int_equal(die[i].compute_mode, 0);
		assert_true(die[i].total_bytes == 12 * GIB);
		assert_true(die[i].free_bytes == free_bytes());
		assert_true(die[i].own_context_bytes == 0);
		assert_in_range(die[i].sample_ns, before_ns, clock_now_ns());
		before_ns = die[i].sample_ns;
	}
}

static void test_more_dies_than_the_snapshot(void **state)
{
	struct die_sample die[FAKE_MAX_DIES];

	fake->n_dies = FAKE_MAX_DIES;
	/* A longer domain is a larger one, and comes later. */
	strcpy(fake->die[0].pci, "10000:01:00.0");
	strcpy(fake->die[1].pci, "2000:01:00.0");
	assert_int_equal(start().n_dies, FAKE_MAX_DIES);
	sample(die, FAKE_MAX_DIES);
	for (int i = 0; i < FAKE_MAX_DIES; i++)
		assert_memory_equal(die[i].uuid, fake->die[FAKE_MAX_DIES - 1 - i].uuid, 16);
}

/* What engines take and, also when they are killed, give back. */
static void test_engines_memory(void **state)
{
	struct die_sample die[2];
	pid_t engine;
	int fd;

	start();
	engine = engine_start(0, GIB, &fd);
	assert_true(engine_works(fd));
	sample(die, 2);
	assert_true(die[1].free_bytes == free_bytes() - GIB - 74 * MIB);
	assert_true(die[0].free_bytes == free_bytes());
	engine_kill(engine);
	sample(die, 2);
	assert_true(die[1].free_bytes == free_bytes());
}

static void test_contexts_are_kept(void **state)
{
	struct die_sample die[2];

	start();
	for (int i = 0; i < 20; i++)
		sample(die, 2);
	assert_int_equal(fake_cuda_calls(fake, FAKE_cuDevicePrimaryCtxRetain), 2);
	assert_int_equal(fake_cuda_calls(fake, FAKE_cuMemGetInfo_v2), 40);
	assert_int_equal(fake_cuda_calls(fake, FAKE_cuCtxPushCurrent_v2),
			 fake_cuda_calls(fake, FAKE_cuCtxPopCurrent_v2));
}

/* Requests that come during a pass share the next one. */
static void test_requests_coalesce(void **state)
{
	struct die_sample die[2];

	start();
	fake_cuda_fault(fake, FAKE_cuMemGetInfo_v2, FAKE_ANY_DIE, 0, FAKE_FOR_EVER_NS, 1);
	dies_proc_ask(&sampler, 100);
	until(fake_cuda_calls(fake, FAKE_cuMemGetInfo_v2) == 1);
	for (uint64_t pass = 101; pass <= 150; pass++)
		dies_proc_ask(&sampler, pass);
	fake_cuda_fault(fake, FAKE_cuMemGetInfo_v2, FAKE_ANY_DIE, 0, 0, 0);
	receive_pass(100, die, 2);
	receive_pass(150, die, 2);
	sample(die, 2); /* and nothing of the others comes before it */
	assert_int_equal(fake_cuda_calls(fake, FAKE_cuMemGetInfo_v2), 6);
}

/* ---- its own context ----------------------------------------------------------------------- */

static uint64_t own_context(int die_index)
{
	struct die_sample die[2];

	sample(die, 2);
	/* A holder's context may be in the numbers as well. */
	assert_true(die[die_index].free_bytes + 2 * 74 * MIB >= (12288 - 768) * MIB);
	return die[die_index].own_context_bytes;
}

static void test_own_context_measured(void **state)
{
	struct die_sample die[2];

	fake->die[0].other_bytes = fake->die[1].other_bytes = 0;
	start();
	/* A try fails, as when a context is refused meanwhile: there is another. */
	until(fake_cuda_calls(fake, FAKE_cuInit) == 1);
	own_context(0);
	fake_cuda_fault(fake, FAKE_cuDevicePrimaryCtxRetain, FAKE_ANY_DIE, CUDA_ERROR_OUT_OF_MEMORY,
			0, 1);
	until(own_context(0) && own_context(1));
	sample(die, 2);
	for (int i = 0; i < 2; i++) {
		assert_true(die[i].own_context_bytes == 74 * MIB);
		assert_true(die[i].free_bytes == (12288 - 768 - 74) * MIB);
		assert_true(die_sample_free_bytes(&die[i]) == (12288 - 768) * MIB);
	}
}

/* A second context while memory is short would be in an engine's way. */
static void test_own_context_not_measured_when_short(void **state)
{
	struct die_sample die[2];

	start();
	for (int i = 0; i < 20; i++)
		sample(die, 2);
	assert_true(die[0].own_context_bytes == 0);
	assert_int_equal(fake_cuda_calls(fake, FAKE_cuInit), 1);
}

/* When free memory does not hold still, no figure is given, and the tries end. */
static void test_own_context_unknown_when_busy(void **state)
{
	struct die_sample die[2];

	fake->n_dies = 1;
	fake->die[0].other_bytes = 0;
	fake->die[0].leak_bytes = MIB;
	start();
	until((sample(die, 1), fake_cuda_calls(fake, FAKE_cuDevicePrimaryCtxRetain) == 4));
	for (int i = 0; i < 200; i++)
		sample(die, 1);
	assert_int_equal(fake_cuda_calls(fake, FAKE_cuInit), 4);
	assert_true(die[0].own_context_bytes == 0);
}

/* A holder that hangs delays no pass, and ends with the sampler. */
static void test_hung_holder(void **state)
{
	struct die_sample die[2];
	pid_t pid;
	int status;

	fake->n_dies = 1;
	fake->die[0].other_bytes = 0;
	start();
	fake_cuda_fault(fake, FAKE_cuInit, FAKE_ANY_DIE, 0, FAKE_FOR_EVER_NS, 1);
	sample(die, 1);
	until(fake_cuda_calls(fake, FAKE_cuInit) == 2);
	for (int i = 0; i < 20; i++)
		sample(die, 1);
	assert_int_equal(fake_cuda_calls(fake, FAKE_cuInit), 2);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	dies_proc_destroy(&sampler);
	until((pid = waitpid(-1, &status, WNOHANG)) != 0);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	assert_true(pid > 0);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* ---- in nobody's way ----------------------------------------------------------------------- */

static void put_mps_server(void)
{
	assert_int_equal(mkdir(mps_folder, 0755), 0);
	close(open(mps_control, O_WRONLY | O_CREAT, 0644));
	strcpy(fake->mps_folder, mps_folder);
}

static void test_mps_never_joined(void **state)
{
	pid_t engine;
	int fd;

	put_mps_server();
	setenv("CUDA_MPS_PIPE_DIRECTORY", mps_folder, 1);
	setenv("CUDA_VISIBLE_DEVICES", "0", 1);
	start();
	assert_int_equal(fake->mps_joined, 0);
	assert_int_equal(fake->mps_folder_bad, 0);
	assert_int_equal(fake->bad_environment, 0);
	/* An engine in the same environment does join: the stand-in can tell. */
	engine = engine_start(0, 0, &fd);
	assert_true(engine_works(fd));
	assert_int_equal(fake->mps_joined, 1);
	assert_int_equal(fake->mps_folder_bad, 1);
	assert_int_equal(fake->bad_environment, 1);
	engine_kill(engine);
	unsetenv("CUDA_MPS_PIPE_DIRECTORY");
	unsetenv("CUDA_VISIBLE_DEVICES");
}

static void test_no_context_on_taken_dies(void **state)
{
	static const int modes[] = { CU_COMPUTEMODE_PROHIBITED, CU_COMPUTEMODE_EXCLUSIVE_PROCESS };
	struct die_sample die[2];

	fake->die[0].compute_mode = modes[0];
	fake->die[1].compute_mode = modes[1];
	start();
	for (int i = 0; i < 3; i++)
		sample(die, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(die[i].state, DIE_NO_CONTEXT);
		assert_int_equal(die[i].compute_mode, modes[1 - i]);
		assert_true(die[i].total_bytes == 12 * GIB);
		assert_int_equal(die[i].cuda_error, 0);
	}
	assert_int_equal(fake_cuda_calls(fake, FAKE_cuDevicePrimaryCtxRetain), 0);
}

static void set_compute_mode(int device, int mode)
{
	__atomic_store_n(&fake->die[device].compute_mode, mode, __ATOMIC_RELAXED);
}

/* An administrator makes a die exclusive while we have a context on it: the engine gets it. */
static void test_context_given_up(void **state)
{
	struct die_sample die[2];
	pid_t engine;
	int fd;

	start();
	sample(die, 2);
	assert_int_equal(die[1].state, DIE_OK);
	set_compute_mode(0, CU_COMPUTEMODE_EXCLUSIVE_PROCESS);
	engine = engine_start(0, 0, &fd);
	assert_false(engine_works(fd)); /* ours is in the way, until the next pass */
	engine_kill(engine);
	sample(die, 2);
	assert_int_equal(die[1].state, DIE_NO_CONTEXT);
	assert_int_equal(die[0].state, DIE_OK);
	engine = engine_start(0, GIB, &fd);
	assert_true(engine_works(fd));
	/* And the way back. */
	set_compute_mode(0, CU_COMPUTEMODE_DEFAULT);
	sample(die, 2);
	assert_int_equal(die[1].state, DIE_OK);
	assert_true(die[1].free_bytes == free_bytes() - GIB - 74 * MIB);
	engine_kill(engine);
}

static void test_mig(void **state)
{
	struct die_sample die[2];

	memset(fake->die[0].mig_uuid, 0xab, 16);
	strcpy(fake->die[1].name, "NVIDIA A100-SXM4-40GB MIG 1g.5gb");
	start();
	sample(die, 2);
	assert_int_equal(die[0].state, DIE_MIG_PARENT);
	assert_int_equal(die[1].state, DIE_MIG_PARENT);
	assert_memory_equal(die[1].uuid, fake->die[0].mig_uuid, 16);
	assert_int_equal(fake_cuda_calls(fake, FAKE_cuDevicePrimaryCtxRetain), 0);
}

static void test_integrated(void **state)
{
	struct die_sample die[1];

	fake->n_dies = 1;
	fake->die[0].integrated = 1;
	fake->die[0].board_group = -1;
	start();
	sample(die, 1);
	assert_int_equal(die[0].state, DIE_INTEGRATED);
	assert_int_equal(die[0].integrated, 1);
	assert_int_equal(die[0].board_group, -1);
	assert_int_equal(fake_cuda_calls(fake, FAKE_cuDevicePrimaryCtxRetain), 0);
}

/* The device files are all that it needs. */
static void test_no_capabilities(void **state)
{
	char path[64], line[256];
	unsigned long long effective = 1, permitted = 1;
	FILE *status;

	if (geteuid())
		skip_because("only root has capabilities to drop");
	start();
	snprintf(path, sizeof(path), "/proc/%d/status", sampler.pid);
	status = fopen(path, "re");
	assert_non_null(status);
	while (fgets(line, sizeof(line), status)) {
		sscanf(line, "CapEff: %llx", &effective);
		sscanf(line, "CapPrm: %llx", &permitted);
	}
	fclose(status);
	assert_true(effective == 0 && permitted == 0);
}

static void test_as_nobody(void **state)
{
	struct die_sample die[2];
	pid_t pid;
	int status;

	if (geteuid())
		skip_because("needs root to become another user");
	pid = fork();
	if (!pid) {
		if (setgid(65534) || setuid(65534) || access(LIBRARY, R_OK) ||
		    access("build/pnmem-dies", X_OK))
			_exit(77);
		start();
		sample(die, 2);
		_exit(die[0].state == DIE_OK && die[0].free_bytes == free_bytes() ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip_because("the build folder is closed to user nobody");
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_two_dies),
		TEST(test_more_dies_than_the_snapshot),
		TEST(test_engines_memory),
		TEST(test_contexts_are_kept),
		TEST(test_requests_coalesce),
		TEST(test_own_context_measured),
		TEST(test_own_context_not_measured_when_short),
		TEST(test_own_context_unknown_when_busy),
		TEST(test_hung_holder),
		TEST(test_mps_never_joined),
		TEST(test_no_context_on_taken_dies),
		TEST(test_context_given_up),
		TEST(test_mig),
		TEST(test_integrated),
		TEST(test_no_capabilities),
		TEST(test_as_nobody),
	};

	return cmocka_run_group_tests_name("dies", tests, NULL, NULL);
}
