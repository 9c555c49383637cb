/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dies through the agent with a scripted sampler (fake_dies.c): what is published, who may say so,
 * what engines' pushes make of it, and when it samples.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "../skip.h"
#include "support/agent_dies.h"

static const char *const args[] = { "--no-bpf", "--cuda-lib", "/fake/libcuda.so.1", NULL };

static void start(const char *text)
{
	script(text);
	start_agent(args);
}

/* ---- what is published ----------------------------------------------------------------------- */

static void test_two_dies(void **unused)
{
	start("die 1 0000:05:00.0 0 11000 12000 100\n"
	      "die 2 0000:06:00.0 0 500 12000 0\n");
	expect_die(0, PN_SRC_OK, 11100 * MIB, 5000); /* own context added back */
	expect_die(1, PN_SRC_OK, 500 * MIB, 5000);
	assert_int_equal(state.n_dies, 2);
	assert_int_equal(state.per_die_budget[0], 12000 * MIB - GIB);
	assert_int_equal(state.per_die_used[0], 0);
	assert_int_equal(state.level, PN_MEM_LEVEL_TIGHT); /* 500 < 10976 / 16 */
	assert_true(ext.reasons & PN_REASON_DIE0 << 1);
	assert_string_equal(ext.die_pci[1], "0000:06:00.0");
	assert_int_equal(ext.die_uuid[1][0], 2);
	assert_true(clock_now_ns() - ext.die_sample_ns[0] < 5 * S);
	assert_int_equal(ext.source_state[PN_SRC_DIES], PN_SRC_OK);
}

static void expect_output(const char *command, const char *const wanted[])
{
	char output[16384] = "", line[160];
	FILE *pipe;
	size_t n;

	snprintf(line, sizeof(line), "build/pnmem %s 2>&1", command);
	pipe = popen(line, "re");
	assert_non_null(pipe);
	n = fread(output, 1, sizeof(output) - 1, pipe);
	pclose(pipe);
	output[n] = 0;
	for (int i = 0; wanted[i]; i++)
		if (!strstr(output, wanted[i]))
			fail_msg("no \"%s\" in the output of %s:\n%s", wanted[i], line, output);
}

/* As an operator sees it. */
static void test_command_line(void **unused)
{
	static const char *const status[] = {
		"die 0   0000:05:00.0 OK, free 10.8 GiB, budget 10.7 GiB, used 0 B, ",
		"die 1   0000:06:00.0 TIGHT, free 500.0 MiB, budget 10.7 GiB, used 0 B, ",
		"die 2   0000:07:00.0 not known, unsupported",
		"s ago",
		NULL,
	};
	static const char *const json[] = {
		"\"n_dies\": 3",
		"\"pci\": \"0000:06:00.0\"",
		"\"uuid\": \"02000000000000000000000000000000\"",
		"\"level_name\": \"TIGHT\"",
		NULL,
	};
	static const char *const doctor[] = {
		"ok        sampler   pnmem-dies: pid ",
		"ok        uprobe    libcuda: not wanted (--no-bpf)",
		"ok        die 0     0000:05:00.0 Fake die 1: sampled, own context of 100 MiB",
		"degraded  die 2     0000:07:00.0 Fake die 3: exclusive compute mode",
		"ok        mps       no MPS server in /nonexistent",
		NULL,
	};
	static const char *const with_mps[] = {
		": not joined, dies are sampled beside it, those in an exclusive compute mode not",
		NULL,
	};
	char control[128];
	FILE *file;

	start("die 1 0000:05:00.0 0 11000 12000 100\n"
	      "die 2 0000:06:00.0 0 500 12000 0\n"
	      "die 3 0000:07:00.0 1 0 12000 0\n");
	expect_die(2, PN_SRC_UNSUPPORTED, 0, 5000);
	expect_output("status", status);
	expect_output("status --json", json);
	setenv("CUDA_MPS_PIPE_DIRECTORY", "/nonexistent", 1);
	expect_output("doctor", doctor);
	setenv("CUDA_MPS_PIPE_DIRECTORY", agent.dir, 1);
	snprintf(control, sizeof(control), "%s/control", agent.dir);
	file = fopen(control, "we");
	assert_non_null(file);
	fclose(file);
	expect_output("doctor", with_mps);
	unlink(control);
	unsetenv("CUDA_MPS_PIPE_DIRECTORY");
}

