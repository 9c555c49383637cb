/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a thousand attached engines cost, beside one: the agent's CPU for a look with its publish,
 * and for doing nothing; until when all of them are awake after a change of level, beside a bare
 * FUTEX_WAKE of as many; and a read while all of them read, beside one that reads alone. Two agents
 * run at the same time, one with the thousand and one with a single engine, so that whatever wakes
 * the machine meets both. fleet.h says what stands for an engine.
 *
 * In a few runs a publish costs more with the thousand: where the kernel's futex hash puts both
 * words of the page into one bucket, the wake of one word walks the sleepers of the other.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "core/page.h"
#include "core/proto.h"
#include "fleet.h"
#include "host/clock.h"
#include "lib/link.h"

#define LINK_MS         5000
#define POLLS_A_ROUND   20
#define WINDOW_MS       10000
#define WINDOW_QUICK_MS 1500

/*
 * An agent and the one engine that every measurement needs: it asks for looks, it reads counters.
 */
struct subject {
	struct agent_proc agent;
	struct link link;
	struct page_view view;
	void *map;
};

/* Allowed on one that was never opened, all zero. */
static void subject_close(struct subject *subject)
{
	if (!subject->agent.dir[0])
		return;
	link_close(&subject->link);
	if (subject->map)
		munmap(subject->map, PAGE_BYTES);
	agent_proc_destroy(&subject->agent);
}

static int subject_open(struct subject *subject, const char *const args[])
{
	int memfd, r = agent_proc_init(&subject->agent);

	subject->link = LINK_CLOSED;
	if (r)
		return r;
	r = agent_proc_start(&subject->agent, args);
	if (!r)
		r = link_open(&subject->link, subject->agent.socket_path, LINK_MS, &memfd);
	if (r)
		return r;
	subject->map = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, memfd, 0);
	close(memfd);
	if (subject->map != MAP_FAILED)
		return page_open(&subject->view, subject->map, PAGE_BYTES);
	subject->map = NULL;
	return -errno;
}

/* A look now; published when this returns. */
static int ask_for_look(struct subject *subject)
{
	struct proto_header ask = proto_header_make(PROTO_POLL_NOW, sizeof(ask), 0), ack;

	return link_request(&subject->link, &ask, sizeof(ask), PROTO_ACK, &ack, sizeof(ack),
			    LINK_MS);
}

/* CPU time of the agent, which has one thread, in ns. */
static int agent_cpu_ns(const struct subject *subject, uint64_t *ret_ns)
{
	unsigned long long ns;
	char path[64];
	FILE *file;
	int n;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)subject->agent.pid);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	n = fscanf(file, "%llu", &ns);
	fclose(file);
	if (n != 1)
		return -ENODATA;
	*ret_ns = ns;
	return 0;
}

/* ---- a publish, and doing nothing ----------------------------------------------------------- */

/* Microseconds of the agent's CPU for one look, published and acknowledged. */
static int measure_looks(struct subject *subject, struct samples *us)
{
	uint64_t before_ns, after_ns;
	int r = agent_cpu_ns(subject, &before_ns);

	for (int i = 0; !r && i < POLLS_A_ROUND; i++)
		r = ask_for_look(subject);
	if (!r)
		r = agent_cpu_ns(subject, &after_ns);
	if (!r)
		samples_add(us, (double)(after_ns - before_ns) / 1e3 / POLLS_A_ROUND);
	return r;
}

struct usage {
	uint64_t wakeups, cpu_ns, now_ns;
};

static int usage_now(struct subject *subject, struct usage *ret)
{
	pn_mem_ext ext;
	int r = ask_for_look(subject);

	if (!r)
		r = page_read(&subject->view, NULL, &ext);
	if (!r)
		r = agent_cpu_ns(subject, &ret->cpu_ns);
	if (!r) {
		ret->wakeups = ext.wakeups;
		ret->now_ns = clock_now_ns();
	}
	return r;
}

struct idleness {
	struct samples wakeups_per_s, cpu_us_per_s;
};

static void add_idleness(struct idleness *idleness, const struct usage *from,
			 const struct usage *to)
{
	double s = (double)(to->now_ns - from->now_ns) / NS_PER_S;

	samples_add(&idleness->wakeups_per_s, (double)(to->wakeups - from->wakeups) / s);
	samples_add(&idleness->cpu_us_per_s, (double)(to->cpu_ns - from->cpu_ns) / 1e3 / s);
}

