/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ten hostile clients of four users attack the agent at once, for a minute. One honest engine of a
 * fifth user is woken by a look as fast as beside the same number of processes that only use the
 * CPUs, its own pushes wait for no more looks than beside them, it sees no level but its own, and
 * afterwards the agent holds and does no more than before. The engine's own priority is high, since
 * what it waits for is the agent. Attack and comparison take turns, so that other load of the
 * machine falls on both. HOSTILE_S in the environment shortens the minute, to find faults.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "host/clock.h"
#include "support/agent_proc.h"
#include "support/attack.h"
#include "support/hostile.h"
#include "support/made_host.h"
#include "pn_memwatch.h"

#define HONEST_UID  61100
#define ATTACK_S    60
#define TURNS       4
#define SAMPLES_MAX 40000
#define GAP_US      5000
#define LEVEL_MS    5000 /* for a level that was pushed to be seen */
#define SETTLE_MS   20000
#define RSS_KIB     8192
#define LOG_LINES   300
#define IDLE_S      3
#define IDLE_TICKS  30 /* a tenth of a CPU in that time */
#define ALL_BYTES   (1ull << 40)
#define S_US        1000000
/* The slack is what a machine with more to run than CPUs makes of it. */
#define FACTOR_LIMIT 2
#define SLACK_US     15000
#define LOOKS_MEDIAN 4
#define LOOKS_P99    128 /* a look waits for as many turns of others at most */

enum { BETWEEN, BURNERS, ATTACK, TURN_KINDS };

/* What the honest engine says of itself. */
struct honest {
	_Atomic int turn;
	_Atomic bool ready;
	_Atomic uint32_t n[TURN_KINDS];
	_Atomic uint32_t foreign;            /* levels seen that it had not pushed */
	_Atomic uint32_t unseen[TURN_KINDS]; /* levels pushed that woke nobody in time */
	_Atomic uint32_t unpublished;        /* of these, levels that no reader could see either */
	_Atomic uint32_t alone[TURN_KINDS];  /* rounds in which it was not attached */
	uint64_t wake_ns[TURN_KINDS][SAMPLES_MAX]; /* from the look until the waiter is awake */
	uint64_t push_ns[TURN_KINDS][SAMPLES_MAX]; /* from the push until then */
	uint64_t looks[TURN_KINDS][SAMPLES_MAX];   /* that the agent made in between */
};

static struct agent_proc agent;
static struct made_host host;
static struct honest *honest;
static char trace_dir[96];
static int fds_before;

/* ---- the honest engine ----------------------------------------------------------------------- */

static _Atomic uint64_t awake_ns, look_ns, looks;
static _Atomic int seen_level, last_pushed, pushed;

static void *wait_for_levels(void *unused)
{
	pn_mem_state state = { .level = PN_MEM_LEVEL_OK }, now;
	pn_mem_ext ext;

	for (;;) {
		if (pn_memwatch_wait(PN_WAIT_LEVEL, &state, UINT64_MAX, &state))
			return NULL;
		atomic_store(&awake_ns, clock_now_ns());
		if (!pn_memwatch_read_ext(&now, &ext)) {
			atomic_store(&look_ns, ext.level_since_ns);
			atomic_store(&looks, ext.looks);
		}
		if ((int)state.level != pushed && (int)state.level != last_pushed)
			honest->foreign++;
		atomic_store(&seen_level, (int)state.level);
	}
}

static bool level_is_pushed(void *arg)
{
	return atomic_load(&seen_level) == pushed;
}

static bool is_attached(void *arg)
{
	return pn_memwatch_source() == PN_SOURCE_AGENT;
}