/* A total that changes does not move the budget: it is what it was at the start. */
static void test_budget_is_of_the_start(void **unused)
{
	start("die 1 0000:05:00.0 0 11000 12000 0\n");
	expect_die(0, PN_SRC_OK, 11000 * MIB, 5000);
	script("die 1 0000:05:00.0 0 9000 11000 0\n");
	expect_die(0, PN_SRC_OK, 9000 * MIB, 8000); /* by the slow pass */
	assert_int_equal(state.per_die_budget[0], 12000 * MIB - GIB);
}

static void test_dies_that_must_not_be_sampled(void **unused)
{
	pn_hook_status lines[64];
	int n, exclusive = 0, prohibited = 0, integrated = 0;

	start("die 1 0000:05:00.0 1 0 12000 0\n"
	      "die 2 0000:06:00.0 2 0 80000 0\n"
	      "die 3 0000:07:00.0 3 0 0 0\n"
	      "die 4 0000:08:00.0 4 0 0 0\n"
	      "die 5 0000:09:00.0 0 500 1000 0\n"
	      "die 6 0000:0a:00.0 1 0 12000 0 2\n");
	expect_die(0, PN_SRC_UNSUPPORTED, 0, 5000);
	expect_die(1, PN_SRC_UNSUPPORTED, 0, 5000);
	expect_die(3, PN_SRC_STALE, 0, 5000);
	expect_die(4, PN_SRC_UNSUPPORTED, 500 * MIB, 5000); /* smaller than the reserve */
	expect_die(5, PN_SRC_UNSUPPORTED, 0, 5000);
	assert_int_equal(ext.die_state[2], PN_SRC_OK); /* integrated: MemAvailable */
	assert_int_equal(state.per_die_free[2], state.host_avail_bytes);
	for (int i = 0; i < 6; i++)
		if (i != 2)
			assert_int_equal(state.per_die_budget[i], 0); /* no level of theirs */
	assert_false(ext.reasons & (PN_REASON_DIE0 << 0 | PN_REASON_DIE0 << 1 |
				    PN_REASON_DIE0 << 3 | PN_REASON_DIE0 << 4));
	/* An engine can tell. */
	assert_int_equal(pn_memwatch_set_die_pci("05:00.0", 3 * GIB, 10 * GIB, GIB), 0);
	read_snapshot();
	assert_int_equal(ext.die_state[0], PN_SRC_OK);
	assert_int_equal(state.per_die_free[0], 3 * GIB);

	n = pn_memwatch_dies(lines, 64);
	assert_int_equal(n, 8);
	assert_string_equal(lines[0].subject, "sampler");
	assert_int_equal(lines[0].state, PN_HOOK_ACTIVE);
	for (int i = 0; i < n; i++) {
		exclusive += strstr(lines[i].why, "exclusive compute mode") != NULL;
		prohibited += strstr(lines[i].why, "prohibited compute mode") != NULL;
		integrated += strstr(lines[i].why, "MemAvailable") != NULL;
	}
	assert_int_equal(exclusive, 1);
	assert_int_equal(prohibited, 1);
	assert_int_equal(integrated, 1);
	expect_log("is exclusive or prohibited", 2);
	expect_log("is divided by MIG", 1);
}

static void test_more_than_16(void **unused)
{
	char text[4096] = "";
	size_t n = 0;

	for (int i = 0; i < 40; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "die %d 0000:%02x:00.0 0 %d 12000 0\n", i + 1, i + 1,
				      5000 + i);
	start(text);
	expect_die(15, PN_SRC_OK, 5015 * MIB, 5000);
	assert_int_equal(state.n_dies, 16);
	assert_int_equal(ext.n_more_dies, 16);
	assert_int_equal(ext.more_die[15].free_bytes, 5031 * MIB);
	assert_string_equal(ext.more_die[0].pci, "0000:11:00.0");
	expect_log("more than 32 dies", 1);
}

