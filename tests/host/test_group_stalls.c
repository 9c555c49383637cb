/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What groups at their own limits do to the levels of others, with real stalls. Both attacks run as
 * one user and the engine that watches is another one's, in a group without a limit.
 *
 *   Raise: a group that nobody watches stalls at its limit. The engine is shown nothing of it.
 *   Lower: three watched groups stall at their limits at the same time, and stop. Then a task
 *          without a limit stalls. The engine is shown that at once.
 *
 * The test's own hooks record every stall and whose it is. So what other programs stall meanwhile
 * is known, and the engine may be shown that.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../filter.h"
#include "../skip.h"
#include "agent/hooks/hooks.h"
#include "host/clock.h"
#include "support/agent_proc.h"
#include "support/file_write.h"
#include "support/group.h"
#include "support/pressure.h"
#include "pn_memwatch.h"

#define MIB          (1ull << 20)
#define MS_NS        1000000ull
#define LIMIT_MS     60000
#define ATTACKERS    3
#define LIMIT_MIB    40
#define FILE_MIB     200
#define VICTIM_LIMIT "67M" /* of half of that */
#define RING_BYTES   (4u << 20)
#define ENGINE_UID   65534
/* The kernel counts a stall from a moment before the hook does, which is long where it emulates. */
#define SLACK_PCT  0.5
#define ATTACK_UID 65533

/* One group of the test and what its tasks have stalled, by the records of the test's hooks. */
struct place {
	struct group group;
	uint64_t id; /* as records have it */
	uint64_t stall_ns;
};

static struct agent_proc agent;
static struct hooks *hooks;
static struct place attackers[ATTACKERS], watcher, victim;
static struct place *const places[] = { &attackers[0], &attackers[1], &attackers[2], &watcher,
					&victim };
static uint64_t foreign_ns; /* what all other tasks have stalled */
static pid_t processes[16];
static unsigned n_processes;
static int engine_sock;

#define PLACES (sizeof(places) / sizeof(places[0]))

static void on_record(void *arg, const struct pn_event *event)
{
	if (event->kind != PN_EVENT_STALL && event->kind != PN_EVENT_STALL_END)
		return;
	for (size_t i = 0; i < PLACES; i++)
		if (places[i]->id && places[i]->id == event->cgroup_id) {
			places[i]->stall_ns += event->value;
			return;
		}
	foreign_ns += event->value;
}

static void place_make(struct place *place, const char *name)
{
	struct group root;
	struct stat st;
	int r = geteuid() ? -EPERM : group_root(&root);

	if (!r)
		r = group_create(&place->group, &root, name);
	if (r)
		skip_because("no memory cgroup can be made: %s", strerror(-r));
	if (!stat(place->group.v2[0] ? place->group.v2 : place->group.memory, &st))
		place->id = st.st_ino;
}

static int setup(void **state)
{
	n_processes = 0;
	foreign_ns = 0;
	engine_sock = -1;
	for (size_t i = 0; i < PLACES; i++)
		memset(places[i], 0, sizeof(*places[i]));
	if (agent_proc_init(&agent))
		return -1;
	return chmod(agent.dir, 0755); /* the engine is another user's */
}

static int teardown(void **state)
{
	while (n_processes)
		pressure_stop(processes[--n_processes]);
	if (engine_sock >= 0)
		close(engine_sock);
	hooks_close(hooks);
	hooks = NULL;
	agent_proc_destroy(&agent);
	for (size_t i = 0; i < PLACES; i++)
		group_destroy(&places[i]->group);
	return 0;
}

/* Starts the agent and the test's own hooks, which must see tasks wait. */
static void start_agent(void)
{
	const struct hooks_options options = { .record_all = true, .ring_bytes = RING_BYTES };
	uint64_t any_ns, others_ns;

	if (hooks_open(&hooks, &options, on_record, NULL) ||
	    !hooks_stall_clocks(hooks, &any_ns, &others_ns))
		skip_because("no hook here sees tasks wait for memory");
	if (access("/proc/pressure/memory", R_OK))
		skip_because("the kernel has no PSI");
	assert_int_equal(agent_proc_start(&agent, NULL), 0);
}

