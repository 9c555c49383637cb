/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the agent, its launcher, its finder and its sampler may still do while the agent serves: the
 * lists of pnmemd(8), as the kernel shows them, what is refused, and that everything still works.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../cuda/fake_cuda.h"
#include "../filter.h"
#include "../skip.h"
#include "agent/filter.h"
#include "agent/privileges.h"
#include "host/clock.h"
#include "support/agent_proc.h"
#include "pn_memwatch.h"

#define BIT(cap) (1ull << (cap))
#define LIBRARY  "build/tests/host/fake/libcuda.so.1"
#define STAND_IN "build/tests/libcuda.so.1"
#define NOBODY   65534
#define MIB      (1ull << 20)
#define MS       1000000ull

/* The lists of pnmemd(8): the agent's, and the finder's. */
#define ALWAYS      (BIT(CAP_IPC_LOCK) | BIT(CAP_SYS_RESOURCE))
#define FOR_BPF     BIT(39)
#define FOR_LIBCUDA (BIT(38) | BIT(40) | BIT(CAP_SYS_PTRACE) | BIT(CAP_DAC_READ_SEARCH))

static struct agent_proc agent;
static char script_path[96];

static int setup(void **state)
{
	char fake[4096];

	if (agent_proc_init(&agent) || chmod(agent.dir, 0755))
		return -1;
	snprintf(script_path, sizeof(script_path), "%s/dies", agent.dir);
	setenv("FAKE_DIES", script_path, 1);
	if (realpath("build/tests/host/fake_dies", fake)) /* not in the kernel matrix */
		setenv("PNMEM_DIES", fake, 1);
	return 0;
}

static int teardown(void **state)
{
	static const char *const suffixes[] = { "", ".new", ".pid", ".log" };
	char path[128];

	unsetenv("PN_DIE_SOURCE");
	pn_memwatch_stop();
	agent_proc_kill(&agent);
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", script_path, suffixes[i]);
		unlink(path);
	}
	agent_proc_destroy(&agent);
	return 0;
}

/* ---- what the kernel shows ------------------------------------------------------------------- */

/* A line of /proc/PID/status, as a number of this base. */
static uint64_t status_of(pid_t pid, const char *name, int base)
{
	char path[64], line[256];
	uint64_t value = UINT64_MAX;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
			value = strtoull(line + strlen(name) + 1, NULL, base);
	if (file)
		fclose(file);
	return value;
}

static pid_t child_named(pid_t parent, const char *name)
{
	char path[64], line[256];
	int pid, found = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
	file = fopen(path, "re");
	while (file && !found && fscanf(file, "%d", &pid) == 1) {
		FILE *comm;

		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		comm = fopen(path, "re");
		if (comm && fgets(line, sizeof(line), comm) && !strncmp(line, name, strlen(name)))
			found = pid;
		if (comm)
			fclose(comm);
	}
	if (file)
		fclose(file);
	return found;
}

/* This program; the agent may be another build, and then says so. */
static bool has_filter(void)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		_exit(filter_agent(true) == -EOPNOTSUPP);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return !status;
}

static bool agent_has_filter(void)
{
	return !agent_proc_log_count(&agent, "privileges: no system call filter");
}

static void expect_locked_in(pid_t pid, uint64_t effective)
{
	assert_int_equal(status_of(pid, "CapEff", 16), effective);
	assert_int_equal(status_of(pid, "CapInh", 16), 0);
	assert_int_equal(status_of(pid, "CapAmb", 16), 0);
	assert_int_equal(status_of(pid, "CapBnd", 16), 0);
	assert_int_equal(status_of(pid, "NoNewPrivs", 10), 1);
	assert_int_equal(status_of(pid, "Seccomp", 10), agent_has_filter() ? 2 : 0);
	assert_int_equal(status_of(pid, "Umask", 8), 0077);
}

static void expect_serving(void)
{
	pn_mem_state state;

	assert_int_equal(pn_memwatch_start(), 0);
	pn_memwatch_poll_now();
	assert_int_equal(pn_memwatch_read(&state), 0);
	assert_int_equal(pn_memwatch_source(), PN_SOURCE_AGENT);
}