static int measure_idle(struct bench *bench, struct subject subject[2], struct idleness of[2])
{
	unsigned windows = bench->quick ? 1 : 3;
	struct usage from[2], to[2];
	int r = 0;

	for (unsigned n = 0; n < windows && !r && !bench_stopped(); n++) {
		for (int i = 0; i < 2 && !r; i++)
			r = usage_now(&subject[i], &from[i]);
		bench_sleep_ms(bench->quick ? WINDOW_QUICK_MS : WINDOW_MS);
		for (int i = 0; i < 2 && !r; i++)
			r = usage_now(&subject[i], &to[i]);
		for (int i = 0; i < 2 && !r; i++)
			add_idleness(&of[i], &from[i], &to[i]);
	}
	return r;
}

static void attached_rows(struct bench *bench, unsigned engines)
{
	static struct idleness idle[2];
	static struct samples look_us[2];
	static struct subject subject[2];
	int rounds = bench->quick ? 10 : 200, r;
	struct fleet fleet = { 0 };
	char name[3][64];

	snprintf(name[0], sizeof(name[0]), "agent's CPU for a publish, %u engines", engines);
	snprintf(name[1], sizeof(name[1]), "agent's wake-ups, %u idle engines", engines);
	snprintf(name[2], sizeof(name[2]), "agent's CPU, %u idle engines", engines);
	r = subject_open(&subject[0], NULL);
	if (!r)
		r = subject_open(&subject[1], NULL);
	if (!r)
		r = fleet_start(&fleet, subject[1].agent.socket_path, FLEET_IDLE, engines);
	for (int i = 0; i < rounds && !r && !bench_stopped(); i++) {
		for (int k = 0; k < 2 && !r; k++) {
			int which = (i + k) % 2; /* each comes first as often as second */

			r = measure_looks(&subject[which], &look_us[which]);
		}
	}
	if (!r)
		r = measure_idle(bench, subject, idle);
	fleet_stop(&fleet);
	for (int i = 0; i < 2; i++)
		subject_close(&subject[i]);
	if (bench_stopped())
		return;
	if (r) {
		for (int i = 0; i < 3; i++)
			rows_add_failed(&bench->rows, name[i], "%s", bench_why(r));
		return;
	}
	rows_add_samples(&bench->rows, name[0], "us", &look_us[1], "1 engine", &look_us[0],
			 GOAL_RATIO, 1.1);
	rows_add_samples(&bench->rows, name[1], "1/s", &idle[1].wakeups_per_s, "1 engine",
			 &idle[0].wakeups_per_s, GOAL_RATIO, 1.1);
	rows_add_samples(&bench->rows, name[2], "us/s", &idle[1].cpu_us_per_s, "1 engine",
			 &idle[0].cpu_us_per_s, GOAL_NONE, 0);
}

/* ---- all awake ------------------------------------------------------------------------------ */

/*
 * A made-up /proc whose free memory is ample or none. Without pressure files: bytes alone decide.
 */
static int put_meminfo(const char *dir, bool ample)
{
	char path[96], next[96];
	FILE *file;

	snprintf(path, sizeof(path), "%s/meminfo", dir);
	snprintf(next, sizeof(next), "%s/next", dir);
	file = fopen(next, "we");
	if (!file)
		return -errno;
	fprintf(file, "MemTotal: 16777216 kB\nMemFree: 0 kB\nMemAvailable: %d kB\n",
		ample ? 16000000 : 0);
	return fclose(file) || rename(next, path) ? -errno : 0;
}

struct wakes {
	struct samples bare_ms, level_ms;         /* until the last one runs */
	struct samples bare_cpu_ms, level_cpu_ms; /* of who wakes them */
};

static uint64_t own_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static int bare_round(struct fleet *fleet, struct wakes *wakes)
{
	uint64_t start_ns = clock_now_ns(), start_cpu_ns = own_cpu_ns(), cpu_ns, last_ns;

	fleet_wake_bare(fleet);
	cpu_ns = own_cpu_ns() - start_cpu_ns;
	last_ns = fleet_end_round(fleet);
	if (!last_ns)
		return -ETIMEDOUT;
	samples_add(&wakes->bare_ms, (double)(last_ns - start_ns) / 1e6);
	samples_add(&wakes->bare_cpu_ms, (double)cpu_ns / 1e6);
	return 0;
}

/*
 * From the snapshot's own publish time; unless the agent has looked by itself before it was asked.
 */
static int level_round(struct subject *subject, struct fleet *fleet, const char *dir, bool ample,
		       struct wakes *wakes)
{
	uint64_t ask_ns, before_ns, after_ns, last_ns;
	pn_mem_ext ext;
	int r = put_meminfo(dir, ample);

	if (!r)
		r = agent_cpu_ns(subject, &before_ns);
	ask_ns = clock_now_ns();
	if (!r)
		r = ask_for_look(subject);
	if (!r)
		r = page_read(&subject->view, NULL, &ext);
	if (r)
		return r;
	last_ns = fleet_end_round(fleet);
	if (!last_ns)
		return -ETIMEDOUT;
	r = agent_cpu_ns(subject, &after_ns);
	if (r || ext.level_since_ns < ask_ns)
		return r;
	samples_add(&wakes->level_ms, (double)(last_ns - ext.publish_ns) / 1e6);
	samples_add(&wakes->level_cpu_ms, (double)(after_ns - before_ns) / 1e6);
	return 0;
}