/* Forks into a group; as this user unless that is 0. Returns as fork does. */
static pid_t child_start(const struct place *place, uid_t uid)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid) {
		processes[n_processes++] = pid;
		return pid;
	}
	if (group_join(&place->group, 0) || (uid && (setgid(uid) || setuid(uid))))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	return 0;
}

static void expect_ready(int fd)
{
	assert_int_equal(read(fd, &(char){ 0 }, 1), 1);
	close(fd);
}

/* ---- the engine that watches ----------------------------------------------------------------- */

/* Answers with what it sees whenever it is asked. */
static void engine_run(int sock)
{
	struct {
		pn_mem_state state;
		pn_mem_ext ext;
	} answer;
	char ask;

	if (pn_memwatch_start() || pn_memwatch_source() != PN_SOURCE_AGENT)
		_exit(1);
	while (read(sock, &ask, 1) == 1) {
		if (pn_memwatch_read_ext(&answer.state, &answer.ext) ||
		    write(sock, &answer.ext, sizeof(answer.ext)) != sizeof(answer.ext))
			break;
	}
	_exit(1);
}

static void engine_start(const struct place *place)
{
	int sock[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), 0);
	if (!child_start(place, ENGINE_UID)) {
		close(sock[0]);
		engine_run(sock[1]);
	}
	close(sock[1]);
	engine_sock = sock[0];
}

static pn_mem_ext engine_ask(void)
{
	pn_mem_ext ext;

	assert_int_equal(write(engine_sock, "r", 1), 1);
	assert_int_equal(recv(engine_sock, &ext, sizeof(ext), MSG_WAITALL), sizeof(ext));
	return ext;
}

/* ---- the attackers --------------------------------------------------------------------------- */