static void test_what_is_kept(void **unused)
{
	static const struct {
		const char *const args[3];
		const char *die_source;
		uint64_t kept;
		bool has_finder;
	} cases[] = {
		{ { NULL }, "auto", ALWAYS | FOR_BPF, true },
		{ { "--stall-hook", "trigger" }, "auto", ALWAYS | FOR_BPF, true },
		{ { NULL }, "push", ALWAYS | FOR_BPF, false },
		{ { "--no-bpf" }, "auto", ALWAYS, false },
		{ { "--no-bpf" }, "off", ALWAYS, false },
	};
	uint64_t mine = status_of(getpid(), "CapPrm", 16);

	if (geteuid())
		skip_because("needs root: who has no capabilities keeps none");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		setenv("PN_DIE_SOURCE", cases[i].die_source, 1);
		assert_int_equal(agent_proc_start(&agent, cases[i].args), 0);
		expect_locked_in(agent.pid, cases[i].kept & mine);
		assert_int_equal(status_of(agent.pid, "CapPrm", 16), cases[i].kept & mine);
		assert_int_equal(child_named(agent.pid, "pnmemd-find") > 0, cases[i].has_finder);
		expect_serving();
		pn_memwatch_stop();
		agent_proc_signal(&agent, SIGTERM);
		assert_int_equal(agent_proc_wait(&agent), 0);
	}
	assert_int_equal(agent_proc_log_count(&agent, "privileges:"),
			 agent_has_filter() ? 0 : (int)(sizeof(cases) / sizeof(cases[0])));
}

/* ---- the finder ------------------------------------------------------------------------------ */

static bool in_log(void *arg)
{
	return agent_proc_log_count(&agent, arg) > 0;
}

static void script(unsigned free_mib);
static void expect_free(unsigned free_mib, int limit_ms);
static void start_with_sampler(void);

/* It has what finding and probing libcuda takes, for its children to use; none is effective. */
static void test_finder_keeps_little(void **unused)
{
	uint64_t mine = status_of(getpid(), "CapPrm", 16), permitted;
	pid_t finder;

	if (geteuid())
		skip_because("needs root: who has no capabilities keeps none");
	start_with_sampler();
	finder = child_named(agent.pid, "pnmemd-find");
	assert_true(finder > 0);
	expect_locked_in(finder, 0);
	permitted = status_of(finder, "CapPrm", 16) & ~BIT(CAP_SYS_ADMIN);
	assert_int_equal(permitted, FOR_LIBCUDA & mine);
	/* What the terminal sends to all of them is not for it. */
	kill(finder, SIGINT);
	kill(finder, SIGHUP);
	expect_serving();
	assert_int_equal(child_named(agent.pid, "pnmemd-find"), finder);
}

static bool calls_are_not_seen(void *arg)
{
	pn_hook_status lines[4];

	return pn_memwatch_dies(lines, 4) >= 2 && lines[1].state == PN_HOOK_REFUSED &&
	       strstr(lines[1].why, "restart pnmemd");
}

/* The agent says once that calls are not seen any more, and the slow pass goes on. */
static void test_finder_is_killed(void **unused)
{
	if (geteuid())
		skip_because("needs root for uprobes");
	start_with_sampler();
	kill(child_named(agent.pid, "pnmemd-find"), SIGKILL);
	assert_true(test_until(in_log, "calls are not seen any more", 5000));
	assert_true(test_until(calls_are_not_seen, NULL, 5000));
	assert_int_equal(child_named(agent.pid, "pnmemd-find"), 0); /* not even a zombie */
	script(7000);
	expect_free(7000, 8000);
	assert_int_equal(agent_proc_log_count(&agent, "restart"), 1);
	pn_memwatch_stop();
	agent_proc_signal(&agent, SIGTERM);
	assert_int_equal(agent_proc_wait(&agent), 0);
}

/* ---- the sampler ----------------------------------------------------------------------------- */

