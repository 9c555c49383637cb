/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One client that moves to another cgroup beside 4000 idle clients and 2000 idle watchers of other
 * users: it is followed within what pnmem-protocol(7) says, and the rounds over all of them do not
 * make other requests wait.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
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
#include "core/proto.h"
#include "host/clock.h"
#include "support/agent_proc.h"
#include "support/group.h"
#include "support/made_host.h"
#include "support/raw_client.h"

/* As many as one cgroup may have places. */
#define USERS    16
#define CLIENTS  180
#define WATCHERS 120
#define FIRST_ID 65000

/* pnmem-protocol(7): where the kernel tells of moves, and where it does not. */
#define TOLD_MS  5000
#define BLIND_MS 10000
/* What a machine with other work to do may add. */
#define SLACK_MS 3000

#define ASKS     300
#define SLACK_NS 5000000ull

static struct agent_proc agent;
static struct made_host host;
static pid_t idlers[USERS];

static int connect_watcher(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s.pressure", agent.socket_path);
	return sock < 0 || connect(sock, (struct sockaddr *)&addr, sizeof(addr)) ? -1 : sock;
}

/* A byte on ready_fd when all are served. */
static void idle_as(uid_t uid, int ready_fd)
{
	const struct rlimit many = { CLIENTS + WATCHERS + 100, CLIENTS + WATCHERS + 100 };
	int sock = -1;

	if (setrlimit(RLIMIT_NOFILE, &many) || setgid(uid) || setuid(uid))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* afterwards: a change of user takes it back */
	for (int i = 0; i < WATCHERS; i++)
		if (connect_watcher() < 0)
			_exit(2);
	for (int i = 0; i < CLIENTS; i++) {
		sock = raw_connect(agent.socket_path);
		if (sock < 0 || raw_hello(sock))
			_exit(3);
	}
	if (write(ready_fd, "", 1) == 1)
		for (;;)
			pause();
	_exit(4);
}

static void start_idlers(void)
{
	int fds[2];
	char byte;

	assert_int_equal(pipe(fds), 0);
	for (int i = 0; i < USERS; i++) {
		idlers[i] = fork();
		if (!idlers[i])
			idle_as(FIRST_ID + (uid_t)i, fds[1]);
	}
	close(fds[1]);
	for (int i = 0; i < USERS; i++)
		assert_int_equal(read(fds[0], &byte, 1), 1);
	close(fds[0]);
}

static void stop_idlers(void)
{
	for (int i = 0; i < USERS; i++) {
		if (idlers[i] <= 0)
			continue;
		kill(idlers[i], SIGKILL);
		waitpid(idlers[i], NULL, 0);
		idlers[i] = 0;
	}
}

static int teardown(void **state)
{
	stop_idlers();
	agent_proc_destroy(&agent);
	made_host_destroy(&host);
	return 0;
}

static void start_agent(const char *const args[])
{
	assert_int_equal(agent_proc_init(&agent), 0);
	assert_int_equal(chmod(agent.dir, 0711), 0);
	assert_int_equal(agent_proc_start(&agent, args), 0);
}

static int connect_client(void)
{
	int sock = raw_connect(agent.socket_path);

	assert_true(sock >= 0);
	assert_int_equal(raw_hello(sock), 0);
	return sock;
}