/* A process in the group that stalls for as long as it runs. watched: it attaches, too. */
static void attacker_start(struct place *place, bool watched)
{
	int ready[2];

	assert_int_equal(group_set_max(&place->group, LIMIT_MIB * MIB), 0);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	if (!child_start(place, ATTACK_UID)) {
		/* Its reader is in the group that it is in. */
		struct pressure_group load = { .file_fd = -1 };

		if ((watched && (pn_memwatch_start() || pn_memwatch_source() != PN_SOURCE_AGENT)) ||
		    pressure_start_reader(&load, FILE_MIB * MIB) < 0 || write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	expect_ready(ready[0]);
}

static bool has_stalled(void *arg)
{
	const struct place *place = arg;

	hooks_consume(hooks);
	return place->stall_ns >= 2000 * MS_NS;
}

/* ---- the tests ------------------------------------------------------------------------------- */

/* No more than before and what other tasks may have added to a mean over ten seconds. */
static void expect_not_raised(const pn_mem_ext *before, const pn_mem_ext *ext)
{
	double foreign_pct;

	hooks_consume(hooks);
	foreign_pct = (double)foreign_ns / 1e9 * 11;
	if (ext->live_psi_some_avg10 > before->live_psi_some_avg10 + foreign_pct + SLACK_PCT ||
	    ext->live_psi_full_avg10 > before->live_psi_full_avg10 + foreign_pct + SLACK_PCT)
		fail_msg("some %.2f %% and full %.2f %%, before it was %.2f and %.2f, and %.3f s "
			 "are others' stalls",
			 ext->live_psi_some_avg10, ext->live_psi_full_avg10,
			 before->live_psi_some_avg10, before->live_psi_full_avg10,
			 (double)foreign_ns / 1e9);
}

static void test_raise(void **state)
{
	pn_mem_ext before, ext;
	uint64_t end_ns;

	place_make(&attackers[0], "attacker");
	place_make(&watcher, "watcher");
	start_agent();
	engine_start(&watcher);
	before = engine_ask();
	hooks_consume(hooks);
	foreign_ns = 0;
	attacker_start(&attackers[0], false);
	end_ns = clock_now_ns() + LIMIT_MS * MS_NS;
	do {
		usleep(20000); /* the load goes on: what it does in that time is judged */
		ext = engine_ask();
		expect_not_raised(&before, &ext);
		assert_true(clock_now_ns() < end_ns);
	} while (!has_stalled(&attackers[0]));
	print_message("# %.1f s stalled at a limit; the engine saw some %.2f %% full %.2f %%, "
		      "others stalled %.3f s\n",
		      (double)attackers[0].stall_ns / 1e9, ext.live_psi_some_avg10,
		      ext.live_psi_full_avg10, (double)foreign_ns / 1e9);
}

/*
 * Reads a file over and over in a group without a limit, which has one for a moment now and then:
 * that evicts a third of the file, and the reader then waits for pages that it had before. (What is
 * left must be more than what was evicted, or the kernel does not call it a stall.) The reader is
 * stopped in that moment, so it stalls only while there is no limit.
 */
static void victim_start(void)
{
	const char *limit = victim.group.is_v1 ? "memory.limit_in_bytes" : "memory.max";
	struct pressure_group load = { .file_fd = -1 };
	pid_t reader;

	if (child_start(&victim, 0))
		return;
	reader = pressure_start_reader(&load, FILE_MIB / 2 * MIB);
	if (reader < 0)
		_exit(1);
	for (;;) {
		usleep(100000); /* for the reader */
		kill(reader, SIGSTOP);
		waitpid(reader, NULL, WUNTRACED);
		/* Without group_set_max, which limits swap too and cannot take that away on v1. */
		file_write(victim.group.memory, limit, VICTIM_LIMIT);
		file_write(victim.group.memory, limit, victim.group.is_v1 ? "-1" : "max");
		kill(reader, SIGCONT);
	}
}

static bool victim_has_stalled(void *arg)
{
	hooks_consume(hooks);
	return victim.stall_ns >= 500 * MS_NS;
}

static void test_lower(void **state)
{
	static const char *const names[] = { "one", "two", "three" };
	pn_mem_ext before, after;
	uint64_t begin_ns, dt_ns;
	double kept, least_pct;

	for (int i = 0; i < ATTACKERS; i++)
		place_make(&attackers[i], names[i]);
	place_make(&watcher, "watcher");
	place_make(&victim, "victim");
	start_agent();
	engine_start(&watcher);
	for (int i = 0; i < ATTACKERS; i++)
		attacker_start(&attackers[i], true);
	for (int i = 0; i < ATTACKERS; i++)
		assert_true(test_until(has_stalled, &attackers[i], LIMIT_MS));
	while (n_processes > 1)
		pressure_stop(processes[--n_processes]);
	before = engine_ask();
	begin_ns = clock_now_ns();
	victim_start();
	assert_true(test_until(victim_has_stalled, NULL, LIMIT_MS));
	after = engine_ask();
	dt_ns = clock_now_ns() - begin_ns;
	print_message("# three groups stalled %.1f, %.1f and %.1f s; the victim %.1f of %.1f s: "
		      "the engine "
		      "saw some %.2f %% before and %.2f %% after\n",
		      (double)attackers[0].stall_ns / 1e9, (double)attackers[1].stall_ns / 1e9,
		      (double)attackers[2].stall_ns / 1e9, (double)victim.stall_ns / 1e9,
		      (double)dt_ns / 1e9, before.live_psi_some_avg10, after.live_psi_some_avg10);
	/* The average keeps this share of what it was, and the victim may be half of the CPUs. */
	kept = pow(1677.0 / 2048, (double)dt_ns / 2e9);
	least_pct = 100.0 * (double)victim.stall_ns / (double)dt_ns * (1 - kept) / 4;
	assert_true(after.live_psi_some_avg10 >= before.live_psi_some_avg10 * kept + least_pct);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_raise, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lower, setup, teardown),
	};

	filter_from_environment();
	return cmocka_run_group_tests_name("group_stalls", tests, NULL, NULL);
}