/* A die keeps its place when another one before it is gone. */
static void test_a_die_disappears(void **unused)
{
	start("die 1 0000:05:00.0 0 1000 12000 0\n"
	      "die 2 0000:06:00.0 0 2000 12000 0\n");
	expect_die(1, PN_SRC_OK, 2000 * MIB, 5000);
	script("die 2 0000:06:00.0 0 3000 12000 0\n");
	assert_int_equal(kill(sampler_pid(), SIGKILL), 0);
	expect_die(1, PN_SRC_OK, 3000 * MIB, 5000);
	expect_die(0, PN_SRC_STALE, 1000 * MIB, 15000); /* its last numbers, and never 0 */
	assert_int_equal(ext.die_state[1], PN_SRC_OK);
	assert_true(ext.reasons & PN_REASON_STALE);
	assert_true(clock_now_ns() - ext.die_sample_ns[0] > 10 * S);
}

/* ---- sources --------------------------------------------------------------------------------- */

static void test_no_driver(void **unused)
{
	const char *const without[] = { "--no-bpf", NULL };
	pn_hook_status lines[4];

	if (!access("/proc/driver/nvidia/version", F_OK) || !access("/dev/dxg", F_OK))
		skip_because("there is a GPU driver here");
	script("");
	start_agent(without);
	pn_memwatch_poll_now();
	read_snapshot();
	assert_int_equal(state.n_dies, 0);
	assert_int_equal(ext.source_state[PN_SRC_DIES], PN_SRC_ABSENT);
	assert_int_equal(pn_memwatch_dies(lines, 4), 2);
	assert_int_equal(lines[0].state, PN_HOOK_UNTRIED);
	assert_false(has_pid(NULL)); /* never started */
}

static void test_die_source(void **unused)
{
	static const char *const sources[] = { "cuda", "push", "off" };
	const char die[] = "die 1 0000:05:00.0 0 1000 12000 0\n";

	for (int i = 0; i < 3; i++) {
		bool samples = i == 0, pushes = i == 1;
		const uint8_t uuid[16] = { 9 };
		int r;

		setenv("PN_DIE_SOURCE", sources[i], 1);
		start(die);
		if (samples)
			expect_die(0, PN_SRC_OK, 1000 * MIB, 5000);
		r = pn_memwatch_set_die_uuid(uuid, GIB, 5 * GIB, 0);
		assert_true(pushes ? r >= 0 : r < 0);
		pn_memwatch_set_die(3, GIB, 5 * GIB, 0);
		read_snapshot();
		assert_int_equal(state.n_dies, pushes ? 4 : samples ? 1 : 0);
		pn_memwatch_stop();
		agent_proc_kill(&agent);
		if (!samples)
			assert_int_equal(requests(), 0);
		unlink(agent.socket_path);
		forget_requests();
	}
}

/* ---- pushes ---------------------------------------------------------------------------------- */

/* Seen by a read right after it, at the die of that name, and taken over by a newer sample. */
static void test_push_and_sample(void **unused)
{
	const uint8_t second[16] = { 2 }, foreign[16] = { 77 };
	long before;

	start("die 1 0000:05:00.0 0 8000 12000 0\n"
	      "die 2 0000:06:00.0 0 9000 12000 0\n");
	expect_die(1, PN_SRC_OK, 9000 * MIB, 5000);
	/* As long as the sampler is stopped, no sample is newer. */
	kill(sampler_pid(), SIGSTOP);
	before = requests();
	assert_int_equal(pn_memwatch_set_die_uuid(second, 4 * GIB, 10 * GIB, 2 * GIB), 1);
	read_snapshot();
	assert_int_equal(state.per_die_free[1], 4 * GIB);
	assert_int_equal(state.per_die_budget[1], 12000 * MIB - GIB); /* as sampled */
	assert_int_equal(state.per_die_used[1], 2 * GIB);
	assert_int_equal(state.per_die_free[0], 8000 * MIB);
	pn_memwatch_set_die(0, 5 * GIB, 9 * GIB, GIB);
	read_snapshot();
	assert_int_equal(state.per_die_free[0], 5 * GIB);
	/* A die that the agent does not have comes behind those. */
	assert_int_equal(pn_memwatch_set_die_uuid(foreign, GIB, 3 * GIB, 0), 2);
	read_snapshot();
	assert_int_equal(state.n_dies, 3);
	assert_int_equal(state.per_die_free[2], GIB);
	assert_int_equal(ext.die_uuid[2][0], 77);
	assert_int_equal(pn_memwatch_set_die_uuid((const uint8_t[16]){ 0 }, 1, 1, 1), -22);
	assert_int_equal(pn_memwatch_set_die_pci("nonsense", 1, 1, 1), -22);
	/* The pushes asked for a pass: its newer sample counts, what the engine uses stays. */
	kill(sampler_pid(), SIGCONT);
	expect_die(1, PN_SRC_OK, 9000 * MIB, 4000);
	assert_true(requests() > before);
	assert_int_equal(state.per_die_used[1], 2 * GIB);
	/* Taken back. */
	assert_int_equal(pn_memwatch_set_die_uuid(second, 0, 0, 0), 0);
	assert_int_equal(pn_memwatch_set_die_uuid(foreign, 0, 0, 0), 0);
	read_snapshot();
	assert_int_equal(state.n_dies, 2);
	assert_int_equal(state.per_die_used[1], 0);
	assert_int_equal(state.per_die_budget[1], 12000 * MIB - GIB);
	assert_int_equal(state.per_die_used[0], GIB);
}

