/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hostile files and processes beside an engine whose libcuda is to be found: a file system that
 * does not answer, files that are no library, processes whose maps cannot be read or are very long.
 * The agent answers all the while, and the engine's calls are seen.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <cmocka.h>

#include "agent/log.h"
#include "../filter.h"
#include "../skip.h"
#include "support/agent_dies.h"
#include "support/fuse_file.h"
#include "support/made_host.h"

#define LIBRARY      "build/tests/host/fake/libcuda.so.1"
#define HOSTILE_USER 65534
#define HONEST_USER  65533
#define FILE_BYTES   8192

static const char *const args[] = { "--cuda-lib", "/fake/libcuda.so.1", NULL };
static struct fuse_file fuse;
static struct made_host host;
static pid_t children[16];
static int child_count;

static void end_children(void)
{
	while (child_count) {
		kill(children[--child_count], SIGKILL);
		waitpid(children[child_count], NULL, 0);
	}
}

static int end(void **unused)
{
	char command[128];

	fuse_file_unmount(&fuse);
	end_children();
	if (host.dir[0])
		made_host_destroy(&host);
	host.dir[0] = 0;
	snprintf(command, sizeof(command), "rm -rf %s/files", agent.dir);
	if (system(command))
		return -1;
	return teardown(unused);
}

static void start(const char *const arguments[])
{
	pn_hook_status lines[4];
	char path[128];

	if (geteuid())
		skip_because("needs root for uprobes and for other users");
	assert_int_equal(chmod(agent.dir, 0755), 0);
	snprintf(path, sizeof(path), "%s/files", agent.dir);
	assert_int_equal(mkdir(path, 0755), 0);
	script("die 1 0000:05:00.0 0 8000 12000 0\n");
	start_agent(arguments);
	expect_die(0, PN_SRC_OK, 8000 * MIB, 5000);
	assert_true(pn_memwatch_dies(lines, 4) >= 2);
	if (lines[1].state == PN_HOOK_REFUSED)
		skip_because("no uprobes here: %s", lines[1].why);
}

static void mount_fuse(void)
{
	char dir[96];
	int r;

	snprintf(dir, sizeof(dir), "%s/fuse", agent.dir);
	r = fuse_file_mount(&fuse, dir, "libcuda.so.1", HOSTILE_USER);
	if (r)
		skip_because("no FUSE here: %s", strerror(-r));
}

/* ---- processes ------------------------------------------------------------------------------- */

struct process {
	uid_t uid;
	bool attach;
	const char *load;      /* a library */
	const char *map[4];    /* files, as anyone may map them */
	unsigned mappings;     /* so many more */
	volatile unsigned *go; /* attaches once more each time that this has grown */
};