static int measure_wakes(struct bench *bench, const char *dir, unsigned engines,
			 struct wakes *wakes)
{
	const char *const args[] = { "--no-bpf", "--stall-hook", "poll", "--procfs", dir, NULL };
	int rounds = bench->quick ? 4 : 200, r = put_meminfo(dir, true);
	static struct subject subject;
	struct fleet fleet = { 0 };

	setenv("PN_LEVEL_HOLD_MS", "0", 1); /* down again at once too */
	if (!r)
		r = subject_open(&subject, args);
	unsetenv("PN_LEVEL_HOLD_MS");
	if (!r)
		r = fleet_start(&fleet, subject.agent.socket_path, FLEET_TURNS, engines);
	for (int i = 0; i < rounds && !r && !bench_stopped(); i++) {
		r = bare_round(&fleet, wakes);
		if (!r)
			r = level_round(&subject, &fleet, dir, i % 2, wakes);
	}
	fleet_stop(&fleet);
	subject_close(&subject);
	return r;
}

static void wake_rows(struct bench *bench, unsigned engines)
{
	char dir[] = "/tmp/pnmem-bench-XXXXXX", meminfo[64], name[2][64];
	static struct wakes wakes;
	int r;

	snprintf(name[0], sizeof(name[0]), "level change, %u engines, last awake", engines);
	snprintf(name[1], sizeof(name[1]), "agent's CPU for it, look included");
	if (!mkdtemp(dir)) {
		rows_add_failed(&bench->rows, name[0], "%s", strerror(errno));
		return;
	}
	r = measure_wakes(bench, dir, engines, &wakes);
	snprintf(meminfo, sizeof(meminfo), "%s/meminfo", dir);
	unlink(meminfo);
	rmdir(dir);
	if (bench_stopped())
		return;
	if (r) {
		rows_add_failed(&bench->rows, name[0], "%s", bench_why(r));
		return;
	}
	rows_add_samples(&bench->rows, name[0], "ms", &wakes.level_ms, "one bare FUTEX_WAKE",
			 &wakes.bare_ms, GOAL_RATIO, 1.5);
	rows_add_samples(&bench->rows, name[1], "ms", &wakes.level_cpu_ms, "one bare FUTEX_WAKE",
			 &wakes.bare_cpu_ms, GOAL_RATIO, 1.5);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* One round of reads by the whole fleet. */
static int read_round(struct fleet *fleet, struct samples *ns)
{
	fleet_wake_bare(fleet);
	if (!fleet_end_round(fleet))
		return -ETIMEDOUT;
	for (unsigned i = 0; i < fleet->engines; i++)
		samples_add(ns, fleet->shared->read_ns[i]);
	return 0;
}

/* The thousand, and one of another fleet, in turns: the others sleep meanwhile. */
static int measure_reads(struct bench *bench, unsigned engines, struct samples *all_ns,
			 struct samples *one_ns)
{
	int rounds = bench->quick ? 2 : 4, alone = bench->quick ? 5 : 50, r;
	struct fleet all = { 0 }, one = { 0 };
	static struct subject subject;

	r = subject_open(&subject, NULL);
	if (!r)
		r = fleet_start(&all, subject.agent.socket_path, FLEET_READ, engines);
	if (!r)
		r = fleet_start(&one, subject.agent.socket_path, FLEET_READ, 1);
	for (int i = 0; i < rounds && !r && !bench_stopped(); i++) {
		for (int k = 0; k < alone && !r; k++)
			r = read_round(&one, one_ns);
		if (!r)
			r = read_round(&all, all_ns);
	}
	fleet_stop(&one);
	fleet_stop(&all);
	subject_close(&subject);
	return r;
}

static void read_rows(struct bench *bench, unsigned engines)
{
	static struct samples all_ns, one_ns;
	int r = measure_reads(bench, engines, &all_ns, &one_ns);
	char name[64];

	if (bench_stopped())
		return;
	snprintf(name, sizeof(name), "pn_memwatch_read while %u read", engines);
	if (r)
		rows_add_failed(&bench->rows, name, "%s", bench_why(r));
	else
		rows_add_samples(&bench->rows, name, "ns", &all_ns, "one reads alone", &one_ns,
				 GOAL_RATIO, 1.25);
}

void engines_bench(struct bench *bench)
{
	unsigned engines = bench->quick ? 200 : FLEET_MAX;

	attached_rows(bench, engines);
	if (!bench_stopped())
		wake_rows(bench, engines);
	if (!bench_stopped())
		read_rows(bench, engines);
}