/* One change of its own level: from the push until the other thread is awake. */
static void change_level(void)
{
	const int next = pushed == PN_MEM_LEVEL_OK ? PN_MEM_LEVEL_CRITICAL : PN_MEM_LEVEL_OK;
	const int turn = atomic_load(&honest->turn);
	uint64_t begin_ns, begin_looks;
	pn_mem_state state;
	pn_mem_ext ext;
	uint32_t n;

	/* No change of its own is under way: a level that is not its own is another's. */
	if (pn_memwatch_read_ext(&state, &ext))
		return;
	honest->foreign += (int)state.level != pushed;
	begin_looks = ext.looks;
	last_pushed = pushed;
	pushed = next;
	begin_ns = clock_now_ns();
	pn_memwatch_set_die(0, next == PN_MEM_LEVEL_OK ? ALL_BYTES : 0, ALL_BYTES, 0);
	if (!test_until(level_is_pushed, NULL, LEVEL_MS)) {
		honest->unseen[turn]++;
		honest->unpublished += pn_memwatch_read(&state) || (int)state.level != next;
		return;
	}
	last_pushed = next;
	honest->alone[turn] += !is_attached(NULL);
	n = honest->n[turn];
	if (turn == atomic_load(&honest->turn) && n < SAMPLES_MAX) {
		honest->wake_ns[turn][n] = awake_ns - look_ns;
		honest->push_ns[turn][n] = awake_ns - begin_ns;
		honest->looks[turn][n] = looks - begin_looks;
		honest->n[turn] = n + 1;
	}
}

static void be_honest(void)
{
	pthread_t waiter;

	setpriority(PRIO_PROCESS, 0, -20);
	if (made_host_add_process(&host, getpid(), "/honest") || setgid(HONEST_UID) ||
	    setuid(HONEST_UID))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* afterwards: a change of user takes it back */
	if (pn_memwatch_start() || !test_until(is_attached, NULL, LEVEL_MS))
		_exit(1);
	pn_memwatch_set_die(0, ALL_BYTES, ALL_BYTES, 0);
	if (pthread_create(&waiter, NULL, wait_for_levels, NULL))
		_exit(1);
	honest->ready = true;
	for (;;) {
		change_level();
		usleep(GAP_US);
	}
}

static bool is_ready(void *arg)
{
	return honest->ready;
}

/* ---- the agent ------------------------------------------------------------------------------- */

static int setup(void **state)
{
	static const char *args[] = { "--no-bpf", "--stall-hook", "poll",         "--procfs",
				      host.dir,   "--cgroupfs",   "/nonexistent", NULL };

	setenv("PN_LEVEL_HOLD_MS", "0", 1);
	honest = mmap(NULL, sizeof(*honest), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (honest == MAP_FAILED || made_host_init(&host) || chmod(host.dir, 0755) ||
	    agent_proc_init(&agent) || chmod(agent.dir, 0755))
		return -1;
	setenv("PN_PROCFS", host.dir, 1);
	snprintf(trace_dir, sizeof(trace_dir), "%s/traces", host.dir);
	setenv("PN_TRACE_DIR", trace_dir, 1);
	return mkdir(trace_dir, 0700) ? -1 : agent_proc_start(&agent, args);
}

static int teardown(void **state)
{
	agent_proc_destroy(&agent);
	made_host_destroy(&host);
	unsetenv("PN_PROCFS");
	unsetenv("PN_TRACE_DIR");
	return 0;
}

/* Clock ticks that the agent has used. */
static long ticks(void)
{
	unsigned long user = 0, kernel = 0;
	char path[64], text[1024] = "";
	const char *at;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", agent.pid);
	f = fopen(path, "re");
	assert_non_null(f);
	if (fgets(text, sizeof(text), f) && (at = strrchr(text, ')')))
		sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel);
	fclose(f);
	return (long)(user + kernel);
}

static long idle_ticks(void)
{
	long begin = ticks();

	usleep(IDLE_S * S_US);
	return ticks() - begin;
}

static bool fds_are_back(void *arg)
{
	return agent_proc_descriptors(&agent, NULL) <= fds_before + 4;
}

