/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The paths that the agent makes, removes and reads: none of another user's choice. And what it
 * does where it has no descriptor for one more connection.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/log.h"
#include "agent/pressure/pressure_watch.h"
#include "core/proto.h"
#include "host/clock.h"
#include "support/agent_proc.h"
#include "support/raw_client.h"
#include "pn_memwatch.h"

#define NOBODY          65534
#define DESCRIPTORS_MAX 64
#define S_NS            1000000000ull
/* Each tenth of a second the agent tries again, and its own timers wake it. */
#define WAKEUPS_PER_S_MAX 100

static const char *const args[] = { "--no-bpf", "--stall-hook", "poll", NULL };
static struct agent_proc agent;

static int setup(void **state)
{
	return agent_proc_init(&agent) || chmod(agent.dir, 0755) ? -1 : 0;
}

static int teardown(void **state)
{
	agent_proc_destroy(&agent);
	return 0;
}

static unsigned mode_of(const char *path)
{
	struct stat st;

	return lstat(path, &st) ? 0 : st.st_mode & 07777;
}

static void test_modes(void **state)
{
	char path[160];

	umask(0077);
	assert_int_equal(agent_proc_start(&agent, args), 0);
	assert_int_equal(mode_of(agent.socket_path), 0666);
	snprintf(path, sizeof(path), "%s.lock", agent.socket_path);
	assert_int_equal(mode_of(path), 0600);
	snprintf(path, sizeof(path), "%s%s", agent.socket_path, PRESSURE_WATCH_SUFFIX);
	assert_int_equal(mode_of(path), 0666);
}

/* Who may write to the folder can put a link to any file in the place of the socket. */
static void test_folder_of_another(void **state)
{
	static const struct {
		uid_t uid;
		mode_t mode;
		bool served;
	} cases[] = {
		{ NOBODY, 0755, false }, { 0, 0777, false }, { NOBODY, 01777, false },
		{ 0, 01777, true },      { 0, 0755, true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int r;

		assert_int_equal(chown(agent.dir, cases[i].uid, 0), 0);
		assert_int_equal(chmod(agent.dir, cases[i].mode), 0);
		r = agent_proc_start(&agent, args);
		if (r != (cases[i].served ? 0 : -ECHILD))
			fail_msg("case %zu: %d", i, r);
		if (cases[i].served)
			agent_proc_signal(&agent, SIGTERM);
		assert_int_equal(agent_proc_wait(&agent), cases[i].served ? 0 : EXIT_FAILURE);
	}
	assert_int_equal(agent_proc_log_count(&agent, "other users can write to the folder"), 3);
}

/* A folder above it is as good, and so is one that a symbolic link leads through. */
static void test_folder_above(void **state)
{
	char below[128], link[128];

	snprintf(below, sizeof(below), "%s/below", agent.dir);
	snprintf(link, sizeof(link), "%s.link", agent.dir);
	assert_int_equal(mkdir(below, 0755), 0);
	assert_int_equal(symlink(below, link), 0);
	snprintf(agent.socket_path, sizeof(agent.socket_path), "%.80s/s", link);
	assert_int_equal(agent_proc_start(&agent, args), 0);
	agent_proc_signal(&agent, SIGTERM);
	assert_int_equal(agent_proc_wait(&agent), 0);
	assert_int_equal(chown(agent.dir, NOBODY, 0), 0);
	assert_int_equal(agent_proc_start(&agent, args), -ECHILD);
	assert_int_equal(agent_proc_wait(&agent), EXIT_FAILURE);
	unlink(link);
	strcat(below, "/s.lock");
	unlink(below);
	*strrchr(below, '/') = 0;
	rmdir(below);
}

static void test_missing_cgroupfs(void **state)
{
	static const char *const none[] = { "--no-bpf",   "--stall-hook", "poll",
					    "--cgroupfs", "/nonexistent", NULL };
	pn_mem_state mem;
	pn_mem_ext ext;

	assert_int_equal(agent_proc_start(&agent, none), 0);
	assert_int_equal(agent_proc_log_count(&agent, "no cgroups are read: /nonexistent"), 1);
	assert_int_equal(pn_memwatch_start(), 0);
	assert_int_equal(pn_memwatch_read_ext(&mem, &ext), 0);
	assert_int_equal(pn_memwatch_source(), PN_SOURCE_AGENT);
	assert_int_equal(ext.source_state[PN_SRC_CGROUP], PN_SRC_ABSENT);
	assert_int_equal(ext.source_state[PN_SRC_CGROUP_PSI], PN_SRC_ABSENT);
	pn_memwatch_stop();
}

static bool is_gone(void *arg)
{
	return access(arg, F_OK) != 0;
}

static pid_t agent_pid(const char *path)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	int sock = raw_connect(path);

	getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	close(sock);
	return cred.pid;
}

static void test_relative_in_the_background(void **state)
{
	char program[4096];
	int status;
	pid_t pid;

	assert_non_null(realpath(getenv("PNMEMD") ? getenv("PNMEMD") : "build/pnmemd", program));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (!chdir(agent.dir))
			execl(program, program, "--no-bpf", "--stall-hook", "poll", "--socket", "s",
			      NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	pid = agent_pid(agent.socket_path);
	assert_true(pid > 0);
	kill(pid, SIGTERM);
	assert_true(test_until(is_gone, agent.socket_path, 10000));
}

static uint64_t wakeups(int sock)
{
	struct proto_stats_reply reply;

	assert_true(raw_ask(sock, PROTO_STATS, &reply, sizeof(reply)) > 0);
	return reply.stats.wakeups;
}

static void test_descriptor_limit(void **state)
{
	struct rlimit few = { DESCRIPTORS_MAX, DESCRIPTORS_MAX };
	int sock, others[2 * DESCRIPTORS_MAX];
	uint64_t begin_ns, woken;
	double per_s;

	assert_int_equal(agent_proc_start(&agent, args), 0);
	assert_int_equal(prlimit(agent.pid, RLIMIT_NOFILE, &few, NULL), 0);
	sock = raw_connect(agent.socket_path);
	wakeups(sock);
	for (int i = 0; i < 2 * DESCRIPTORS_MAX; i++)
		others[i] = raw_connect(agent.socket_path);
	begin_ns = clock_now_ns();
	woken = wakeups(sock);
	sleep(1);
	per_s = (double)(wakeups(sock) - woken) * S_NS / (double)(clock_now_ns() - begin_ns);
	if (per_s > WAKEUPS_PER_S_MAX)
		fail_msg("the agent wakes %.0f times a second", per_s);
	assert_in_range(agent_proc_log_count(&agent, "cannot accept connections"), 1,
			LOG_LIMIT_LINES);
	for (int i = 0; i < 2 * DESCRIPTORS_MAX; i++)
		close(others[i]);
	/* And it goes on. */
	others[0] = raw_connect(agent.socket_path);
	assert_int_equal(raw_status(others[0], PROTO_POLL_NOW), 0);
	close(others[0]);
	close(sock);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_modes),
		TEST(test_folder_of_another),
		TEST(test_folder_above),
		TEST(test_missing_cgroupfs),
		TEST(test_relative_in_the_background),
		TEST(test_descriptor_limit),
	};

	return cmocka_run_group_tests_name("agent_paths", tests, NULL, NULL);
}
