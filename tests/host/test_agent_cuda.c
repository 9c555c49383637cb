/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libcuda calls seen by uprobes: finding the library in processes that attach, that do not, and
 * that live in another mount namespace; calls and ends that lead to passes of the (scripted)
 * sampler.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "../skip.h"
#include "support/agent_dies.h"

#define LIBRARY "build/tests/host/fake/libcuda.so.1"
#define CALLS   20000

static const char *const args[] = { "--cuda-lib", "/fake/libcuda.so.1", NULL };
static pid_t engine;
static int to_engine, from_engine;

static void engine_stop(void)
{
	if (engine <= 0)
		return;
	kill(engine, SIGKILL);
	waitpid(engine, NULL, 0);
	engine = 0;
	close(to_engine);
	close(from_engine);
}

static int end(void **unused)
{
	char path[128];

	engine_stop();
	snprintf(path, sizeof(path), "%s/ns", agent.dir);
	rmdir(path);
	return teardown(unused);
}

/* One die with so much free. */
static void script_free(unsigned free_mib)
{
	char text[64];

	snprintf(text, sizeof(text), "die 1 0000:05:00.0 0 %u 12000 0\n", free_mib);
	script(text);
}

/* ---- an engine ------------------------------------------------------------------------------- */

static void copy_library(const char *to)
{
	char command[512];

	snprintf(command, sizeof(command), "cp %s %s", LIBRARY, to);
	if (system(command))
		_exit(5);
}

/* Its library on a file system that only it sees, and deleted while it is in use. */
static void *load_in_namespace(void)
{
	char dir[128], path[160];
	void *lib;

	snprintf(dir, sizeof(dir), "%s/ns", agent.dir);
	snprintf(path, sizeof(path), "%s/libcuda.so.1", dir);
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", dir, "tmpfs", 0, NULL))
		_exit(77);
	copy_library(path);
	lib = dlopen(path, RTLD_NOW);
	unlink(path);
	return lib;
}

/* c: a call; m: many, answered with what one took; others end it. */
static void engine_run(bool attach, bool namespace, int in, int out)
{
	int (*alloc)(unsigned long long *ret, unsigned long bytes);
	unsigned long long address;
	uint64_t took_ns;
	void *lib;
	char what;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	lib = namespace ? load_in_namespace() : dlopen(LIBRARY, RTLD_NOW);
	if (!lib)
		_exit(1);
	*(void **)&alloc = dlsym(lib, "cuMemAlloc_v2");
	if (!alloc || (attach && pn_memwatch_start()))
		_exit(2);
	took_ns = 0;
	do {
		if (write(out, &took_ns, sizeof(took_ns)) != sizeof(took_ns) ||
		    read(in, &what, 1) != 1)
			_exit(3);
		took_ns = clock_now_ns();
		for (int i = 0; i < (what == 'm' ? CALLS : 1); i++)
			alloc(&address, 1);
		took_ns = clock_now_ns() - took_ns;
	} while (what == 'c' || what == 'm');
	_exit(0);
}

static uint64_t engine_answer(void)
{
	uint64_t took_ns;

	if (read(from_engine, &took_ns, sizeof(took_ns)) != sizeof(took_ns))
		return UINT64_MAX;
	return took_ns;
}

static uint64_t engine_do(char what)
{
	assert_int_equal(write(to_engine, &what, 1), 1);
	return engine_answer();
}

