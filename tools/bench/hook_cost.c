/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the attached hooks cost those who run into them: context switches, page faults and reclaim
 * against a cgroup's limit, each as a tight loop that does nothing else, so that the ratio is the
 * worst that a program could see. With the agent attached and without one, in turns. Measured as
 * CPU time of the process that does it, in which the hooks run: others on the machine disturb
 * that less than wall time.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "host/clock.h"
#include "support/pressure.h"

/* No round begins after it: on a busy machine one takes four times as long as on a quiet one. */
#define LIMIT_S      60
#define SWITCHES     40000
#define FAULT_BYTES  (64 * MIB)
#define FAULT_PASSES 4
#define GROUP_BYTES  (40 * MIB)
/* Sparse, so that its pages come from nowhere: the loop is reclaim, not the disk. */
#define RECLAIM_BYTES  (200 * MIB)
#define RECLAIM_PASSES 4

static double process_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* ---- context switches: two threads on one CPU hand a token to and fro ------------------------ */

struct ping_pong {
	int ping_fd;
	int pong_fd;
};

static void *pong_main(void *arg)
{
	const struct ping_pong *p = arg;
	uint64_t token;

	while (read(p->ping_fd, &token, sizeof(token)) == sizeof(token) && token == 1)
		if (write(p->pong_fd, &token, sizeof(token)) < 0)
			break;
	return NULL;
}

static double switch_ns(const void *unused)
{
	struct ping_pong p = { eventfd(0, EFD_CLOEXEC), eventfd(0, EFD_CLOEXEC) };
	const uint64_t end = 2;
	uint64_t token = 1;
	pthread_t thread;
	cpu_set_t cpus;
	double start_ns, ns;

	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) ||
	    pthread_create(&thread, NULL, pong_main, &p))
		return -1;
	start_ns = process_cpu_ns();
	for (int i = 0; i < SWITCHES / 2; i++)
		if (write(p.ping_fd, &token, sizeof(token)) < 0 ||
		    read(p.pong_fd, &token, sizeof(token)) < 0)
			return -1;
	ns = (process_cpu_ns() - start_ns) / SWITCHES;
	if (write(p.ping_fd, &end, sizeof(end)) < 0)
		return -1;
	pthread_join(thread, NULL);
	return ns;
}

/* ---- page faults: first touch of small pages ------------------------------------------------- */

