/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hostile users on the pressure socket: they hold all connections that they can get, and connect
 * without pause. Another user's programs must be served all the same.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "agent/pressure/pressure_watch.h"
#include "support/agent_proc.h"
#include "support/made_host.h"

#define HOSTILE_USERS 4
#define FIRST_HOSTILE 65526
#define HONEST        65530
/* The four users together want more than there are places. */
#define HELD_MAX 1100
#define CONNECTS 700
/* Further connects of each hostile user before the honest user begins. */
#define WARM_UP 100

static struct agent_proc agent;
static struct made_host host;
static pid_t hostile[HOSTILE_USERS];

static int setup(void **state)
{
	static const char *args[] = { "--no-bpf", "--stall-hook", "poll",         "--procfs",
				      host.dir,   "--cgroupfs",   "/nonexistent", NULL };

	if (made_host_init(&host) || made_host_set_level(&host, PN_MEM_LEVEL_CRITICAL) ||
	    agent_proc_init(&agent) || chmod(agent.dir, 0755))
		return -1;
	return agent_proc_start(&agent, args);
}

static int teardown(void **state)
{
	for (int i = 0; i < HOSTILE_USERS; i++) {
		if (hostile[i] > 0) {
			kill(hostile[i], SIGKILL);
			waitpid(hostile[i], NULL, 0);
		}
		hostile[i] = 0;
	}
	agent_proc_destroy(&agent);
	made_host_destroy(&host);
	return 0;
}

/* Becomes this user; the parent goes on once the child is in this cgroup of the made-up host. */
static pid_t fork_as(uid_t uid, const char *cgroup)
{
	const struct rlimit many = { HELD_MAX + 100, HELD_MAX + 100 };
	int go[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (!pid) {
		if (setrlimit(RLIMIT_NOFILE, &many) || setgid(uid) || setuid(uid))
			_exit(1);
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* afterwards: a change of user takes it back */
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		close(go[0]);
		close(go[1]);
		return 0;
	}
	assert_int_equal(made_host_add_process(&host, pid, cgroup), 0);
	assert_int_equal(write(go[1], "", 1), 1);
	close(go[0]);
	close(go[1]);
	return pid;
}

/* A connected socket, or -1. */
static int connect_watcher(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s" PRESSURE_WATCH_SUFFIX,
		 agent.socket_path);
	if (sock < 0 || !connect(sock, (struct sockaddr *)&addr, sizeof(addr)))
		return sock;
	close(sock);
	return -1;
}

/*
 * The level is CRITICAL, so the agent answers a client that writes, unless it has turned the client
 * away: then it closes the connection.
 */
static bool is_served(int sock)
{
	char byte;

	return send(sock, "WATCH", 5, MSG_NOSIGNAL) == 5 && recv(sock, &byte, 1, 0) == 1;
}

/* The agent accepts connections in their order: it has seen all held ones when it ends another. */
static void attack(int ready_fd)
{
	int held = 0;
	char byte;

	while (held < HELD_MAX)
		held += connect_watcher() >= 0;
	for (unsigned n = 1;; n++) {
		int sock = connect_watcher();

		if (sock >= 0) {
			recv(sock, &byte, 1, 0);
			close(sock);
		}
		if (n == WARM_UP && write(ready_fd, "", 1) != 1)
			_exit(1);
	}
}

static void start_attack(void)
{
	char cgroup[32], byte;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	for (int i = 0; i < HOSTILE_USERS; i++) {
		snprintf(cgroup, sizeof(cgroup), "/hostile-%d", i);
		hostile[i] = fork_as(FIRST_HOSTILE + (uid_t)i, cgroup);
		if (!hostile[i])
			attack(fds[1]);
	}
	close(fds[1]);
	for (int i = 0; i < HOSTILE_USERS; i++)
		assert_int_equal(read(fds[0], &byte, 1), 1);
	close(fds[0]);
}

/* How many of CONNECTS are accepted; the first one stays, the others follow one another. */
static int count_served(uid_t uid, const char *cgroup)
{
	int fds[2], served = 0;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork_as(uid, cgroup);
	if (!pid) {
		/* With it the agent keeps the view, and so knows its level at once. */
		int first = connect_watcher();

		served = is_served(first);
		for (int i = 1; i < CONNECTS; i++) {
			int sock = connect_watcher();

			served += sock >= 0 && is_served(sock);
			close(sock);
		}
		_exit(write(fds[1], &served, sizeof(served)) != sizeof(served));
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &served, sizeof(served)), sizeof(served));
	close(fds[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return served;
}

static void test_another_user(void **state)
{
	if (geteuid())
		skip_because("needs root to become another user");
	start_attack();
	assert_int_equal(count_served(HONEST, "/honest"), CONNECTS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_another_user),
	};

	return cmocka_run_group_tests_name("pressure_attack", tests, NULL, NULL);
}