/* Written aside, so that no half of it is ever read. */
static void script(unsigned free_mib)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s.new", script_path);
	file = fopen(path, "we");
	assert_non_null(file);
	fprintf(file, "die 1 0000:05:00.0 0 %u 12000 0\n", free_mib);
	fclose(file);
	assert_int_equal(rename(path, script_path), 0);
}

static uint64_t wanted_free_bytes;

static bool die_has_it(void *arg)
{
	pn_mem_state state;

	return !pn_memwatch_read(&state) && state.n_dies == 1 &&
	       state.per_die_free[0] == wanted_free_bytes;
}

static void expect_free(unsigned free_mib, int limit_ms)
{
	wanted_free_bytes = free_mib * MIB;
	assert_true(test_until(die_has_it, NULL, limit_ms));
}

static void start_with_sampler(void)
{
	static const char *const args[] = { "--cuda-lib", "/fake/libcuda.so.1", NULL };

	script(8000);
	assert_int_equal(agent_proc_start(&agent, args), 0);
	expect_serving();
	expect_free(8000, 5000);
}

static void test_sampler_has_nothing(void **unused)
{
	pid_t sampler, launcher;

	start_with_sampler();
	sampler = child_named(agent.pid, "fake_dies");
	launcher = child_named(agent.pid, "pnmemd-launch");
	assert_true(sampler > 0 && launcher > 0);
	if (geteuid())
		skip_because("needs root: who has no capabilities keeps none");
	expect_locked_in(sampler, 0);
	assert_int_equal(status_of(sampler, "CapPrm", 16), 0);
	expect_locked_in(launcher, 0);
	assert_int_equal(status_of(launcher, "CapPrm", 16), 0);
	/* What the terminal sends to all of them is not for it. */
	kill(launcher, SIGINT);
	kill(launcher, SIGHUP);
	kill(sampler, SIGKILL);
	script(7000);
	expect_free(7000, 10000);
	assert_int_equal(child_named(agent.pid, "pnmemd-launch"), launcher);
}

static bool context_is_measured(void *arg)
{
	pn_hook_status lines[4];

	return pn_memwatch_dies(lines, 4) == 3 && strstr(lines[2].why, "own context of 74 MiB");
}

/* The real one, with the stand-in for libcuda: it samples, and starts its holder of a context. */
static void test_real_sampler(void **unused)
{
	const char *args[] = { "--cuda-lib", STAND_IN, NULL };
	struct fake_cuda *fake = fake_cuda_create(script_path, 1);
	char real[4096];

	assert_non_null(fake);
	assert_non_null(realpath("build/pnmem-dies", real));
	setenv("PNMEM_DIES", real, 1);
	setenv(FAKE_CUDA_ENV, script_path, 1);
	assert_int_equal(agent_proc_start(&agent, args), 0);
	expect_serving();
	assert_true(test_until(context_is_measured, NULL, 10000));
	if (!geteuid())
		expect_locked_in(child_named(agent.pid, "pnmem-dies"), 0);
	unsetenv(FAKE_CUDA_ENV);
	fake_cuda_close(fake);
}

static bool needs_restart(void *arg)
{
	pn_hook_status line;

	return pn_memwatch_dies(&line, 1) == 1 && line.state == PN_HOOK_REFUSED &&
	       strstr(line.why, "the process that starts it has ended: restart pnmemd");
}

/* Without the launcher there is no next sampler, which is said at once; all else goes on. */
static void test_launcher_is_killed(void **unused)
{
	start_with_sampler();
	kill(child_named(agent.pid, "pnmemd-launch"), SIGKILL);
	assert_true(test_until(in_log, "no other can be started; restart pnmemd", 5000));
	assert_int_equal(child_named(agent.pid, "pnmemd-launch"), 0); /* not even a zombie */
	script(7000);
	expect_free(7000, 8000); /* the sampler that there is goes on */
	kill(child_named(agent.pid, "fake_dies"), SIGKILL);
	assert_true(test_until(in_log, "killed by signal 9; dies turn stale, until pnmemd", 5000));
	assert_true(test_until(needs_restart, NULL, 5000));
	expect_serving();
	assert_int_equal(agent_proc_log_count(&agent, "restart"), 2);
	pn_memwatch_stop();
	agent_proc_signal(&agent, SIGTERM);
	assert_int_equal(agent_proc_wait(&agent), 0);
}