/* ---- the comparison -------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static unsigned long percentile(uint64_t *samples, uint32_t n, unsigned percent)
{
	assert_in_range(n, 100, SAMPLES_MAX);
	qsort(samples, n, sizeof(uint64_t), by_size);
	return samples[(uint64_t)n * percent / 100];
}

static unsigned long percentile_us(uint64_t *samples_ns, uint32_t n, unsigned percent)
{
	return percentile(samples_ns, n, percent) / 1000;
}

static void print_times(const char *what, uint64_t samples_ns[TURN_KINDS][SAMPLES_MAX])
{
	const uint32_t n[] = { 0, honest->n[BURNERS], honest->n[ATTACK] };

	print_message("# %s: median %lu us beside burners, %lu us attacked; p99 %lu and %lu us\n",
		      what, percentile_us(samples_ns[BURNERS], n[BURNERS], 50),
		      percentile_us(samples_ns[ATTACK], n[ATTACK], 50),
		      percentile_us(samples_ns[BURNERS], n[BURNERS], 99),
		      percentile_us(samples_ns[ATTACK], n[ATTACK], 99));
}

static void take_turn(int turn, useconds_t us)
{
	struct attackers attackers = { .n = 0 };
	int r = turn == ATTACK ? hostile_start(&attackers, agent.socket_path, &host)
			       : hostile_start_burners(&attackers, agent.socket_path, &host);

	assert_int_equal(r, 0);
	honest->turn = turn;
	usleep(us);
	honest->turn = BETWEEN;
	attack_end(&attackers);
}

static void test_ten_of_four_users(void **state)
{
	const char *shorter = getenv("HOSTILE_S");
	const int attack_s = shorter ? atoi(shorter) : ATTACK_S;
	long rss_before, idle_before, idle_after;
	unsigned long burners_us, attack_us, looks_median, looks_p99;
	pid_t pid;

	if (geteuid())
		skip_because("needs root to attack as other users");
	idle_before = idle_ticks();
	fds_before = agent_proc_descriptors(&agent, NULL);
	rss_before = agent_proc_rss_kib(&agent);
	pid = fork();
	if (!pid)
		be_honest();
	assert_true(test_until(is_ready, NULL, 2 * LEVEL_MS));
	for (int i = 0; i < TURNS; i++) {
		take_turn(BURNERS, (useconds_t)attack_s * S_US / TURNS);
		take_turn(ATTACK, (useconds_t)attack_s * S_US / TURNS);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	print_message("# %u samples beside burners, %u attacked\n", honest->n[BURNERS],
		      honest->n[ATTACK]);
	print_times("from a look to the engine awake", honest->wake_ns);
	print_times("from its push to the engine awake", honest->push_ns);
	burners_us = percentile_us(honest->wake_ns[BURNERS], honest->n[BURNERS], 99);
	attack_us = percentile_us(honest->wake_ns[ATTACK], honest->n[ATTACK], 99);
	looks_median = percentile(honest->looks[ATTACK], honest->n[ATTACK], 50);
	looks_p99 = percentile(honest->looks[ATTACK], honest->n[ATTACK], 99);
	print_message("# looks from its push to the engine awake: median %lu, p99 %lu\n",
		      looks_median, looks_p99);
	print_message(
		"# levels of others seen: %u; own levels that woke nobody: %u "
		"beside burners, %u attacked, %u between, %u of them unpublished; rounds alone: %u "
		"beside burners, %u attacked\n",
		honest->foreign, honest->unseen[BURNERS], honest->unseen[ATTACK],
		honest->unseen[BETWEEN], honest->unpublished, honest->alone[BURNERS],
		honest->alone[ATTACK]);
	if (!test_until(fds_are_back, NULL, SETTLE_MS))
		fail_msg("%d descriptors, %d before", agent_proc_descriptors(&agent, NULL),
			 fds_before);
	idle_after = idle_ticks();
	print_message(
		"# descriptors %d, %d before; memory %+ld KiB; %d lines of log; idle %ld ticks, "
		"%ld before\n",
		agent_proc_descriptors(&agent, NULL), fds_before,
		agent_proc_rss_kib(&agent) - rss_before, agent_proc_log_count(&agent, "\n"),
		idle_after, idle_before);
	assert_int_equal(honest->foreign, 0);
	assert_int_equal(honest->unseen[BURNERS] + honest->unseen[ATTACK] + honest->unseen[BETWEEN],
			 0);
	assert_in_range(attack_us, 0, FACTOR_LIMIT * burners_us + SLACK_US);
	assert_in_range(looks_median, 0, LOOKS_MEDIAN);
	assert_in_range(looks_p99, 0, LOOKS_P99);
	assert_true(agent_proc_rss_kib(&agent) - rss_before < RSS_KIB);
	assert_in_range(agent_proc_log_count(&agent, "\n"), 0, LOG_LINES);
	assert_in_range(idle_after, 0, 2 * idle_before + IDLE_TICKS);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_ten_of_four_users, setup, teardown),
	};

	return cmocka_run_group_tests_name("hostile", tests, NULL, NULL);
}