/* How long the agent takes to hang up on the client. */
static uint64_t hangup_ms(int sock, int limit_ms)
{
	struct pollfd end = { .fd = sock, .events = POLLIN };
	uint64_t begin_ns = clock_now_ns();

	assert_int_equal(poll(&end, 1, limit_ms), 1);
	close(sock);
	return (clock_now_ns() - begin_ns) / 1000000;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The slowest hundredth of requests that need no look. move: something moves all the time. */
static uint64_t slow_ask_ns(int sock, void (*move)(int i))
{
	uint64_t took_ns[ASKS];

	for (int i = 0; i < ASKS; i++) {
		uint64_t begin_ns;

		if (move)
			move(i);
		usleep(10000);
		begin_ns = clock_now_ns();
		assert_int_equal(raw_status(sock, PROTO_STATS), 0);
		took_ns[i] = clock_now_ns() - begin_ns;
	}
	qsort(took_ns, ASKS, sizeof(took_ns[0]), compare);
	return took_ns[ASKS - 1 - ASKS / 100];
}

/* ---- where nothing tells of moves ------------------------------------------------------------ */

static void test_blind(void **state)
{
	const char *const args[] = { "--no-bpf", "--procfs", host.dir, NULL };
	uint64_t took_ms;
	int mover;

	assert_int_equal(made_host_init(&host), 0);
	assert_int_equal(made_host_add_process(&host, getpid(), "/before"), 0);
	start_agent(args);
	mover = connect_client();
	start_idlers();
	assert_int_equal(made_host_add_process(&host, getpid(), "/after"), 0);
	took_ms = hangup_ms(mover, BLIND_MS + SLACK_MS);
	printf("# without hooks a move was seen after %llu ms\n", (unsigned long long)took_ms);
	assert_in_range(took_ms, 0, BLIND_MS + SLACK_MS);
}

/* ---- where the kernel tells of moves --------------------------------------------------------- */

static struct group root, groups[2];
static pid_t walker;

static bool has_hook(int sock, const char *name)
{
	static struct proto_hooks_reply reply;

	assert_true(raw_ask(sock, PROTO_HOOKS, &reply, sizeof(reply)) > 0);
	for (uint32_t i = 0; i < reply.count; i++)
		if (!strcmp(reply.hook[i].hook, name))
			return reply.hook[i].state == PN_HOOK_ACTIVE;
	return false;
}

static void walk(int i)
{
	group_join(&groups[i % 2], walker);
}

/* Says hello in the first group, is moved by its parent, and ends as its connection does. */
static pid_t start_mover(int *ret_sock)
{
	int fds[2];
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	pid = fork();
	if (!pid) {
		struct pollfd end = { .events = POLLIN };

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fds[0]);
		if (group_join(&groups[0], 0))
			_exit(1);
		end.fd = raw_connect(agent.socket_path);
		if (end.fd < 0 || raw_hello(end.fd) || write(fds[1], "", 1) != 1)
			_exit(2);
		poll(&end, 1, -1);
		_exit(0);
	}
	close(fds[1]);
	*ret_sock = fds[0];
	return pid;
}

static void test_told(void **state)
{
	uint64_t took_ms, quiet_ns, moving_ns;
	int client, ready;
	pid_t mover;
	char byte;

	if (group_root(&root) || group_create(&groups[0], &root, "f0") ||
	    group_create(&groups[1], &root, "f1"))
		skip_because("no memory cgroup can be made");
	start_agent(NULL);
	client = connect_client();
	if (!has_hook(client, "raw_tp/cgroup_attach_task"))
		skip_because("no hook tells of moves here");
	mover = start_mover(&ready);
	assert_int_equal(read(ready, &byte, 1), 1);
	start_idlers();
	assert_int_equal(group_join(&groups[1], mover), 0);
	took_ms = hangup_ms(ready, TOLD_MS + SLACK_MS);
	waitpid(mover, NULL, 0);
	printf("# with hooks a move was seen after %llu ms\n", (unsigned long long)took_ms);
	assert_in_range(took_ms, 0, TOLD_MS + SLACK_MS);

	walker = fork();
	if (!walker) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	quiet_ns = slow_ask_ns(client, NULL);
	moving_ns = slow_ask_ns(client, walk);
	kill(walker, SIGKILL);
	waitpid(walker, NULL, 0);
	printf("# requests: p99 %.0f us, with a move every 10 ms %.0f us\n",
	       (double)quiet_ns / 1000, (double)moving_ns / 1000);
	assert_true(moving_ns <= 3 * quiet_ns + SLACK_NS);
	close(client);
}

static int teardown_told(void **state)
{
	int r = teardown(state);

	group_destroy(&groups[0]);
	group_destroy(&groups[1]);
	return r;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_blind, teardown),
		cmocka_unit_test_teardown(test_told, teardown_told),
	};

	if (geteuid()) {
		printf("1..0 # SKIP not root\n# skip: test_follow: not root\n");
		return 0;
	}
	return cmocka_run_group_tests_name("follow", tests, NULL, NULL);
}
