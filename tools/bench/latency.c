/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From the kernel's record of a stall until an engine that slept runs in user space. Through
 * pnmem: ring buffer, the agent's look at every source, its publish, the engine's wake-up and
 * read. The baseline is the bare chain: the same BPF programs in a process that does nothing but
 * ring buffer -> epoll -> futex, and a second process that it wakes. The difference is what the
 * look costs.
 *
 * The stalls are real: a child reads a file larger than its cgroup's limit, in bursts with a quiet
 * time between them that is longer than the 100 ms after which a stall counts as a first one. Both
 * chains are judged by the first record of each burst alone, since that finds both asleep.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/hooks/hooks.h"
#include "bench.h"
#include "host/clock.h"
#include "host/futex.h"
#include "support/pressure.h"
#include "pn_memwatch.h"

#define BURST_MS       30
#define QUIET_MS       130
#define FIRST_AFTER_NS (100 * NS_PER_MS)
#define GROUP_BYTES    (40 * MIB)
#define FILE_BYTES     (200 * MIB)
#define READY_MS       10000

/* One chain, in memory that its processes share. */
struct chain {
	_Atomic int ready;     /* processes that are */
	_Atomic uint32_t word; /* bare chain: the futex, and the record behind its last change */
	_Atomic uint64_t record_ns;
	uint64_t last_record_ns;
	struct samples us; /* written by the one process that waits */
};

/* Called as soon as the waiting process runs again. Only the first record of a burst counts. */
static void chain_woken(struct chain *chain, uint64_t now_ns, uint64_t record_ns)
{
	bool is_new = record_ns > chain->last_record_ns;
	bool is_first = is_new && record_ns - chain->last_record_ns > FIRST_AFTER_NS;

	if (is_new)
		chain->last_record_ns = record_ns;
	if (is_first)
		samples_add(&chain->us, (double)(now_ns - record_ns) / 1e3);
}

/* The clock is read when pn_memwatch_wait returns, with the snapshot in hand. */
static void engine_run(struct chain *chain)
{
	pn_mem_state state;
	pn_mem_ext ext;

	if (pn_memwatch_start() || pn_memwatch_source() != PN_SOURCE_AGENT ||
	    pn_memwatch_read(&state))
		_exit(1);
	chain->ready++;
	for (;;) {
		uint64_t now_ns;

		if (pn_memwatch_wait(PN_WAIT_SNAPSHOT, &state, UINT64_MAX, &state))
			_exit(1);
		now_ns = clock_now_ns();
		if (!pn_memwatch_read_ext(NULL, &ext))
			chain_woken(chain, now_ns, ext.event_ns);
	}
}

static void bare_wait_run(struct chain *chain)
{
	chain->ready++;
	for (;;) {
		uint32_t seen = chain->word;
		uint64_t record_ns = chain->record_ns;

		/* A record that came between the last wake-up and now was not slept for. */
		if (record_ns > chain->last_record_ns)
			chain->last_record_ns = record_ns;
		if (!futex_wait(&chain->word, seen, FUTEX_WAKE_ANY, UINT64_MAX))
			chain_woken(chain, clock_now_ns(), chain->record_ns);
	}
}

static void bare_record(void *arg, const struct pn_event *event)
{
	struct chain *chain = arg;

	if (event->kind == PN_EVENT_STALL && event->flags & PN_EVENT_F_WAKE) {
		chain->record_ns = event->ts_ns;
		chain->word++;
		futex_wake(&chain->word, FUTEX_WAKE_ANY);
	}
}

static void bare_ring_run(struct chain *chain)
{
	const struct hooks_options options = { 0 };
	struct epoll_event event = { .events = EPOLLIN };
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	struct hooks *hooks;

	if (epoll_fd < 0 || hooks_open(&hooks, &options, bare_record, chain) ||
	    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, hooks_fd(hooks), &event))
		_exit(1);
	/* Woken as often as the agent, which after a burst waits this long; locked like it. */
	hooks_set_wake_gap(hooks, FIRST_AFTER_NS);
	mlockall(MCL_CURRENT | MCL_FUTURE);
	chain->ready++;
	for (;;)
		if (epoll_wait(epoll_fd, &event, 1, -1) > 0)
			hooks_consume(hooks);
}

static pid_t chain_fork(struct chain *chain, void (*run)(struct chain *chain))
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run(chain);
	_exit(0);
}

struct ready {
	struct chain *chain;
	int wanted;
};

static bool is_ready(void *arg)
{
	struct ready *ready = arg;

	return ready->chain->ready >= ready->wanted || bench_stopped();
}