/* Its answer is waited for beside everything else: looks are as prompt as ever. */
static void test_launcher_is_stopped(void **unused)
{
	uint64_t begin_ns, before_ns, worst_ns = 0;
	pid_t launcher;

	start_with_sampler();
	launcher = child_named(agent.pid, "pnmemd-launch");
	kill(launcher, SIGSTOP);
	kill(child_named(agent.pid, "fake_dies"), SIGKILL);
	script(7000);
	begin_ns = clock_now_ns();
	while (clock_now_ns() - begin_ns < 4000 * MS) {
		before_ns = clock_now_ns();
		expect_serving();
		if (clock_now_ns() - before_ns > worst_ns)
			worst_ns = clock_now_ns() - before_ns;
		usleep(1000);
	}
	print_message("# worst look with a stopped launcher: %llu us\n",
		      (unsigned long long)worst_ns / 1000);
	assert_true(worst_ns < 700 * MS); /* it used to wait for a second */
	assert_int_equal(agent_proc_log_count(&agent, "that starts it does not answer"), 1);
	kill(launcher, SIGCONT);
	expect_free(7000, 5000);
	assert_true(test_until(in_log, "samples again", 5000));
	assert_int_equal(agent_proc_log_count(&agent, "does not answer"), 1);
}

static int oom_score_adj(pid_t pid)
{
	char path[64], text[32];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", pid);
	file = fopen(path, "re");
	assert_true(file && fgets(text, sizeof(text), file));
	fclose(file);
	return atoi(text);
}

/* It is needed when memory is short. What it starts is not protected. */
static void test_launcher_stays_in_memory(void **unused)
{
	pid_t launcher, sampler;

	if (geteuid())
		skip_because("needs root to lock memory whatever the limit");
	start_with_sampler();
	launcher = child_named(agent.pid, "pnmemd-launch");
	sampler = child_named(agent.pid, "fake_dies");
	assert_true(status_of(launcher, "VmLck", 10) >= status_of(launcher, "VmRSS", 10) / 2);
	assert_int_equal(status_of(sampler, "VmLck", 10), 0);
	/* As low as the agent could go. */
	assert_int_equal(oom_score_adj(launcher), oom_score_adj(agent.pid));
	assert_int_equal(oom_score_adj(sampler), 0);
}

/*
 * No driver: one may be loaded later, so that the launcher and the finder wait; no sampler. Where
 * dies are not to be sampled there is neither.
 */
static void test_without_a_driver(void **unused)
{
	static const char *const args[] = { NULL };
	uint64_t mine = status_of(getpid(), "CapPrm", 16);

	if (!access("/proc/driver/nvidia/version", F_OK) || !access("/dev/dxg", F_OK))
		skip_because("there is a GPU driver here");
	for (int sampled = 0; sampled < 2; sampled++) {
		setenv("PN_DIE_SOURCE", sampled ? "auto" : "push", 1);
		assert_int_equal(agent_proc_start(&agent, args), 0);
		expect_serving();
		assert_int_equal(child_named(agent.pid, "pnmemd-launch") > 0, sampled);
		assert_int_equal(child_named(agent.pid, "pnmemd-find") > 0, sampled);
		assert_int_equal(child_named(agent.pid, "pnmem-dies"), 0);
		assert_int_equal(child_named(agent.pid, "fake_dies"), 0);
		if (!geteuid())
			assert_int_equal(status_of(agent.pid, "CapEff", 16),
					 (ALWAYS | FOR_BPF) & mine);
		pn_memwatch_stop();
		agent_proc_signal(&agent, SIGTERM);
		assert_int_equal(agent_proc_wait(&agent), 0);
	}
}

