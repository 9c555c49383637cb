/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The die sampler when its driver, on the stand-in, fails, lies or never comes back, and how it
 * ends. Healthy dies are in test_dies.c.
 */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "dies_fixture.h"

/* ---- a driver that fails ------------------------------------------------------------------- */

static void test_start_failures(void **state)
{
	static const struct {
		int result;
		enum die_driver_state state;
		enum die_exit status;
		const char *name;
	} cases[] = {
		{ 34, DIE_DRIVER_STUB, DIE_EXIT_STUB, "STUB_LIBRARY" },
		{ 100, DIE_DRIVER_NO_DEVICE, DIE_EXIT_NO_DEVICE, "NO_DEVICE" },
		{ 802, DIE_DRIVER_ERROR, DIE_EXIT_CUDA, "SYSTEM_NOT_READY" },
		{ 803, DIE_DRIVER_MISMATCH, DIE_EXIT_MISMATCH, "SYSTEM_DRIVER_MISMATCH" },
		{ 804, DIE_DRIVER_MISMATCH, DIE_EXIT_MISMATCH, "COMPAT_NOT_SUPPORTED_ON_DEVICE" },
		{ 805, DIE_DRIVER_ERROR, DIE_EXIT_CUDA, "MPS_CONNECTION_FAILED" },
		{ 999, DIE_DRIVER_ERROR, DIE_EXIT_CUDA, "UNKNOWN" },
		{ 4711, DIE_DRIVER_ERROR, DIE_EXIT_CUDA, "CUresult 4711" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct die_driver driver;

		fake_cuda_fault(fake, FAKE_cuInit, FAKE_ANY_DIE, cases[i].result, 0, 1);
		driver = start();
		assert_int_equal(driver.state, cases[i].state);
		assert_int_equal(driver.cu_result, cases[i].result);
		assert_string_equal(driver.error_name, cases[i].name);
		assert_int_equal(driver.n_dies, 0);
		expect_end(cases[i].status);
		dies_proc_close(&sampler);
	}
}

static void test_no_device(void **state)
{
	fake->n_dies = 0;
	assert_int_equal(start().state, DIE_DRIVER_NO_DEVICE);
	expect_end(DIE_EXIT_NO_DEVICE);
}

static void test_other_libraries(void **state)
{
	struct die_driver driver;

	assert_int_equal(dies_proc_start(&sampler, "/nowhere/libcuda.so.1"), 0);
	driver = expect(DIE_KIND_DRIVER).driver;
	assert_int_equal(driver.state, DIE_DRIVER_NONE);
	assert_string_equal(driver.library_path, "/nowhere/libcuda.so.1");
	expect_end(DIE_EXIT_NO_DRIVER);
	dies_proc_close(&sampler);

	assert_int_equal(dies_proc_start(&sampler, "libm.so.6"), 0);
	driver = expect(DIE_KIND_DRIVER).driver;
	assert_int_equal(driver.state, DIE_DRIVER_ERROR);
	assert_string_equal(driver.error_name, "no cuInit");
	expect_end(DIE_EXIT_CUDA);
}

/* What the CUDA toolkit ships to link against, where there is one: not a driver. */
static void test_real_stub(void **state)
{
	glob_t found;

	if (glob("/usr/local/cuda*/lib*/stubs/libcuda.so", 0, NULL, &found))
		skip_because("no CUDA toolkit on this machine");
	assert_int_equal(dies_proc_start(&sampler, found.gl_pathv[0]), 0);
	globfree(&found);
	assert_int_equal(expect(DIE_KIND_DRIVER).driver.state, DIE_DRIVER_STUB);
	expect_end(DIE_EXIT_STUB);
}

/* Without a kernel driver the library is not even opened, wherever it may lie. */
static void test_no_kernel_driver(void **state)
{
	struct die_driver driver;

	if (!access("/proc/driver/nvidia/version", F_OK) || !access("/dev/dxg", F_OK))
		skip_because("this machine has a kernel driver");
	setenv("LD_LIBRARY_PATH", "build/tests", 1);
	assert_int_equal(dies_proc_start(&sampler, NULL), 0);
	unsetenv("LD_LIBRARY_PATH");
	driver = expect(DIE_KIND_DRIVER).driver;
	assert_int_equal(driver.state, DIE_DRIVER_NONE);
	assert_string_equal(driver.error_name, "no kernel driver");
	expect_end(DIE_EXIT_NO_DRIVER);
	assert_int_equal(fake_cuda_calls(fake, FAKE_cuDriverGetVersion), 0);
	assert_int_equal(fake_cuda_calls(fake, FAKE_cuInit), 0);
}

/* Each of these ends with the process only; the other die is still sampled before. */
static void test_sticky_errors(void **state)
{
	static const struct {
		int result;
		const char *name;
	} cases[] = {
		{ 100, "NO_DEVICE" },         { 101, "INVALID_DEVICE" },
		{ 214, "ECC_UNCORRECTABLE" }, { 220, "NVLINK_UNCORRECTABLE" },
		{ 226, "CONTAINED" },         { 700, "ILLEGAL_ADDRESS" },
		{ 719, "LAUNCH_FAILED" },     { 802, "SYSTEM_NOT_READY" },
		{ 999, "UNKNOWN" },
	};
	static const enum fake_function where[] = {
		FAKE_cuMemGetInfo_v2,      FAKE_cuCtxPushCurrent_v2, FAKE_cuDevicePrimaryCtxRetain,
		FAKE_cuDeviceGetAttribute, FAKE_cuDeviceGetUuid,     FAKE_cuDeviceGet,
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (size_t k = 0; k < sizeof(where) / sizeof(where[0]); k++) {
			bool at_call = where[k] != FAKE_cuDeviceGet;
			struct die_sample die[2];

			fake_cuda_fault(fake, where[k], 1, cases[i].result, 0, FAKE_ALWAYS);
			start();
			sample(die, 2);
			fake_cuda_fault(fake, where[k], 1, 0, 0, 0);
			/* A device that cannot be got has no PCI id, and is last. */
			assert_int_equal(die[!at_call].state, DIE_ERROR);
			assert_int_equal(die[!at_call].cuda_error, cases[i].result);
			assert_string_equal(die[!at_call].error_name, cases[i].name);
			assert_string_equal(die[!at_call].pci, at_call ? "0000:3e:00.0" : "");
			assert_int_equal(die[at_call].state, DIE_OK);
			assert_true(die[at_call].free_bytes == free_bytes());
			expect_end(DIE_EXIT_CUDA);
			dies_proc_close(&sampler);
		}
	}
}

/* Out of memory, and taken by another process: both pass, and the sampler waits for that. */
static void test_passing_errors(void **state)
{
	struct die_sample die[2];

	fake_cuda_fault(fake, FAKE_cuDevicePrimaryCtxRetain, 1, CUDA_ERROR_OUT_OF_MEMORY, 0, 1);
	start();
	sample(die, 2);
	assert_int_equal(die[0].state, DIE_ERROR);
	assert_int_equal(die[0].cuda_error, CUDA_ERROR_OUT_OF_MEMORY);
	fake_cuda_fault(fake, FAKE_cuDevicePrimaryCtxRetain, 1, CUDA_ERROR_DEVICE_UNAVAILABLE, 0,
			1);
	sample(die, 2);
	assert_int_equal(die[0].state, DIE_NO_CONTEXT);
	assert_int_equal(die[0].cuda_error, CUDA_ERROR_DEVICE_UNAVAILABLE);
	assert_int_equal(die[1].state, DIE_OK);
	sample(die, 2);
	assert_int_equal(die[0].state, DIE_OK);
	assert_int_equal(die[0].cuda_error, 0);
}

static void test_lies(void **state)
{
	struct die_sample die[2];

	fake->die[1].lie_free_bytes = UINT64_MAX;
	start();
	sample(die, 2);
	assert_int_equal(die[0].state, DIE_ERROR);
	assert_string_equal(die[0].error_name, "free above total");
	assert_int_equal(die[0].cuda_error, 0);
	assert_int_equal(die[1].state, DIE_OK);
	/* No reason to end: the same process goes on, and takes the first answer that can be. */
	fake->die[1].lie_free_bytes = 0;
	sample(die, 2);
	assert_int_equal(die[0].state, DIE_OK);
	dies_proc_close(&sampler);
	assert_int_equal(dies_proc_wait(&sampler), DIE_EXIT_CLOSED);

	/* Names that are no text. */
	memset(fake->die[1].name, 0xff, sizeof(fake->die[1].name) - 1);
	strcpy(fake->die[0].pci, "\n");
	start();
	sample(die, 2);
	assert_int_equal(die[0].name[0], '?');
	assert_int_equal(die[0].state, DIE_OK);
	assert_int_equal(die[1].state, DIE_ERROR);
	assert_string_equal(die[1].error_name, "PCI id not understood");
	strcpy(fake->die[0].pci, "0000:3F:00.0");
	sample(die, 2);
	assert_int_equal(die[1].state, DIE_OK);
	assert_string_equal(die[1].pci, "0000:3f:00.0");
}

/* A die that is left out is not touched, whatever is wrong with it, and the process goes on. */
static void test_left_out(void **state)
{
	struct die_request request = { .header = die_header_make(DIE_SAMPLE_NOW, 77), .n_skip = 1 };
	struct die_message m;

	strcpy(request.skip_pci[0], "0000:3e:00.0");
	fake_cuda_fault(fake, FAKE_cuDevicePrimaryCtxRetain, 1, 719, 0, FAKE_ALWAYS);
	start();
	for (int i = 0; i < 3; i++) {
		assert_true(send(sampler.sock, &request, sizeof(request), 0) > 0);
		m = expect(DIE_KIND_DIE);
		assert_int_equal(m.die.index, 1);
		assert_string_equal(m.die.pci, "0000:3f:00.0");
		assert_int_equal(m.die.state, DIE_OK);
		assert_int_equal(expect(DIE_KIND_PASS_END).header.pass, 77);
	}
	assert_int_equal(fake_cuda_calls(fake, FAKE_cuDevicePrimaryCtxRetain), 1);
	/* One without an id. */
	fake_cuda_fault(fake, FAKE_cuDevicePrimaryCtxRetain, 1, 0, 0, 0);
	dies_proc_close(&sampler);
	assert_int_equal(dies_proc_wait(&sampler), DIE_EXIT_CLOSED);
	fake_cuda_fault(fake, FAKE_cuDeviceGet, 1, 999, 0, FAKE_ALWAYS);
	request.skip_pci[0][0] = 0;
	start();
	assert_true(send(sampler.sock, &request, sizeof(request), 0) > 0);
	m = expect(DIE_KIND_DIE);
	assert_string_equal(m.die.pci, "0000:3f:00.0");
	expect(DIE_KIND_PASS_END);
	dies_proc_close(&sampler);
	assert_int_equal(dies_proc_wait(&sampler), DIE_EXIT_CLOSED);
}

/* The die falls off the bus while we look at it; its successor is not seen by a new sampler. */
static void test_device_disappears(void **state)
{
	struct die_sample die[2];

	start();
	sample(die, 2);
	fake->n_dies = 1;
	fake_cuda_fault(fake, FAKE_cuMemGetInfo_v2, 1, 999, 0, FAKE_ALWAYS);
	sample(die, 2);
	assert_int_equal(die[0].state, DIE_ERROR);
	expect_end(DIE_EXIT_CUDA);
	dies_proc_close(&sampler);
	assert_int_equal(start().n_dies, 1);
	sample(die, 1);
	assert_int_equal(die[0].state, DIE_OK);
}

/* ---- its end ------------------------------------------------------------------------------- */

static void test_ends_with_the_agent(void **state)
{
	struct die_sample die[2];

	start();
	dies_proc_close(&sampler);
	assert_int_equal(dies_proc_wait(&sampler), DIE_EXIT_CLOSED);

	/* Also when that comes in the middle of a pass. */
	start();
	sample(die, 2);
	fake_cuda_fault(fake, FAKE_cuMemGetInfo_v2, FAKE_ANY_DIE, 0, FAKE_FOR_EVER_NS, 1);
	dies_proc_ask(&sampler, 1);
	until(fake_cuda_calls(fake, FAKE_cuMemGetInfo_v2) == 3);
	dies_proc_close(&sampler);
	fake_cuda_fault(fake, FAKE_cuMemGetInfo_v2, FAKE_ANY_DIE, 0, 0, 0);
	assert_int_equal(dies_proc_wait(&sampler), DIE_EXIT_CLOSED);
}

/* A call that hangs sees no socket close: the kernel ends the sampler with its parent. */
static void test_hung_sampler_ends_with_its_parent(void **state)
{
	pid_t agent;
	int status;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	fake_cuda_fault(fake, FAKE_cuMemGetInfo_v2, FAKE_ANY_DIE, 0, FAKE_FOR_EVER_NS, 1);
	agent = fork();
	if (!agent) {
		start();
		dies_proc_ask(&sampler, 1);
		pause();
		_exit(0);
	}
	until(fake_cuda_calls(fake, FAKE_cuMemGetInfo_v2) == 1);
	engine_kill(agent);
	until((sampler.pid = waitpid(-1, &status, WNOHANG)) != 0);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	assert_true(sampler.pid > 0);
	sampler.pid = 0;
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void test_hung_sampler_can_be_killed(void **state)
{
	start();
	fake_cuda_fault(fake, FAKE_cuMemGetInfo_v2, FAKE_ANY_DIE, 0, FAKE_FOR_EVER_NS, 1);
	dies_proc_ask(&sampler, 1);
	until(fake_cuda_calls(fake, FAKE_cuMemGetInfo_v2) == 1);
	kill(sampler.pid, SIGKILL);
	expect_end(128 + SIGKILL);
}

static void test_bad_requests(void **state)
{
	struct die_message not_a_request = {
		.header = die_header_make(DIE_KIND_PASS_END, 1),
	};

	start();
	assert_true(write(sampler.sock, &not_a_request, sizeof(not_a_request)) > 0);
	expect_end(DIE_EXIT_SETUP);
}

static void test_usage(void **state)
{
	static const char *const commands[] = {
		"build/pnmem-dies 3</dev/null 2>/dev/null",
		"build/pnmem-dies 3<&- 2>/dev/null",
		"build/pnmem-dies surplus 2>/dev/null",
	};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		int status = system(commands[i]);

		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), DIE_EXIT_USAGE);
	}
	assert_int_equal(system("build/pnmem-dies --help >/dev/null"), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_start_failures),
		TEST(test_no_device),
		TEST(test_other_libraries),
		TEST(test_real_stub),
		TEST(test_no_kernel_driver),
		TEST(test_sticky_errors),
		TEST(test_passing_errors),
		TEST(test_lies),
		TEST(test_left_out),
		TEST(test_device_disappears),
		TEST(test_ends_with_the_agent),
		TEST(test_hung_sampler_ends_with_its_parent),
		TEST(test_hung_sampler_can_be_killed),
		TEST(test_bad_requests),
		TEST(test_usage),
	};

	return cmocka_run_group_tests_name("dies_faults", tests, NULL, NULL);
}
