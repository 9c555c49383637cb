/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From the first stall record of real memory pressure until somebody knows: an engine that sleeps
 * in pn_memwatch_wait until the level is TIGHT or worse; a thread that polls "full avg10 > 0"
 * every 250 ms and watches the same pressure; and a PSI trigger with the smallest window that the
 * kernel grants here. The trigger has a pressure run of its own, without agent and poll, because
 * whoever reads the pressure file delays the kernel's unprivileged triggers.
 *
 * The level is TIGHT as soon as avg10 is 0.01 %, which is 1 ms of full stall in 10 s: nobody can
 * know it before the kernel's own total= has grown by that. So a fourth observer reads total= every
 * millisecond; what pnmem takes beyond it is pnmem's own share, the rest is how gently the
 * pressure began.
 *
 * When it began is known from hooks of our own, the same in all runs: the first record of a stall
 * of our reader.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/hooks/hooks.h"
#include "bench.h"
#include "host/clock.h"
#include "host/pressure.h"
#include "host/psi_trigger.h"
#include "support/pressure.h"
#include "pn_memwatch.h"

#define POLL_MS       250
#define TOTAL_POLL_MS 1
#define TIGHT_FULL_US 1000
#define GIVE_UP_MS    5000
#define GROUP_BYTES   (40 * MIB)
#define FILE_BYTES    (200 * MIB)
/* Before the pressure: the observers fall asleep, and a trigger's window of 2 s passes. */
#define OBSERVERS_READY_MS 500
#define TRIGGER_READY_MS   3000
#define FIRST_PASS_MS      3000

/* One pressure run, and what its observers have seen; times are CLOCK_MONOTONIC, 0 not yet. */
struct run {
	_Atomic bool stop;
	_Atomic bool begun; /* the pressure: what comes before it is not ours */
	uint64_t begin_ns;
	uint64_t first_stall_ns;
	int trigger_fd;
	_Atomic int unseen; /* observers that have not seen it */
	_Atomic uint64_t engine_ns;
	_Atomic uint64_t poll_ns;
	_Atomic uint64_t total_ns;
	_Atomic uint64_t trigger_ns;
};

struct tight {
	struct pressure_group group;
	struct hooks *hooks;
	struct run *run; /* of the records that hooks_consume hands out */
	char comm[16];   /* ours, which the reader has inherited */
	struct samples pnmem_ms, poll_ms, total_ms, trigger_ms;
	unsigned window_ms; /* of the trigger */
};

static bool run_waits(struct run *run, const _Atomic uint64_t *seen_ns)
{
	return !run->stop && !*seen_ns && !bench_stopped();
}

static void run_seen(struct run *run, _Atomic uint64_t *seen_ns)
{
	*seen_ns = clock_now_ns();
	run->unseen--;
}

static void *engine_main(void *arg)
{
	struct run *run = arg;
	pn_mem_state state;

	if (pn_memwatch_read(&state))
		return NULL;
	while (run_waits(run, &run->engine_ns)) {
		if (pn_memwatch_wait(PN_WAIT_LEVEL, &state, clock_now_ns() + NS_PER_S, &state))
			continue;
		if (state.level >= PN_MEM_LEVEL_TIGHT && run->begun)
			run_seen(run, &run->engine_ns);
	}
	return NULL;
}

static int read_full(int fd, struct pressure_line *ret)
{
	struct pressure pressure;
	char text[512];
	ssize_t n = pread(fd, text, sizeof(text), 0);

	if (n <= 0 || pressure_parse(text, (size_t)n, &pressure))
		return -EBADMSG;
	*ret = pressure.full;
	return 0;
}

static void *poll_main(void *arg)
{
	int fd = open("/proc/pressure/memory", O_RDONLY | O_CLOEXEC);
	struct pressure_line full;
	struct run *run = arg;

	while (run_waits(run, &run->poll_ns)) {
		if (!read_full(fd, &full) && full.avg10 > 0 && run->begun)
			run_seen(run, &run->poll_ns);
		else
			bench_sleep_ms(POLL_MS);
	}
	if (fd >= 0)
		close(fd);
	return NULL;
}