static double fault_ns(const void *unused)
{
	double start_ns = process_cpu_ns();

	for (int pass = 0; pass < FAULT_PASSES; pass++) {
		volatile char *bytes = mmap(NULL, FAULT_BYTES, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (bytes == MAP_FAILED)
			return -1;
		madvise((void *)bytes, FAULT_BYTES, MADV_NOHUGEPAGE);
		for (size_t i = 0; i < FAULT_BYTES; i += 4096)
			bytes[i] = 1;
		munmap((void *)bytes, FAULT_BYTES);
	}
	return (process_cpu_ns() - start_ns) / (double)(FAULT_PASSES * (FAULT_BYTES / 4096));
}

/* ---- reclaim: every page read pushes another one out ----------------------------------------- */

static int sparse_file(void)
{
	const char *dir = getenv("TMPDIR");
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/pnmem-bench-XXXXXX", dir ? dir : "/var/tmp");
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -1;
	unlink(path);
	if (ftruncate(fd, RECLAIM_BYTES)) {
		close(fd);
		return -1;
	}
	return fd;
}

static int read_through(int fd, size_t bytes)
{
	static char block[128 * 1024];

	for (size_t at = 0; at < bytes; at += sizeof(block))
		if (pread(fd, block, sizeof(block), (off_t)at) != (ssize_t)sizeof(block))
			return -EIO;
	return 0;
}

static double reclaim_ns(const void *arg)
{
	int fd = sparse_file();
	double start_ns;

	if (fd < 0 || pressure_group_join(arg) || read_through(fd, RECLAIM_BYTES))
		return -1;
	start_ns = process_cpu_ns();
	for (int pass = 0; pass < RECLAIM_PASSES; pass++)
		if (read_through(fd, RECLAIM_BYTES))
			return -1;
	return (process_cpu_ns() - start_ns) / (double)(RECLAIM_PASSES * (RECLAIM_BYTES / 4096));
}

/* ---- the rounds ------------------------------------------------------------------------------ */

static const struct load {
	const char *name;
	double (*run)(const void *arg); /* CPU ns per switch, fault or page; -1: could not run */
} load_table[] = {
	{ "hooks: a context switch", switch_ns },
	{ "hooks: a page fault", fault_ns },
	{ "hooks: a page read by reclaim", reclaim_ns },
};

#define LOAD_COUNT (sizeof(load_table) / sizeof(load_table[0]))

struct costs {
	struct samples with, without;
};

/* Where and how it went wrong, for a row that says so. */
struct failure {
	const char *what;
	int err;    /* -errno; 0: none */
	int signal; /* that ended the process; 0: none */
};

static bool fail(struct failure *failure, const char *what, int err)
{
	failure->what = what;
	failure->err = err;
	return false;
}

/* In a child, which a limit and an affinity end with. */
static bool load_run(const struct load *load, const struct pressure_group *group,
		     _Atomic double *result, struct samples *ret, struct failure *failure)
{
	int status = 0;
	pid_t pid;

	*result = -1;
	pid = fork();
	if (pid < 0)
		return fail(failure, load->name, -errno);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		*result = load->run(group);
		_exit(errno);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (*result < 0) {
		failure->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
		return fail(failure, load->name, -WEXITSTATUS(status));
	}
	samples_add(ret, *result);
	return true;
}

int hook_cost_reclaim(const struct pressure_group *group, _Atomic double *result,
		      struct samples *ret)
{
	struct failure failure = { 0 };

	if (load_run(&load_table[LOAD_COUNT - 1], group, result, ret, &failure))
		return 0;
	return failure.err ? failure.err : -EIO;
}

static bool loads_run(struct costs costs[LOAD_COUNT], bool with, int repeats,
		      const struct pressure_group *group, _Atomic double *result,
		      struct failure *failure)
{
	for (int i = 0; i < repeats; i++)
		for (size_t j = 0; j < LOAD_COUNT; j++)
			if (bench_stopped() ||
			    !load_run(&load_table[j], group, result,
				      with ? &costs[j].with : &costs[j].without, failure))
				return false;
	return true;
}

/* False: no more rounds, because this one failed or the bench was stopped. */
static bool one_round(struct costs costs[LOAD_COUNT], int repeats,
		      const struct pressure_group *group, _Atomic double *result,
		      struct failure *failure)
{
	bool good = loads_run(costs, false, repeats, group, result, failure);
	struct agent_proc agent;
	int r;

	if (!good)
		return false;
	r = agent_proc_init(&agent);
	if (r)
		return fail(failure, "the agent's folder", r);
	r = agent_proc_start(&agent, NULL);
	if (!r) {
		good = loads_run(costs, true, repeats, group, result, failure);
		/* Its end detaches the hooks, so it is waited for before the next round. */
		agent_proc_signal(&agent, SIGTERM);
		agent_proc_wait(&agent);
	}
	agent_proc_destroy(&agent);
	return r ? fail(failure, "the agent's start", r) : good;
}

/* Whatever ended the rounds, those that were whole are worth their rows. */
static void add_rows(struct bench *bench, const struct costs costs[LOAD_COUNT],
		     const struct failure *failure)
{
	for (size_t j = 0; j < LOAD_COUNT; j++)
		if (costs[j].with.count)
			rows_add_samples(&bench->rows, load_table[j].name, "ns", &costs[j].with,
					 "without agent", &costs[j].without, GOAL_NONE, 0);
	if (failure->signal)
		rows_add_failed(&bench->rows, "hooks: a round failed", "%s: killed by signal %d",
				failure->what, failure->signal);
	else if (failure->what)
		rows_add_failed(&bench->rows, "hooks: a round failed", "%s: %s", failure->what,
				bench_why(failure->err));
}

void hook_cost_bench(struct bench *bench)
{
	static struct costs costs[LOAD_COUNT];
	int rounds = bench->quick ? 1 : 9, repeats = bench->quick ? 1 : 5;
	_Atomic double *result = bench_shared(sizeof(*result));
	uint64_t end_ns = clock_now_ns() + LIMIT_S * NS_PER_S;
	struct failure failure = { 0 };
	struct pressure_group group;
	int r = geteuid() ? -EPERM : !result ? -ENOMEM : pressure_group_create(&group, GROUP_BYTES);

	if (r) {
		rows_add_failed(&bench->rows, "hooks", "no cgroup or no hooks: %s", bench_why(r));
		return;
	}
	for (int i = 0; i < rounds && clock_now_ns() < end_ns; i++)
		if (!one_round(costs, repeats, &group, result, &failure))
			break;
	pressure_group_destroy(&group);
	add_rows(bench, costs, &failure);
}