static void engine_start(bool attach, bool namespace)
{
	int in[2], out[2], status;

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	fflush(stdout);
	engine = fork();
	assert_true(engine >= 0);
	if (!engine)
		engine_run(attach, namespace, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	to_engine = in[1];
	from_engine = out[0];
	if (engine_answer() == UINT64_MAX) {
		waitpid(engine, &status, 0);
		engine = 0;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
			skip_because("no mount namespace can be made");
		fail_msg("engine ended with %#x", status);
	}
}

/* ---- what is expected ------------------------------------------------------------------------ */

static void expect_free(unsigned free_mib, int limit_ms)
{
	expect_die(0, PN_SRC_OK, free_mib * MIB, limit_ms);
}

static bool watch_says(void *arg)
{
	pn_hook_status lines[4];
	int n = pn_memwatch_dies(lines, 4);

	for (int i = 0; i < n; i++)
		if (!strcmp(lines[i].subject, "uprobe") && strstr(lines[i].why, arg))
			return true;
	return false;
}

static void start(void)
{
	pn_hook_status lines[4];

	if (geteuid())
		skip_because("needs root for uprobes");
	script_free(8000);
	start_agent(args);
	expect_free(8000, 5000);
	assert_true(pn_memwatch_dies(lines, 4) >= 2);
	if (lines[1].state == PN_HOOK_REFUSED)
		skip_because("no uprobes here: %s", lines[1].why);
}

/*
 * A call that changes what is free, told by it alone: the slow pass comes every 5 s, and one round
 * in ten may meet it by chance. Returns the median time from call to publish.
 */
static uint64_t expect_calls_are_seen(void)
{
	uint64_t took_ns[20], begin_ns;

	for (unsigned i = 0; i < 20; i++) {
		script_free(7000 - i);
		begin_ns = clock_now_ns();
		engine_do('c');
		expect_free(7000 - i, 1000);
		took_ns[i] = clock_now_ns() - begin_ns;
		for (unsigned k = i; k && took_ns[k] < took_ns[k - 1]; k--) {
			begin_ns = took_ns[k];
			took_ns[k] = took_ns[k - 1];
			took_ns[k - 1] = begin_ns;
		}
	}
	return took_ns[10];
}

static void test_engine_that_attaches(void **unused)
{
	uint64_t bare_ns, probed_ns, median_ns;

	engine_start(false, false);
	bare_ns = engine_do('m') / CALLS;
	engine_stop();
	start();
	engine_start(true, false);
	assert_true(
		test_until(watch_says, "1 files in use, 3 probes", 2000)); /* before any round */
	median_ns = expect_calls_are_seen();
	probed_ns = engine_do('m') / CALLS;
	print_message("# call to published: median %llu us; a call: %llu ns bare, %llu ns probed\n",
		      (unsigned long long)median_ns / 1000, (unsigned long long)bare_ns,
		      (unsigned long long)probed_ns);
	assert_true(median_ns < 500 * MS);
}

/* Found by the search; and its calls in a burst, the last of which is in a pass. */
static void test_engine_that_does_not(void **unused)
{
	uint64_t begin_ns, took_ns;
	long before;

	start();
	engine_start(false, false);
	assert_true(test_until(watch_says, "1 files in use, 3 probes", 15000));
	expect_calls_are_seen();
	before = requests();
	begin_ns = clock_now_ns();
	for (int i = 0; i < 10; i++)
		engine_do('m');
	script_free(5000); /* after a burst that nothing but its last pass may see */
	engine_do('m');
	expect_free(5000, 1000);
	took_ns = clock_now_ns() - begin_ns;
	assert_true(requests() - before >= 1);
	assert_true(requests() - before <= (long)(took_ns / (2 * MS)) + 3);
	/* Quiet again: no pass without a call but the slow one. */
	usleep(50000);
	before = requests();
	usleep(500000);
	assert_true(requests() - before <= 1);
}

static void test_end_of_a_process(void **unused)
{
	long before;

	start();
	engine_start(true, false);
	assert_true(test_until(watch_says, "1 files in use, 3 probes", 2000));
	usleep(50000);
	before = requests();
	script_free(9000);
	engine_stop();
	expect_free(9000, 1000);
	/* What it frees later is seen too. */
	script_free(9500);
	expect_free(9500, 2000);
	usleep(1000000);
	assert_true(requests() - before >= 4);
	assert_true(requests() - before <= 20);
}

/* Another inode, which no path of ours reaches; probed in use and let go of when unused. */
static void test_another_namespace(void **unused)
{
	char dir[128];

	snprintf(dir, sizeof(dir), "%s/ns", agent.dir);
	assert_int_equal(mkdir(dir, 0700), 0);
	start();
	engine_start(false, true);
	assert_true(test_until(watch_says, "1 files in use, 3 probes", 15000));
	expect_calls_are_seen();
	engine_stop();
	assert_true(test_until(watch_says, "0 files in use, 0 probes", 30000));
	/* The next one is found again. */
	engine_start(true, false);
	assert_true(test_until(watch_says, "1 files in use, 3 probes", 2000));
	expect_calls_are_seen();
}

/* A file of that name that is no library, as anyone may map it. */
static void test_not_a_library(void **unused)
{
	char path[128];
	pid_t pid;
	int fd;

	start();
	snprintf(path, sizeof(path), "%s/libcuda.so.99", agent.dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0700);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 8192), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED ||
		    pn_memwatch_start())
			_exit(1);
		for (;;)
			pause();
	}
	close(fd);
	assert_true(test_until(watch_says, "1 files cannot be probed", 5000));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(path);
	assert_int_equal(agent_proc_log_count(&agent, "cannot be probed"), 1);
}

/* Probes take the kernel long to take away; the agent's end is not to take as long. */
static void test_end_of_the_agent(void **unused)
{
	uint64_t begin_ns;

	start();
	engine_start(true, false);
	assert_true(test_until(watch_says, "1 files in use, 3 probes", 2000));
	begin_ns = clock_now_ns();
	agent_proc_signal(&agent, SIGTERM);
	assert_int_equal(agent_proc_wait(&agent), 0);
	print_message("# the agent's end took %llu ms\n",
		      (unsigned long long)((clock_now_ns() - begin_ns) / MS));
	engine_do('c'); /* unprobed, it runs on */
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_engine_that_attaches, setup, end),
		cmocka_unit_test_setup_teardown(test_engine_that_does_not, setup, end),
		cmocka_unit_test_setup_teardown(test_end_of_a_process, setup, end),
		cmocka_unit_test_setup_teardown(test_another_namespace, setup, end),
		cmocka_unit_test_setup_teardown(test_not_a_library, setup, end),
		cmocka_unit_test_setup_teardown(test_end_of_the_agent, setup, end),
	};

	return cmocka_run_group_tests_name("agent_cuda", tests, NULL, NULL);
}
