/* SPDX-License-Identifier: BSD-2-Clause */
/* Engines by the hundred. See fleet.h. */
#include "fleet.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "core/page.h"
#include "host/clock.h"
#include "host/futex.h"
#include "lib/link.h"
#include "ops.h"
#include "pn_memwatch.h"

#define STACK_BYTES  (64 * 1024)
#define ATTACH_MS    20000
#define ROUND_MAX_NS (20 * NS_PER_S)
/* Counted in is not yet asleep: time for the last ones to get there. Not measured. */
#define SETTLE_MS 20
/* Of each engine and round: some milliseconds, so that it often loses its CPU to another. */
#define READS 20000

/* One engine; in one of the fleet's processes. */
struct engine {
	struct fleet_shared *shared;
	enum fleet_task task;
	unsigned number;
	const struct page *page;
};

static void sleep_on(const _Atomic uint32_t *word, _Atomic uint32_t *ready)
{
	uint32_t expected = atomic_load(word);

	atomic_fetch_add(ready, 1);
	while (atomic_load(word) == expected)
		futex_wait(word, expected, FUTEX_WAKE_ANY, UINT64_MAX);
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static double read_often(void)
{
	uint64_t start_ns = thread_cpu_ns();
	pn_mem_state state;

	for (int i = 0; i < READS; i++) {
		pn_memwatch_read(&state);
		op_keep(&state);
	}
	return (double)(thread_cpu_ns() - start_ns) / READS;
}

static void *engine_run(void *arg)
{
	const struct engine *engine = arg;
	struct fleet_shared *shared = engine->shared;

	for (unsigned round = 0;; round++) {
		bool bare = engine->task == FLEET_READ ||
			    (engine->task == FLEET_TURNS && round % 2 == 0);

		sleep_on(bare ? &shared->bare : &engine->page->level_word, &shared->ready);
		shared->awake_ns[engine->number] = clock_now_ns();
		if (engine->task == FLEET_READ)
			shared->read_ns[engine->number] = read_often();
		atomic_fetch_add(&shared->awake, 1);
	}
	return NULL;
}

/* Connection, page and thread of one engine: they stay for the life of the process. */
static int engine_attach(struct engine *engine, const char *socket_path)
{
	pthread_attr_t attr;
	pthread_t thread;
	struct link link;
	int memfd, r;

	r = link_open(&link, socket_path, ATTACH_MS, &memfd);
	if (r)
		return r;
	engine->page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, memfd, 0);
	close(memfd);
	if (engine->page == MAP_FAILED)
		return -errno;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	r = -pthread_create(&thread, &attr, engine_run, engine);
	pthread_attr_destroy(&attr);
	return r;
}

__attribute__((noreturn)) static void process_run(const struct fleet *fleet, unsigned first,
						  enum fleet_task task, const char *socket_path)
{
	unsigned count = fleet->engines / fleet->processes;
	struct engine *engines = calloc(count, sizeof(*engines));
	int r = engines ? 0 : -ENOMEM;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setenv("PN_SOCKET", socket_path, 1);
	if (!r && task == FLEET_READ)
		r = pn_memwatch_start();
	for (unsigned i = 0; !r && i < count; i++) {
		engines[i] = (struct engine){ fleet->shared, task, first + i, NULL };
		r = engine_attach(&engines[i], socket_path);
	}
	if (r)
		atomic_fetch_add(&fleet->shared->failed, 1);
	for (;;)
		pause();
}

/* All of so many rounds counted, or a process has failed, or it takes too long. */
static int wait_for(const struct fleet *fleet, const _Atomic uint32_t *count, unsigned rounds)
{
	uint64_t end_ns = clock_now_ns() + ROUND_MAX_NS;

	while (atomic_load(count) < rounds * fleet->engines) {
		if (atomic_load(&fleet->shared->failed))
			return -ECONNREFUSED;
		if (clock_now_ns() > end_ns)
			return -ETIMEDOUT;
		bench_sleep_ms(1);
	}
	return 0;
}

static int wait_asleep(const struct fleet *fleet)
{
	int r = wait_for(fleet, &fleet->shared->ready, fleet->round + 1);

	bench_sleep_ms(SETTLE_MS);
	return r;
}

int fleet_start(struct fleet *fleet, const char *socket_path, enum fleet_task task,
		unsigned engines)
{
	memset(fleet, 0, sizeof(*fleet));
	fleet->engines = engines;
	fleet->processes = engines < FLEET_PROCESSES ? engines : FLEET_PROCESSES;
	fleet->shared = bench_shared(sizeof(*fleet->shared));
	if (!fleet->shared)
		return -ENOMEM;
	for (unsigned i = 0; i < fleet->processes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return -errno;
		if (!pid)
			process_run(fleet, i * (engines / fleet->processes), task, socket_path);
		fleet->pid[i] = pid;
	}
	return wait_asleep(fleet);
}

bool fleet_is_asleep(const struct fleet *fleet)
{
	return atomic_load(&fleet->shared->awake) == fleet->round * fleet->engines;
}

void fleet_wake_bare(struct fleet *fleet)
{
	atomic_fetch_add(&fleet->shared->bare, 1);
	futex_wake(&fleet->shared->bare, FUTEX_WAKE_ANY);
}

uint64_t fleet_end_round(struct fleet *fleet)
{
	uint64_t last_ns = 0;

	if (wait_for(fleet, &fleet->shared->awake, fleet->round + 1))
		return 0;
	for (unsigned i = 0; i < fleet->engines; i++)
		if (fleet->shared->awake_ns[i] > last_ns)
			last_ns = fleet->shared->awake_ns[i];
	fleet->round++;
	return wait_asleep(fleet) ? 0 : last_ns;
}

void fleet_stop(struct fleet *fleet)
{
	for (unsigned i = 0; i < FLEET_PROCESSES; i++) {
		if (fleet->pid[i] <= 0)
			continue;
		kill(fleet->pid[i], SIGKILL);
		waitpid(fleet->pid[i], NULL, 0);
	}
	if (fleet->shared)
		munmap(fleet->shared, sizeof(*fleet->shared));
	memset(fleet, 0, sizeof(*fleet));
}
