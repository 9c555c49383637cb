/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A scripted sampler (fake_dies.c) that hangs, dies, is stopped or talks nonsense, while the agent
 * goes on as before.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <cmocka.h>

#include "../skip.h"
#include "support/agent_dies.h"

static const char *const args[] = { "--no-bpf", "--cuda-lib", "/fake/libcuda.so.1", NULL };

static void start(const char *text)
{
	script(text);
	start_agent(args);
}

/* Median and worst time of a look that is asked for. */
static uint64_t look_ns(uint64_t *ret_worst_ns)
{
	uint64_t took_ns[101], now_ns;

	for (int i = 0; i < 101; i++) {
		now_ns = clock_now_ns();
		pn_memwatch_poll_now();
		took_ns[i] = clock_now_ns() - now_ns;
		for (int k = i; k && took_ns[k] < took_ns[k - 1]; k--) {
			now_ns = took_ns[k];
			took_ns[k] = took_ns[k - 1];
			took_ns[k - 1] = now_ns;
		}
	}
	*ret_worst_ns = took_ns[100];
	return took_ns[50];
}

static const char healthy[] = "die 1 0000:05:00.0 0 8000 12000 0\n";

/* Looks are not slower (generously, on a shared machine) with this script than before. */
static void expect_looks_as_before(const char *text)
{
	uint64_t before_ns, during_ns, worst_ns;

	before_ns = look_ns(&worst_ns);
	script(text);
	pn_memwatch_set_die(15, GIB, 2 * GIB, 0); /* asks for a pass */
	during_ns = look_ns(&worst_ns);
	print_message("# look: %llu us before, %llu us (worst %llu) during\n",
		      (unsigned long long)before_ns / 1000, (unsigned long long)during_ns / 1000,
		      (unsigned long long)worst_ns / 1000);
	assert_true(during_ns < 3 * before_ns + MS);
}

/* A child that is replaced by one that hangs too: stale after the limit, and not before. */
static void test_hang(void **unused)
{
	uint64_t last_ns;
	pid_t old;

	start(healthy);
	expect_die(0, PN_SRC_OK, 8000 * MIB, 5000);
	old = sampler_pid();
	expect_looks_as_before("do hang\n");
	read_snapshot();
	last_ns = ext.die_sample_ns[0];
	expect_die(0, PN_SRC_STALE, 8000 * MIB, 14000);
	assert_true(clock_now_ns() - last_ns >= 10 * S);
	assert_true(clock_now_ns() - last_ns < 13 * S); /* by the heartbeat's look at the latest */
	expect_log("does not answer", 1);
	kill(sampler_pid(), SIGKILL); /* or wait for the minute that a start may take */
	script("die 1 0000:05:00.0 0 7000 12000 0\n");
	expect_die(0, PN_SRC_OK, 7000 * MIB, 10000);
	assert_int_not_equal(sampler_pid(), old);
	expect_log("samples again", 1);
	assert_int_equal(agent_proc_log_count(&agent, "tried again"), 1);
}

static void test_stopped(void **unused)
{
	start(healthy);
	expect_die(0, PN_SRC_OK, 8000 * MIB, 5000);
	kill(sampler_pid(), SIGSTOP);
	/* Killed although stopped, and a new one is there before the die is stale. */
	script("die 1 0000:05:00.0 0 7000 12000 0\n");
	pn_memwatch_set_die(15, GIB, 2 * GIB, 0);
	expect_die(0, PN_SRC_OK, 7000 * MIB, 10000);
	expect_log("does not answer", 1);
}

static void test_killed_again_and_again(void **unused)
{
	pid_t pid = 0;

	start(healthy);
	for (int i = 0; i < 3; i++) {
		expect_die(0, PN_SRC_OK, 8000 * MIB, 5000);
		while (sampler_pid() == pid)
			usleep(1000);
		pid = sampler_pid();
		kill(pid, SIGKILL);
	}
	while (sampler_pid() == pid)
		usleep(1000);
	expect_die(0, PN_SRC_OK, 8000 * MIB, 5000);
	assert_int_equal(agent_proc_log_count(&agent, "killed by signal 9"), 1);
}