/* Nothing of a background agent holds the pipe of whoever started it. */
static void test_background_lets_go(void **unused)
{
	char command[256], line[256];
	pn_agent_info info;
	FILE *out;

	snprintf(command, sizeof(command), "build/pnmemd --no-bpf --socket %s 2>&1",
		 agent.socket_path);
	out = popen(command, "r");
	assert_non_null(out);
	alarm(20); /* where it is held, reading never ends */
	while (fgets(line, sizeof(line), out))
		;
	alarm(0);
	assert_int_equal(pclose(out), 0);
	expect_serving();
	assert_int_equal(pn_memwatch_agent(&info), 0);
	pn_memwatch_stop();
	kill((pid_t)info.pid, SIGTERM);
}

/* ---- another user's engine ------------------------------------------------------------------- */

static void become_nobody(void)
{
	if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
		_exit(2);
}

/* Attaches; then calls libcuda whenever it is told to. */
static void engine_run(int in, int out)
{
	int (*alloc)(unsigned long long *ret, unsigned long bytes);
	void *lib = dlopen(LIBRARY, RTLD_NOW);
	unsigned long long address;
	char what = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!lib)
		_exit(1);
	*(void **)&alloc = dlsym(lib, "cuMemAlloc_v2");
	become_nobody();
	if (pn_memwatch_start())
		_exit(3);
	what = pn_memwatch_source() == PN_SOURCE_AGENT ? '+' : '-';
	while (write(out, &what, 1) == 1 && read(in, &what, 1) == 1)
		alloc(&address, 1);
	_exit(0);
}

static bool probed(void *arg)
{
	pn_hook_status lines[4];
	unsigned files, probes;

	return pn_memwatch_dies(lines, 4) >= 2 &&
	       sscanf(lines[1].why, "%u files in use, %u probes", &files, &probes) == 2 &&
	       probes >= 3;
}

/* Its view is made, its maps are read, and its libcuda is probed, now that the agent and the finder
 * have dropped what they could. */
