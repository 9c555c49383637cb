/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One die fails and the others go on: the agent with its real sampler, on a stand-in driver of two
 * dies. Also what must outlast a sampler: what its own context takes, and a die that is full.
 */
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "../cuda/fake_cuda.h"
#include "support/agent_dies.h"

#define LIBRARY "build/tests/libcuda.so.1"
/* The stand-in's die 1 has the smaller PCI id: it is sampled first, and published as die 0. */
#define FAILING 1
#define HEALTHY 0
/* Of an untouched die, when the sampler's own context is added back or too little is free for it to
 * be measured.
 */
#define USABLE_MIB  (12288 - 768)
#define CONTEXT_MIB 74

static struct fake_cuda *fake;
static char fake_path[96];

static int setup_driver(void **unused)
{
	char real[PATH_MAX];

	if (setup(unused) || !realpath("build/pnmem-dies", real))
		return -1;
	setenv("PNMEM_DIES", real, 1);
	snprintf(fake_path, sizeof(fake_path), "%s/driver", agent.dir);
	fake = fake_cuda_create(fake_path, 2);
	setenv(FAKE_CUDA_ENV, fake_path, 1);
	/* Too little free for the sampler to measure its own context: figures stand still. */
	for (int i = 0; fake && i < 2; i++)
		fake->die[i].other_bytes = 7 * GIB;
	return fake ? 0 : -1;
}

static int teardown_driver(void **unused)
{
	pn_memwatch_stop();
	agent_proc_kill(&agent);
	unlink(fake_path);
	fake_cuda_close(fake);
	unsetenv(FAKE_CUDA_ENV);
	return teardown(unused);
}

static void start_both(void)
{
	static const char *const args[] = { "--no-bpf", "--cuda-lib", LIBRARY, NULL };

	start_agent(args);
}

static uint64_t busy_bytes(void)
{
	return (USABLE_MIB - 7 * 1024 - CONTEXT_MIB) * MIB;
}

static void start_healthy(void)
{
	start_both();
	expect_die(0, PN_SRC_OK, busy_bytes(), 10000);
	expect_die(1, PN_SRC_OK, busy_bytes(), 10000);
}

static char last_why[256];

static bool die_says(void *text)
{
	pn_hook_status lines[4];

	if (pn_memwatch_dies(lines, 4) < 3)
		return false;
	snprintf(last_why, sizeof(last_why), "%s", lines[2].why);
	return strstr(last_why, text);
}

static void expect_line(const char *text)
{
	if (!test_until(die_says, (void *)text, 10000))
		fail_msg("die 0 says \"%s\", not \"%s\"", last_why, text);
}

/* For so long the healthy die is never stale, and moves with what is taken of it. */
static void expect_fresh(unsigned seconds)
{
	uint64_t end_ns = clock_now_ns() + seconds * S, worst_ns = 0;

	while (clock_now_ns() < end_ns) {
		pn_memwatch_poll_now();
		read_snapshot();
		if (ext.die_state[1] != PN_SRC_OK)
			fail_msg("the healthy die is stale");
		if (clock_now_ns() - ext.die_sample_ns[1] > worst_ns)
			worst_ns = clock_now_ns() - ext.die_sample_ns[1];
		usleep(20000);
	}
	print_message("# oldest sample of the healthy die: %llu ms\n",
		      (unsigned long long)(worst_ns / MS));
	fake->die[HEALTHY].other_bytes = 8 * GIB;
	expect_die(1, PN_SRC_OK, busy_bytes() - GIB, 10000);
	fake->die[HEALTHY].other_bytes = 7 * GIB;
}

/* Figures that cannot be: no CUDA error, no end of the process, no word of one. */
static void test_lies(void **unused)
{
	start_healthy();
	fake->die[FAILING].lie_free_bytes = UINT64_MAX;
	expect_log("cannot be sampled (free above total)", 1);
	expect_line("the driver's answer cannot be: free above total");
	expect_fresh(12);
	read_snapshot();
	assert_int_equal(ext.die_state[0], PN_SRC_STALE);
	assert_true(state.per_die_free[0] == busy_bytes());
	fake->die[FAILING].lie_free_bytes = 0;
	expect_die(0, PN_SRC_OK, busy_bytes(), 8000);
	assert_int_equal(agent_proc_log_count(&agent, "CUDA error"), 0);
	assert_int_equal(agent_proc_log_count(&agent, "die sampler"), 0);
	assert_int_equal(fake_cuda_calls(fake, FAKE_cuInit), 1);
}