static void nonsense(const char *text)
{
	start(healthy);
	expect_die(0, PN_SRC_OK, 8000 * MIB, 5000);
	expect_looks_as_before(text);
	expect_log("what no sampler says", 1);
	script("die 1 0000:05:00.0 0 7000 12000 0\n");
	expect_die(0, PN_SRC_OK, 7000 * MIB, 10000);
	expect_log("samples again", 1);
	assert_int_equal(agent_proc_log_count(&agent, "tried again"), 1);
}

static void test_garbage(void **unused)
{
	nonsense("do garbage\n");
}

/* The first pass of each new child is a good one: the die stays fresh. */
static void test_flood(void **unused)
{
	nonsense("die 1 0000:05:00.0 0 8000 12000 0\ndo flood\n");
}

/* Sticky errors: every pass says so, and every child ends with it. Each thing is logged once. */
static void test_error_again_and_again(void **unused)
{
	pn_hook_status lines[4];
	long before;

	start(healthy);
	expect_die(0, PN_SRC_OK, 8000 * MIB, 5000);
	before = requests();
	script("die 1 0000:05:00.0 4 0 0 0\ndo after 8\n");
	pn_memwatch_set_die(15, GIB, 2 * GIB, 0);
	for (int i = 0; i < 10000 && requests() < before + 3; i++)
		usleep(1000);
	read_snapshot();
	assert_int_equal(state.per_die_free[0], 8000 * MIB);
	assert_int_equal(pn_memwatch_dies(lines, 4), 3);
	assert_int_equal(lines[2].state, PN_HOOK_REFUSED);
	assert_non_null(strstr(lines[2].why, "CUDA error"));
	script(healthy);
	expect_log("samples again", 1);
	assert_int_equal(agent_proc_log_count(&agent, "only ends with its process"), 1);
	assert_int_equal(agent_proc_log_count(&agent, "cannot be sampled"), 1);
}

/* The rest of the ways to go, without waiting for stale dies: the next one is there at once. */
static void test_other_ends(void **unused)
{
	static const struct {
		const char *script, *log;
	} ends[] = {
		{ "do exit 8\n", "only ends with its process" },
		{ "do exit 3\n", "ended with status 3" },
		{ "do abort\n", "killed by signal 6" },
		{ "do alien\ndie 1 0000:05:00.0 0 8000 12000 0\n", "what no sampler says" },
	};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		start(healthy);
		expect_die(0, PN_SRC_OK, 8000 * MIB, 5000);
		script(ends[i].script);
		pn_memwatch_set_die(15, GIB, 2 * GIB, 0);
		expect_log(ends[i].log, 1);
		read_snapshot();
		assert_int_equal(state.per_die_free[0], 8000 * MIB);
		pn_memwatch_stop();
		agent_proc_kill(&agent);
		unlink(agent.socket_path);
		unlink(agent.log_path);
	}
}

/* It has closed its end and stays: the same as one that does not answer. */
static void test_closed(void **unused)
{
	pid_t old;

	start(healthy);
	expect_die(0, PN_SRC_OK, 8000 * MIB, 5000);
	old = sampler_pid();
	script("do closed\n");
	pn_memwatch_set_die(15, GIB, 2 * GIB, 0);
	for (int i = 0; i < 5000 && requests() < 2; i++)
		usleep(1000);
	script("die 1 0000:05:00.0 0 7000 12000 0\n");
	expect_die(0, PN_SRC_OK, 7000 * MIB, 10000);
	assert_int_not_equal(sampler_pid(), old);
	assert_int_equal(kill(old, 0), -1);
	expect_log("does not answer", 1);
	expect_log("samples again", 1);
}