/* Two engines of one group use the same die: each reads its own bytes, a third one the sum. */
static void test_used_is_each_engines_own(void **unused)
{
	int ready[2], go[2], status;
	pid_t child;
	char byte;

	start("die 1 0000:05:00.0 0 8000 12000 0\n");
	expect_die(0, PN_SRC_OK, 8000 * MIB, 5000);
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(go), 0);
	fflush(stdout);
	child = fork();
	if (!child) {
		pn_mem_state mine;

		if (pn_memwatch_start())
			_exit(1);
		pn_memwatch_set_die_pci("0000:05:00.0", 7 * GIB, 10 * GIB, 3 * GIB);
		if (write(ready[1], "", 1) != 1 || read(go[0], &byte, 1) != 1)
			_exit(2);
		if (pn_memwatch_read(&mine))
			_exit(3);
		_exit(mine.per_die_used[0] == 3 * GIB ? 0 : 4);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	read_snapshot();
	assert_int_equal(state.per_die_used[0], 3 * GIB); /* no push of our own: the sum */
	pn_memwatch_set_die(0, 6 * GIB, 10 * GIB, 2 * GIB);
	read_snapshot();
	assert_int_equal(state.per_die_used[0], 2 * GIB);
	assert_int_equal(write(go[1], "", 1), 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	pn_memwatch_set_die(0, 0, 0, 0);
	pn_memwatch_poll_now();
	read_snapshot();
	assert_int_equal(state.per_die_used[0], 0);
	close(ready[0]);
	close(ready[1]);
	close(go[0]);
	close(go[1]);
}

/* ---- when it samples ------------------------------------------------------------------------- */

/* Far more pushes than passes: those stay 2 ms apart, and the last push is followed by one. */
static void test_coalesced(void **unused)
{
	uint64_t begin_ns, took_ns;
	long before, after, n = 0;

	start("die 1 0000:05:00.0 0 8000 12000 0\n");
	expect_die(0, PN_SRC_OK, 8000 * MIB, 5000);
	before = requests();
	begin_ns = clock_now_ns();
	do {
		pn_memwatch_set_die(0, 5 * GIB, 10 * GIB, 0);
		n++;
		usleep(500); /* the agent hears 2000 requests a second from one engine */
	} while (clock_now_ns() - begin_ns < 300 * MS);
	took_ns = clock_now_ns() - begin_ns;
	expect_die(0, PN_SRC_OK, 8000 * MIB, 4000); /* sampled after the last push */
	after = requests();
	assert_true(n > 10);
	assert_true(after > before);
	assert_true(after - before <= (long)(took_ns / (2 * MS)) + 3);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_two_dies, setup, teardown),
		cmocka_unit_test_setup_teardown(test_command_line, setup, teardown),
		cmocka_unit_test_setup_teardown(test_budget_is_of_the_start, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dies_that_must_not_be_sampled, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_more_than_16, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_die_disappears, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_driver, setup, teardown),
		cmocka_unit_test_setup_teardown(test_die_source, setup, teardown),
		cmocka_unit_test_setup_teardown(test_push_and_sample, setup, teardown),
		cmocka_unit_test_setup_teardown(test_used_is_each_engines_own, setup, teardown),
		cmocka_unit_test_setup_teardown(test_coalesced, setup, teardown),
	};

	return cmocka_run_group_tests_name("agent_dies", tests, NULL, NULL);
}