static void *total_main(void *arg)
{
	int fd = open("/proc/pressure/memory", O_RDONLY | O_CLOEXEC);
	struct pressure_line full;
	struct run *run = arg;
	uint64_t before_us = 0;

	while (run_waits(run, &run->total_ns)) {
		bool begun = run->begun;

		if (!read_full(fd, &full)) {
			if (!begun)
				before_us = full.total_us;
			else if (full.total_us - before_us >= TIGHT_FULL_US)
				run_seen(run, &run->total_ns);
		}
		bench_sleep_ms(TOTAL_POLL_MS);
	}
	if (fd >= 0)
		close(fd);
	return NULL;
}

static void *trigger_main(void *arg)
{
	struct run *run = arg;
	struct pollfd fd = { .fd = run->trigger_fd, .events = POLLPRI };

	while (run_waits(run, &run->trigger_ns)) {
		if (poll(&fd, 1, 1000) != 1)
			continue;
		if (fd.revents & POLLERR)
			break;
		if (run->begun)
			run_seen(run, &run->trigger_ns);
	}
	return NULL;
}

static bool all_seen(void *arg)
{
	struct run *run = arg;

	return bench_stopped() || !run->unseen;
}

static void on_record(void *arg, const struct pn_event *event)
{
	struct tight *tight = arg;
	struct run *run = tight->run;

	if (run && !run->first_stall_ns && event->kind == PN_EVENT_STALL &&
	    event->ts_ns >= run->begin_ns &&
	    strncmp(event->comm, tight->comm, sizeof(tight->comm)) == 0)
		run->first_stall_ns = event->ts_ns;
}

/* Pressure from now on until all observers have seen it or GIVE_UP_MS have passed. */
static int press(struct tight *tight, struct run *run)
{
	pid_t reader;

	hooks_consume(tight->hooks); /* room in the ring: when full it drops the newest */
	run->begin_ns = clock_now_ns();
	run->begun = true;
	reader = pressure_start_reader(&tight->group, FILE_BYTES);
	if (reader < 0)
		return reader;
	test_until(all_seen, run, GIVE_UP_MS);
	pressure_stop(reader);
	tight->run = run;
	hooks_consume(tight->hooks);
	tight->run = NULL;
	return run->first_stall_ns ? 0 : -ENODATA;
}

static int run_observers(struct tight *tight, struct run *run, void *(*const mains[])(void *),
			 int count, unsigned ready_ms)
{
	pthread_t threads[3];
	int started = 0, r = 0;

	run->unseen = count;
	while (started < count && !r) {
		r = -pthread_create(&threads[started], NULL, mains[started], run);
		started += !r;
	}
	if (!r) {
		bench_sleep_ms(ready_ms);
		r = press(tight, run);
	}
	run->stop = true;
	for (int i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	return r;
}

/* One that has not seen it by the end counts as the whole time: it took longer than that. */
static void add_sample(struct samples *ms, const struct run *run, uint64_t seen_ns)
{
	samples_add(ms, seen_ns ? (double)(seen_ns - run->first_stall_ns) / 1e6 : GIVE_UP_MS);
}

static bool seen_too_early(const struct run *run, uint64_t seen_ns)
{
	return seen_ns && seen_ns < run->first_stall_ns;
}

static int run_pnmem_and_poll(struct tight *tight, unsigned ok_limit_s)
{
	static void *(*const mains[])(void *) = { engine_main, poll_main, total_main };
	struct agent_proc agent;
	struct run run = { 0 };
	int r = watch_start(&agent);

	if (r)
		return r;
	r = watch_wait_ok(ok_limit_s);
	if (!r)
		r = run_observers(tight, &run, mains, 3, OBSERVERS_READY_MS);
	watch_stop(&agent);
	if (r)
		return r;
	/* Full stall before ours began is somebody else's. */
	if (seen_too_early(&run, run.total_ns) || seen_too_early(&run, run.engine_ns))
		return -EBUSY;
	add_sample(&tight->pnmem_ms, &run, run.engine_ns);
	add_sample(&tight->poll_ms, &run, run.poll_ns);
	add_sample(&tight->total_ms, &run, run.total_ns);
	return 0;
}

static int run_trigger(struct tight *tight)
{
	static void *(*const mains[])(void *) = { trigger_main };
	int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), r;
	struct run run = { 0 };

	run.trigger_fd = psi_trigger_open(proc_fd, &tight->window_ms);
	close(proc_fd);
	if (run.trigger_fd < 0)
		return run.trigger_fd;
	r = run_observers(tight, &run, mains, 1, TRIGGER_READY_MS);
	close(run.trigger_fd);
	if (!r && seen_too_early(&run, run.trigger_ns))
		r = -EBUSY;
	if (!r)
		add_sample(&tight->trigger_ms, &run, run.trigger_ns);
	return r;
}