/* Each takes its process along, and is tried again ever less often. */
static void test_sticky_error(void **unused)
{
	uint64_t starts;

	start_healthy();
	starts = fake_cuda_calls(fake, FAKE_cuInit);
	fake_cuda_fault(fake, FAKE_cuMemGetInfo_v2, FAILING, 719, 0, FAKE_ALWAYS);
	expect_line("CUDA error 719 LAUNCH_FAILED");
	expect_fresh(20);
	read_snapshot();
	assert_int_equal(ext.die_state[0], PN_SRC_STALE);
	starts = fake_cuda_calls(fake, FAKE_cuInit) - starts;
	print_message("# samplers started in 20 s: %llu\n", (unsigned long long)starts);
	assert_in_range(starts, 3, 9);
	/* Said once, and not that it was well again while it was not. */
	assert_int_equal(agent_proc_log_count(&agent, "cannot be sampled (LAUNCH_FAILED)"), 1);
	assert_int_equal(agent_proc_log_count(&agent, "tried again; the others go on"), 1);
	assert_int_equal(agent_proc_log_count(&agent, "samples again"), 0);
	fake_cuda_fault(fake, FAKE_cuMemGetInfo_v2, FAILING, 0, 0, 0);
	expect_die(0, PN_SRC_OK, busy_bytes(), 35000);
	expect_log("samples again", 1);
}

/* A call that never comes back, of the die that is sampled first. */
static void test_hang(void **unused)
{
	start_healthy();
	fake_cuda_fault(fake, FAKE_cuMemGetInfo_v2, FAILING, 0, FAKE_FOR_EVER_NS, FAKE_ALWAYS);
	expect_fresh(20);
	read_snapshot();
	assert_int_equal(ext.die_state[0], PN_SRC_STALE);
	assert_int_equal(agent_proc_log_count(&agent, "does not answer"), 1);
	assert_int_equal(agent_proc_log_count(&agent, "samples again"), 0);
	fake_cuda_fault(fake, FAKE_cuMemGetInfo_v2, FAILING, 0, 0, 0);
	expect_die(0, PN_SRC_OK, busy_bytes(), 35000);
	expect_log("samples again", 1);
}

static pid_t sampler_of_agent(void)
{
	pn_hook_status line;
	int pid = 0;

	if (pn_memwatch_dies(&line, 1) != 1 || sscanf(line.why, "pid %d", &pid) != 1)
		return 0;
	return pid;
}

static bool has_sampler_but(void * not )
{
	pid_t pid = sampler_of_agent();

	return pid && pid != *(pid_t *)not ;
}

/* Measured while half of the die was free; the next sampler finds less, and costs the same. */
static void test_own_context_outlasts_the_sampler(void **unused)
{
	pid_t old;

	fake->die[FAILING].other_bytes = 0;
	start_both();
	expect_line("own context of 74 MiB added back");
	expect_die(0, PN_SRC_OK, USABLE_MIB * MIB, 6000);
	fake->die[FAILING].other_bytes = 7 * GIB;
	expect_die(0, PN_SRC_OK, (USABLE_MIB - 7 * 1024) * MIB, 6000);
	old = sampler_of_agent();
	assert_true(old > 0);
	kill(old, SIGKILL);
	assert_true(test_until(has_sampler_but, &old, 5000));
	fake->die[FAILING].other_bytes = 8 * GIB;
	expect_die(0, PN_SRC_OK, (USABLE_MIB - 8 * 1024) * MIB, 8000);
	expect_line("own context of 74 MiB added back");
}

/* Not even a context fits when the agent starts: critical, and not unknown. */
static void test_full_at_start(void **unused)
{
	fake->die[FAILING].other_bytes = (USABLE_MIB - CONTEXT_MIB / 2) * MIB;
	start_both();
	expect_die(0, PN_SRC_OK, 0, 10000);
	assert_true(state.per_die_budget[0] == 12288 * MIB - GIB);
	assert_int_equal(state.level, PN_MEM_LEVEL_CRITICAL);
	assert_true(ext.reasons & PN_REASON_DIE0);
	expect_line("full: no context fits");
	expect_die(1, PN_SRC_OK, busy_bytes(), 10000);
	fake->die[FAILING].other_bytes = 7 * GIB;
	expect_die(0, PN_SRC_OK, busy_bytes(), 8000);
	pn_memwatch_poll_now();
	assert_int_equal(agent_proc_log_count(&agent, "is full (OUT_OF_MEMORY)"), 1);
	assert_int_equal(agent_proc_log_count(&agent, "die sampler"), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_lies, setup_driver, teardown_driver),
		cmocka_unit_test_setup_teardown(test_sticky_error, setup_driver, teardown_driver),
		cmocka_unit_test_setup_teardown(test_hang, setup_driver, teardown_driver),
		cmocka_unit_test_setup_teardown(test_own_context_outlasts_the_sampler, setup_driver,
						teardown_driver),
		cmocka_unit_test_setup_teardown(test_full_at_start, setup_driver, teardown_driver),
	};

	return cmocka_run_group_tests_name("agent_one_die", tests, NULL, NULL);
}