static void test_engine_of_another_user(void **unused)
{
	int to[2], from[2];
	char said = 0;
	pid_t pid;

	if (geteuid())
		skip_because("needs root for hooks and for another user");
	start_with_sampler();
	assert_int_equal(pipe(to), 0);
	assert_int_equal(pipe(from), 0);
	pn_memwatch_stop();
	pid = fork();
	if (!pid)
		engine_run(to[0], from[1]);
	close(to[0]);
	close(from[1]);
	assert_int_equal(read(from[0], &said, 1), 1);
	assert_int_equal(said, '+');
	expect_serving();
	assert_true(test_until(probed, NULL, 15000));
	usleep(50000); /* the passes that the search itself leads to are over */
	script(6000);
	assert_int_equal(write(to[1], "c", 1), 1);
	expect_free(6000, 1000); /* the slow pass would take up to 5 s */
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(to[1]);
	close(from[0]);
	assert_int_equal(agent_proc_log_count(&agent, "cannot be probed"), 0);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void *thread_run(void *arg)
{
	*(int *)arg = 1;
	return NULL;
}

static bool threads_work(void)
{
	pthread_t thread;
	int ran = 0;

	return !pthread_create(&thread, NULL, thread_run, &ran) && !pthread_join(thread, NULL) &&
	       ran;
}

static bool memory_works(int prot)
{
	return mmap(NULL, 65536, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}

static bool refused(long result)
{
	return result == -1 && errno == EPERM;
}

/* Each bit is a promise not kept. */
static int try_all(bool bpf)
{
	static const char *const no_args[] = { "/bin/true", NULL };
	int broken = 0;

	broken |= !threads_work() << 0;
	broken |= !memory_works(PROT_READ | PROT_WRITE) << 1;
	broken |= memory_works(PROT_READ | PROT_EXEC) << 2;
	broken |= !refused(fork()) << 3;
	broken |= !refused(execv("/bin/true", (char *const *)no_args)) << 4;
	broken |= !refused(socket(AF_INET, SOCK_STREAM, 0)) << 5;
	broken |= (socket(AF_UNIX, SOCK_STREAM, 0) < 0) << 6;
	broken |= (refused(syscall(SYS_bpf, -1, NULL, 0)) != !bpf) << 7;
	broken |= !refused(syscall(SYS_perf_event_open, NULL, 0, 0, -1, 0)) << 8;
	broken |= !refused(syscall(SYS_capset, NULL, NULL)) << 9;
	return broken;
}

static int try_more(void)
{
	int broken = 0;

	broken |= !refused(ptrace(PTRACE_TRACEME, 0, NULL, NULL)) << 0;
	broken |= !refused(mount("none", "/mnt", "tmpfs", 0, NULL)) << 1;
	broken |= !refused(unshare(CLONE_FS)) << 2;
	broken |= !refused(syscall(SYS_init_module, NULL, 0, "")) << 3;
	broken |= !refused(syscall(SYS_setuid, 0)) << 4;
	broken |= !refused(syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0)) << 5;
	broken |= !refused(syscall(SYS_keyctl, 0, 0, 0, 0, 0)) << 6;
	return broken;
}

static int status_of_child(pid_t pid)
{
	int status = 0;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static void test_what_is_refused(void **unused)
{
	if (!has_filter())
		skip_because("built without a system call filter");
	for (int bpf = 0; bpf < 2; bpf++) {
		pid_t pid = fork();

		if (!pid) {
			privileges_drop(bpf);
			_exit(!!try_all(bpf));
		}
		assert_int_equal(status_of_child(pid), 0);
		pid = fork();
		if (!pid) {
			privileges_drop(bpf);
			_exit(try_more());
		}
		assert_int_equal(status_of_child(pid), 0);
	}
}

/* A child of the finder reads and probes, and writes nothing; its parser does not even open. */
static void test_finder_may_only_read(void **unused)
{
	pid_t pid;

	if (!has_filter())
		skip_because("built without a system call filter");
	pid = fork();
	if (!pid) {
		privileges_drop_to_finder();
		if (try_more() || !refused(open("/dev/null", O_WRONLY)) ||
		    !refused(open("/tmp/pnmem-none", O_RDONLY | O_CREAT, 0600)) ||
		    !refused(socket(AF_UNIX, SOCK_STREAM, 0)) || !refused(unlink("/none")) ||
		    !refused(execv("/bin/true", (char *const[]){ "true", NULL })) ||
		    !refused(syscall(SYS_bpf, -1, NULL, 0)) || memory_works(PROT_READ | PROT_EXEC))
			_exit(3);
		if (open("/dev/null", O_RDONLY) < 0 || privileges_step(PRIVILEGES_NONE))
			_exit(4);
		if (!privileges_step(PRIVILEGES_READ) && status_of(getpid(), "CapPrm", 16))
			_exit(5);
		if (filter_parser() || !refused(open("/dev/null", O_RDONLY)) || !refused(fork()) ||
		    !memory_works(PROT_READ | PROT_WRITE))
			_exit(6);
		_exit(0);
	}
	assert_int_equal(status_of_child(pid), 0);
}

/* A root program that the sampler starts has no capabilities either. */
static void test_sampler_may_start_programs(void **unused)
{
	pid_t pid;

	if (!has_filter())
		skip_because("built without a system call filter");
	pid = fork();
	if (!pid) {
		privileges_drop_all();
		if (try_more() & ~(1 << 4) || !refused(socket(AF_INET, SOCK_STREAM, 0)) ||
		    !refused(syscall(SYS_bpf, -1, NULL, 0)) || !threads_work() ||
		    !memory_works(PROT_READ | PROT_EXEC))
			_exit(3);
		_exit(system("grep -q '^CapEff:.0000000000000000$' /proc/self/status") ? 4 : 0);
	}
	assert_int_equal(status_of_child(pid), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_what_is_kept),
		TEST(test_finder_keeps_little),
		TEST(test_finder_is_killed),
		TEST(test_sampler_has_nothing),
		TEST(test_real_sampler),
		TEST(test_launcher_is_killed),
		TEST(test_launcher_is_stopped),
		TEST(test_launcher_stays_in_memory),
		TEST(test_without_a_driver),
		TEST(test_background_lets_go),
		TEST(test_engine_of_another_user),
		cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_finder_may_only_read),
		cmocka_unit_test(test_sampler_may_start_programs),
	};

	filter_from_environment();
	return cmocka_run_group_tests_name("privileges", tests, NULL, NULL);
}