/* Lets the stopped reader run in bursts while the chain listens. */
static int chain_listen(struct chain *chain, int processes, pid_t reader, int bursts)
{
	struct ready ready = { chain, processes };

	if (!test_until(is_ready, &ready, READY_MS))
		return -ETIMEDOUT;
	for (int i = 0; i < bursts && !bench_stopped(); i++) {
		bench_sleep_ms(QUIET_MS);
		kill(reader, SIGCONT);
		bench_sleep_ms(BURST_MS);
		kill(reader, SIGSTOP);
	}
	return 0;
}

static int pnmem_round(struct chain *chain, pid_t reader, int bursts, bool recorded)
{
	struct agent_proc agent;
	pid_t engine = 0, recording = 0;
	char path[128];
	int r = agent_proc_init(&agent);

	if (r)
		return r;
	r = agent_proc_start(&agent, NULL);
	snprintf(path, sizeof(path), "%s/recording", agent.dir);
	if (!r && recorded) {
		recording = recording_start(path);
		r = recording < 0 ? (int)recording : 0;
	}
	chain->ready = 0;
	if (!r) {
		engine = chain_fork(chain, engine_run);
		r = engine < 0 ? -EAGAIN : chain_listen(chain, 1, reader, bursts);
	}
	pressure_stop(engine);
	recording_stop(recording);
	unlink(path);
	agent_proc_destroy(&agent);
	return r;
}

static int bare_round(struct chain *chain, pid_t reader, int bursts)
{
	pid_t ring, waiter;
	int r = 0;

	chain->ready = 0;
	ring = chain_fork(chain, bare_ring_run);
	waiter = chain_fork(chain, bare_wait_run);
	r = ring < 0 || waiter < 0 ? -EAGAIN : chain_listen(chain, 2, reader, bursts);
	pressure_stop(waiter);
	pressure_stop(ring);
	return r;
}

static void add_row(struct bench *bench, const char *name, double percent, enum goal_of goal_of,
		    double goal_ratio, const struct chain *pnmem, const char *against,
		    const struct chain *bare)
{
	struct row row = {
		.unit = "us",
		.value = samples_percentile(&pnmem->us, percent),
		.value_p99 = NAN,
		.against = against,
		.baseline = samples_percentile(&bare->us, percent),
		.baseline_p99 = NAN,
		.goal_of = goal_of,
		.goal = goal_ratio,
		.count = pnmem->us.count < bare->us.count ? pnmem->us.count : bare->us.count,
	};

	if (!row.count) {
		rows_add_failed(&bench->rows, name, "no first stall was seen by %s",
				pnmem->us.count ? against : "the engine");
		return;
	}
	snprintf(row.name, sizeof(row.name), "%s", name);
	rows_add(&bench->rows, &row);
}

void latency_bench(struct bench *bench)
{
	int rounds = bench->quick ? 1 : 5, bursts = bench->quick ? 12 : 63;
	struct chain *chains = bench_shared(3 * sizeof(*chains));
	struct pressure_group group;
	pid_t reader = 0;
	int r = geteuid() ? -EPERM : !chains ? -ENOMEM : pressure_group_create(&group, GROUP_BYTES);

	if (r) {
		rows_add_failed(&bench->rows, "stall record -> engine awake", "no pressure: %s",
				bench_why(r));
		return;
	}
	reader = pressure_start_reader(&group, FILE_BYTES);
	if (reader < 0)
		r = reader;
	else
		kill(reader, SIGSTOP);
	for (int i = 0; i < rounds && !r && !bench_stopped(); i++) {
		r = pnmem_round(&chains[0], reader, bursts, false);
		if (!r)
			r = bare_round(&chains[1], reader, bursts);
		if (!r)
			r = pnmem_round(&chains[2], reader, bursts, true);
	}
	pressure_stop(reader);
	pressure_group_destroy(&group);
	if (r && !bench_stopped()) {
		rows_add_failed(&bench->rows, "stall record -> engine awake", "a round failed: %s",
				bench_why(r));
	} else if (!bench_stopped()) {
		add_row(bench, "stall record -> engine awake, p50", 50, GOAL_RATIO, 1.5, &chains[0],
			"the bare chain", &chains[1]);
		add_row(bench, "stall record -> engine awake, p99", 99, GOAL_RATIO, 2, &chains[0],
			"the bare chain", &chains[1]);
		add_row(bench, "the same while recording, p50", 50, GOAL_NONE, 0, &chains[2],
			"not recording", &chains[0]);
		add_row(bench, "the same while recording, p99", 99, GOAL_NONE, 0, &chains[2],
			"not recording", &chains[0]);
	}
	munmap(chains, 3 * sizeof(*chains));
}