/*
 * The file that the reader reads is made before, so that writing it is no part of a run. A first
 * pass over it is nearly free of stalls, which come when pages thrown out are read again: so one
 * pass is made here. A quick run has no time to let that decay and begins more gently.
 */
static int prepare(struct tight *tight, bool quick)
{
	const struct hooks_options options = { 0 };
	pid_t reader;
	int r;

	prctl(PR_GET_NAME, tight->comm);
	r = pressure_group_create(&tight->group, GROUP_BYTES);
	if (r)
		return r;
	reader = pressure_start_reader(&tight->group, FILE_BYTES);
	if (!quick)
		bench_sleep_ms(FIRST_PASS_MS);
	pressure_stop(reader);
	return reader < 0 ? reader : hooks_open(&tight->hooks, &options, on_record, tight);
}

static void add_rows(struct rows *rows, const struct tight *tight)
{
	static char against[32]; /* the row keeps it */

	rows_add_samples(rows, "first stall -> TIGHT seen through pnmem", "ms", &tight->pnmem_ms,
			 "poll of full avg10", &tight->poll_ms, GOAL_VALUE, 5);
	rows_add_samples(rows, "first stall -> TIGHT, by total= itself", "ms", &tight->pnmem_ms,
			 "total= grown by 1 ms", &tight->total_ms, GOAL_NONE, 0);
	snprintf(against, sizeof(against), "PSI trigger, %u ms", tight->window_ms);
	rows_add_samples(rows, "first stall -> TIGHT, by a PSI trigger", "ms", &tight->pnmem_ms,
			 against, &tight->trigger_ms, GOAL_NONE, 0);
}

void tight_bench(struct bench *bench)
{
	static struct tight tight;
	unsigned runs = bench->quick ? 1 : 3;
	int r = geteuid() ? -EPERM : prepare(&tight, bench->quick);
	bool restless;

	/* A run that others' pressure has spoilt is made again, within limits. */
	for (unsigned i = 0; i < 2 * runs && !r && !bench_stopped(); i++) {
		if (tight.trigger_ms.count == runs)
			break;
		r = run_pnmem_and_poll(&tight, bench->quick ? 5 : 120);
		if (!r && !bench_stopped())
			r = run_trigger(&tight);
		if (r == -EBUSY)
			r = 0;
	}
	hooks_close(tight.hooks);
	pressure_group_destroy(&tight.group);
	if (bench_stopped())
		return;
	restless = r == -ETIMEDOUT || (!r && !tight.trigger_ms.count);
	if (tight.trigger_ms.count && (!r || restless))
		add_rows(&bench->rows, &tight);
	else if (restless && bench->quick)
		printf("tight: left out, others make pressure\n");
	else
		rows_add_failed(&bench->rows, "first stall -> TIGHT", "%s",
				restless ? "others make pressure" : bench_why(r));
}