/* What a driver is that cannot be sampled by, in the log and in the doctor's line; no die. */
static void test_no_driver_to_sample_by(void **unused)
{
	static const struct {
		const char *script, *text;
	} cases[] = {
		{ "driver 1 0\n", "a driver, and no GPU that it serves" },
		{ "driver 2 0\n", "no driver, or no libcuda" },
		{ "driver 3 0\n", "libcuda is the toolkit's stub, not a driver" },
		{ "driver 4 0\n", "libcuda and the kernel driver are of different versions" },
		{ "driver 5 0\n", "the driver fails" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pn_hook_status lines[4];

		start(cases[i].script);
		expect_log(cases[i].text, 1);
		read_snapshot();
		assert_int_equal(state.n_dies, 0);
		assert_int_equal(pn_memwatch_dies(lines, 4), 2);
		assert_int_equal(lines[0].state, PN_HOOK_REFUSED);
		assert_non_null(strstr(lines[0].why, cases[i].text));
		assert_int_equal(agent_proc_log_count(&agent, "tried again"), 1);
		pn_memwatch_stop();
		agent_proc_kill(&agent);
		unlink(agent.socket_path);
		unlink(agent.log_path);
	}
}

/* The program goes away while it runs: said once, though its end was said just before. */
static void test_program_disappears(void **unused)
{
	char link[128];

	snprintf(link, sizeof(link), "%s/program", agent.dir);
	assert_int_equal(symlink(getenv("PNMEM_DIES"), link), 0);
	setenv("PNMEM_DIES", link, 1);
	start(healthy);
	expect_die(0, PN_SRC_OK, 8000 * MIB, 5000);
	unlink(link);
	kill(sampler_pid(), SIGKILL);
	expect_log("pnmem-dies cannot be run", 1);
	assert_int_equal(agent_proc_log_count(&agent, "killed by signal 9"), 1);
}

static void test_no_program(void **unused)
{
	setenv("PNMEM_DIES", "/nonexistent", 1);
	start(healthy);
	expect_log("pnmem-dies cannot be run", 1);
	pn_memwatch_poll_now();
	read_snapshot();
	assert_int_equal(state.n_dies, 0);
}

/* What the child is given: its own session, no descriptor but its own, no OOM protection. */
static void test_childs_surroundings(void **unused)
{
	char path[64], text[32] = "";
	int fd, n = 0;
	pid_t pid;

	start(healthy);
	expect_die(0, PN_SRC_OK, 8000 * MIB, 5000);
	pid = sampler_pid();
	assert_int_equal(getsid(pid), pid);
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	assert_true(atoi(text) >= 0);
	for (int i = 4; i < 256; i++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, i);
		n += !access(path, F_OK);
	}
	assert_int_equal(n, 0);
	/* It ends with its agent. */
	agent_proc_kill(&agent);
	for (int i = 0; i < 5000 && !kill(pid, 0); i++)
		usleep(1000);
	assert_int_equal(kill(pid, 0), -1);
}

/* As in gVisor. For good in this process and its children, so this test comes last. */
static bool pidfd_forbid(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) &&
	       syscall(SYS_pidfd_open, getpid(), 0) < 0 && errno == ENOSYS;
}

static void test_without_pidfd(void **unused)
{
	pid_t pid;

	if (!pidfd_forbid())
		skip_because("no seccomp filter can be set");
	start(healthy);
	expect_die(0, PN_SRC_OK, 8000 * MIB, 5000);
	pid = sampler_pid();
	kill(pid, SIGKILL);
	script("die 1 0000:05:00.0 0 7000 12000 0\n");
	expect_die(0, PN_SRC_OK, 7000 * MIB, 5000);
	assert_int_not_equal(sampler_pid(), pid);
	assert_int_equal(kill(pid, 0), -1); /* not even a zombie */
	expect_log("killed by signal 9", 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_hang, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stopped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_killed_again_and_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_garbage, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flood, setup, teardown),
		cmocka_unit_test_setup_teardown(test_error_again_and_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(test_closed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_driver_to_sample_by, setup, teardown),
		cmocka_unit_test_setup_teardown(test_program_disappears, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_program, setup, teardown),
		cmocka_unit_test_setup_teardown(test_childs_surroundings, setup, teardown),
		cmocka_unit_test_setup_teardown(test_without_pidfd, setup, teardown),
	};

	return cmocka_run_group_tests_name("agent_die_faults", tests, NULL, NULL);
}