static void make_mappings(unsigned count)
{
	char *block =
		mmap(NULL, (count + 1) * 4096ul, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (block == MAP_FAILED)
		_exit(3);
	for (unsigned i = 1; i < count; i += 2)
		if (mprotect(block + i * 4096ul, 4096, PROT_NONE))
			_exit(4);
}

static _Noreturn void run(const struct process *process, int ready)
{
	unsigned went = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (process->load && !dlopen(process->load, RTLD_NOW))
		_exit(1);
	if (setresgid(process->uid, process->uid, process->uid) ||
	    setresuid(process->uid, process->uid, process->uid))
		_exit(2);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < 4 && process->map[i]; i++) {
		/* Stays open: the file system hears of a close. */
		int fd = open(process->map[i], O_RDONLY | O_CLOEXEC);

		if (mmap(NULL, FILE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
			_exit(3);
	}
	if (process->mappings)
		make_mappings(process->mappings);
	if (process->attach && (pn_memwatch_start() || !test_until(is_attached, NULL, 5000)))
		_exit(4);
	if (write(ready, "", 1) != 1)
		_exit(5);
	for (;;) {
		usleep(1000);
		if (!process->go || *process->go == went)
			continue;
		went++;
		pn_memwatch_stop();
		if (pn_memwatch_start() || !test_until(is_attached, NULL, 5000) ||
		    write(ready, "", 1) != 1)
			_exit(6);
	}
}

/* Returns when it has done what it is to do. *ret_ready, if not NULL, is told each time again. */
static pid_t begin(const struct process *process, int *ret_ready)
{
	int ready[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	fflush(stdout);
	/* The child's connection is its own. */
	pn_memwatch_stop();
	pid = fork();
	if (!pid)
		run(process, ready[1]);
	assert_true(pid > 0);
	children[child_count++] = pid;
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	if (ret_ready)
		*ret_ready = ready[0];
	else
		close(ready[0]);
	assert_int_equal(pn_memwatch_start(), 0);
	assert_true(test_until(is_attached, NULL, 5000));
	return pid;
}

static const struct process engine = { .uid = HONEST_USER, .attach = true, .load = LIBRARY };
/* It does not come to the agent: a round has to find it. */
static const struct process quiet_engine = { .uid = HONEST_USER, .load = LIBRARY };

/* ---- what is expected ------------------------------------------------------------------------ */

static uint64_t worst_ns;

/* Asks the agent, notes how long it took, and looks for this text in its line on libcuda. */
static bool watch_says(void *arg)
{
	pn_hook_status lines[4];
	uint64_t begin_ns = clock_now_ns(), took_ns;
	int n;

	pn_memwatch_poll_now();
	n = pn_memwatch_dies(lines, 4);
	took_ns = clock_now_ns() - begin_ns;
	if (took_ns > worst_ns)
		worst_ns = took_ns;
	for (int i = 0; i < n; i++)
		if (!strcmp(lines[i].subject, "uprobe") && strstr(lines[i].why, arg))
			return true;
	return false;
}

static void expect_line(const char *text, int limit_ms)
{
	pn_hook_status lines[4] = { 0 };

	if (test_until(watch_says, (void *)text, limit_ms))
		return;
	pn_memwatch_dies(lines, 4);
	agent_proc_log_print(&agent);
	fail_msg("not said in %d ms: %s; but: %s", limit_ms, text, lines[1].why);
}

/* The agent answered each time, and did not wait for what hung for seconds or for good. */
static void expect_prompt(void)
{
	print_message("# the agent's longest answer took %llu us\n",
		      (unsigned long long)worst_ns / 1000);
	assert_true(worst_ns < 700 * MS);
	assert_int_equal(pn_memwatch_source(), PN_SOURCE_AGENT);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* The server has stopped when the agent hears of the process that has its file mapped. */
static void test_file_system_does_not_answer(void **unused)
{
	static volatile unsigned *go;
	struct process hostile = { .uid = HOSTILE_USER, .attach = true, .map = { fuse.path } };
	int ready;
	char byte;

	start(args);
	mount_fuse();
	go = mmap(NULL, sizeof(*go), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	hostile.go = go;
	hostile.attach = false;
	begin(&hostile, &ready);
	fuse_file_stop(&fuse);
	worst_ns = 0;
	++*go; /* it comes to the agent now */
	assert_int_equal(read(ready, &byte, 1), 1);
	close(ready);
	expect_line("1 files cannot be probed", 5000);
	begin(&engine, NULL);
	expect_line("1 files in use, 3 probes", 5000);
	/* Not even its opening was told to the file system. */
	assert_int_equal(fuse_file_unanswered(&fuse), 0);
	expect_prompt();
	expect_log("it is not on a file system of this machine", 1);
}

static void make_file(char path[128], unsigned i)
{
	int fd;

	snprintf(path, 128, "%s/files/libcuda.so.%u", agent.dir, i);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
	close(fd);
}

/* More of them than there are places, then one that is a library. */
static void test_files_that_are_no_library(void **unused)
{
	static char path[20][128];

	start(args);
	for (unsigned i = 0; i < 20; i += 4) {
		struct process hostile = { .uid = HOSTILE_USER };

		for (unsigned k = i; k < i + 4; k++) {
			make_file(path[k], k);
			hostile.map[k - i] = path[k];
		}
		begin(&hostile, NULL);
	}
	expect_line("20 files cannot be probed", 30000);
	begin(&quiet_engine, NULL);
	expect_line("1 files in use, 3 probes", 30000);
	expect_log("cannot be probed", LOG_LIMIT_LINES); /* of twenty files */
}

/* A library that is written in the place of one that was none. */
static void test_file_that_changes(void **unused)
{
	static char path[128];
	struct process process = { .uid = HOSTILE_USER, .attach = true, .map = { path } };
	char command[256];

	start(args);
	make_file(path, 1);
	begin(&process, NULL);
	expect_line("0 files in use, 0 probes", 5000);
	expect_line("1 files cannot be probed", 5000);
	snprintf(command, sizeof(command), "cat %s > %s", LIBRARY, path);
	assert_int_equal(system(command), 0);
	expect_line("1 files in use, 3 probes", 60000);
}

/* A device can be mapped too. */
static void test_device(void **unused)
{
	static char path[128];
	struct process process = { .uid = HOSTILE_USER, .attach = true, .map = { path } };

	start(args);
	snprintf(path, sizeof(path), "%s/files/libcuda.so.1", agent.dir);
	if (mknod(path, S_IFCHR | 0666, makedev(1, 5)) || chmod(path, 0666))
		skip_because("no device can be made here: %s", strerror(errno));
	begin(&process, NULL);
	expect_line("1 files cannot be probed", 5000);
	begin(&engine, NULL);
	expect_line("1 files in use, 3 probes", 5000);
}

/* ---- processes ------------------------------------------------------------------------------- */

static uint64_t cpu_ns(pid_t pid)
{
	unsigned long long ns = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%llu", &ns), 1);
	fclose(file);
	return ns;
}

/* What reading them once takes of a CPU. */
static uint64_t read_maps_ns(pid_t pid)
{
	struct timespec from, to;
	char path[64], buf[32768];
	int fd;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (read(fd, buf, sizeof(buf)) > 0)
		;
	close(fd);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	return (uint64_t)(to.tv_sec - from.tv_sec) * S + (uint64_t)(to.tv_nsec - from.tv_nsec);
}

/* Its maps are as long as they can be, and it comes to the agent again and again. */
static void test_many_mappings(void **unused)
{
	struct process hostile = { .uid = HOSTILE_USER, .mappings = 65000 };
	uint64_t before_ns, attach_ns, maps_ns;
	volatile unsigned *go;
	int ready, times = 20;
	pid_t pid;
	char byte;

	start(args);
	go = mmap(NULL, sizeof(*go), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	hostile.go = go;
	pid = begin(&hostile, &ready);
	maps_ns = read_maps_ns(pid);
	before_ns = cpu_ns(agent.pid);
	for (int i = 0; i < times; i++) {
		++*go;
		assert_int_equal(read(ready, &byte, 1), 1);
	}
	attach_ns = (cpu_ns(agent.pid) - before_ns) / (unsigned)times;
	close(ready);
	print_message("# reading the maps takes %llu us; the agent used %llu us for an attach\n",
		      (unsigned long long)maps_ns / 1000, (unsigned long long)attach_ns / 1000);
	assert_true(attach_ns < maps_ns / 4);
	begin(&engine, NULL);
	expect_line("1 files in use, 3 probes", 10000);
}

static void link_process(pid_t pid)
{
	char path[128], target[64];

	snprintf(path, sizeof(path), "%s/%d", host.dir, (int)pid);
	snprintf(target, sizeof(target), "/proc/%d", (int)pid);
	assert_int_equal(symlink(target, path), 0);
}

/* A process whose maps are this file. */
static void made_process(int pid, const char *maps)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%d", host.dir, pid);
	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/%d/status", host.dir, pid);
	file = fopen(path, "we");
	assert_non_null(file);
	fprintf(file, "Name:\tx\nUid:\t%d\t0\t0\t0\n", HOSTILE_USER);
	fclose(file);
	snprintf(path, sizeof(path), "%s/%d/maps", host.dir, pid);
	if (maps)
		assert_int_equal(symlink(maps, path), 0);
	else
		assert_int_equal(mkfifo(path, 0644), 0);
}

/* In a folder like /proc: maps that never come, beside some that are no maps. */
static void test_maps_that_hang(void **unused)
{
	const char *const in_tree[] = { "--cuda-lib", "/fake/libcuda.so.1", "--procfs", host.dir,
					NULL };
	int ready[2];
	pid_t pid;
	char byte;

	if (geteuid())
		skip_because("needs root for uprobes and for other users");
	assert_int_equal(made_host_init(&host), 0);
	assert_int_equal(chmod(host.dir, 0755), 0);
	link_process(getpid());
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (!pid)
		run(&quiet_engine, ready[1]);
	children[child_count++] = pid;
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	mount_fuse();
	made_process(4194301, "/dev/zero");
	made_process(4194302, NULL);
	made_process(4194303, fuse.path);
	fuse_file_stop(&fuse);
	worst_ns = 0;
	start(in_tree);
	expect_line("hung: 1 processes left out, 1 of its own", 20000);
	link_process(pid);
	expect_line("1 files in use, 3 probes", 30000);
	expect_prompt();
	expect_log("took too long", 1);
	assert_true(fuse_file_unanswered(&fuse) >= 1);
	/* The kernel lets go of what hung. */
	fuse_file_unmount(&fuse);
	expect_line("0 of its own", 10000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, end)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_file_system_does_not_answer),
		TEST(test_files_that_are_no_library),
		TEST(test_file_that_changes),
		TEST(test_device),
		TEST(test_many_mappings),
		TEST(test_maps_that_hang),
	};

	filter_from_environment();
	return cmocka_run_group_tests_name("finder", tests, NULL, NULL);
}
