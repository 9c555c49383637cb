/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who the administrator is: root of the host is served, and nobody else who has user number 0, has
 * a namespace of its own, or is an ordinary user. Each tries every request that is privileged.
 */
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
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
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "core/proto.h"
#include "host/send_as.h"
#include "support/agent_proc.h"
#include "support/made_host.h"
#include "support/peer_proc.h"
#include "support/raw_client.h"

#define NOBODY   65534
#define OTHER    65533
#define LIMIT_MS 10000
#define ROUNDS   10

static struct agent_proc agent;
static struct peer_proc engine; /* of another user, with a reservation */

static int setup(void **state)
{
	static const char *const args[] = { "--no-bpf", NULL };

	if (agent_proc_init(&agent) || chmod(agent.dir, 0755))
		return -1;
	setenv("PN_TRACE_DIR", agent.dir, 1);
	return agent_proc_start(&agent, args);
}

static int teardown(void **state)
{
	peer_proc_kill(&engine);
	agent_proc_destroy(&agent);
	return 0;
}

/* ---- clients --------------------------------------------------------------------------------- */

static int write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");
	int r = !file || fputs(text, file) < 0 ? -1 : 0;

	if (file && fclose(file))
		r = -1;
	return r;
}

static int become(uid_t uid)
{
	return setresgid(uid, uid, uid) || setresuid(uid, uid, uid) ? -1 : 0;
}

static int be_ordinary(void)
{
	return become(NOBODY);
}

/* As `unshare -Ur`. */
static int be_root_of_own_namespace(void)
{
	char map[64];

	if (become(NOBODY) || unshare(CLONE_NEWUSER))
		return -1;
	snprintf(map, sizeof(map), "0 %d 1\n", NOBODY);
	return prctl(PR_SET_DUMPABLE, 1) || write_file("/proc/self/setgroups", "deny") ||
			       write_file("/proc/self/uid_map", map) ||
			       write_file("/proc/self/gid_map", map) || setresuid(0, 0, 0)
		       ? -1
		       : 0;
}

/* The parent, which has the capability, writes the map: every user is itself. */
static int be_root_of_identity_namespace(void)
{
	int go[2], status;
	char path[64], byte;
	pid_t pid, self = getpid();

	if (pipe(go))
		return -1;
	pid = fork();
	if (!pid) {
		close(go[1]);
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		snprintf(path, sizeof(path), "/proc/%d/uid_map", self);
		if (write_file(path, "0 0 4294967295\n"))
			_exit(1);
		snprintf(path, sizeof(path), "/proc/%d/gid_map", self);
		_exit(write_file(path, "0 0 4294967295\n") ? 1 : 0);
	}
	if (unshare(CLONE_NEWUSER) || write(go[1], "", 1) != 1 || waitpid(pid, &status, 0) != pid)
		return -1;
	return status ? -1 : geteuid() ? -1 : 0;
}

static int be_root_without_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };

	for (int cap = 0; cap <= 63; cap++)
		if (prctl(PR_CAPBSET_DROP, cap) && errno != EINVAL)
			return -1;
	return syscall(SYS_capset, &header, none) ? -1 : 0;
}

/* ---- what they try --------------------------------------------------------------------------- */

/* Every other answer is a failure of its own. */
static int status_of(int sock, void *request, size_t bytes)
{
	union {
		struct proto_header header;
		char space[8192];
	} reply;
	int fd = -1;

	if (raw_send(sock, request, bytes, NULL, 0))
		return 1;
	if (raw_receive(sock, &reply, sizeof(reply), &fd, LIMIT_MS) < (ssize_t)sizeof(reply.header))
		return 2;
	return fd >= 0 ? 3 : reply.header.status;
}

/* How many reservations are listed, or -errno. */
static int count_reservations(int sock)
{
	struct proto_reservations ask = {
		.header = proto_header_make(PROTO_RESERVATIONS, sizeof(ask), 9),
	};
	struct proto_reservations_reply reply = { 0 };

	if (raw_send(sock, &ask, sizeof(ask), NULL, 0) ||
	    raw_receive(sock, &reply, sizeof(reply), NULL, LIMIT_MS) != sizeof(reply))
		return -EBADMSG;
	return (int)reply.count;
}

/* Returns a number that tells what was not refused, 0: everything was. */
static int try_all(uid_t uid)
{
	struct proto_header hello = proto_header_make(PROTO_HELLO, sizeof(hello), 1);
	struct proto_view_of view_of = {
		.header = proto_header_make(PROTO_VIEW_OF, sizeof(view_of), 2),
		.pid = getppid(),
	};
	struct proto_stats_reply stats;
	int sock = raw_connect(agent.socket_path);

	/* The kernel refuses the proof itself. A sender may name itself, which proves nothing. */
	if (sock < 0 || raw_send_as_admin(sock, &hello, sizeof(hello)) != -EPERM)
		return 1;
	if (send_as(sock, getpid(), &hello, sizeof(hello)) ||
	    raw_receive(sock, &hello, sizeof(hello), NULL, LIMIT_MS) < (ssize_t)sizeof(hello) ||
	    hello.status)
		return 2;
	if (raw_hello(sock))
		return 3;
	if (status_of(sock, &view_of, sizeof(view_of)) != -EPERM)
		return 4;
	if (raw_status(sock, PROTO_TRACE_DUMP) != -EPERM)
		return 5;
	if (raw_status(sock, PROTO_TRACE_RECORD) != -EPERM)
		return 6;
	if (raw_ask(sock, PROTO_STATS, &stats, sizeof(stats)) != sizeof(stats) ||
	    stats.stats.uid_count != 1 || stats.stats.uid[0].uid != uid)
		return 7;
	if (count_reservations(sock))
		return 8;
	return 0;
}

/* Another user has reserved something, which the administrator alone sees. */
static void start_engine(void)
{
	assert_int_equal(peer_proc_start(&engine, OTHER), 0);
	assert_int_equal(peer_proc_do(&engine, (struct peer_ask){ .op = PEER_START }).r, 0);
	assert_int_equal(peer_reserve(&engine, PN_RESERVE_HOST, 4096).r, 0);
}

static void test_refused(void **state)
{
	static const struct {
		const char *name;
		int (*become)(void);
		uid_t uid;
	} cases[] = {
		{ "an ordinary user", be_ordinary, NOBODY },
		{ "root of an ordinary user's namespace", be_root_of_own_namespace, NOBODY },
		{ "root of a namespace with every user", be_root_of_identity_namespace, 0 },
		{ "root without capabilities", be_root_without_capabilities, 0 },
	};

	if (geteuid())
		skip_because("needs root to become others");
	start_engine();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int status;
		pid_t pid = fork();

		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			_exit(cases[i].become() ? 100 : try_all(cases[i].uid));
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (status)
			fail_msg("%s: attempt %d was not refused (100: could not become it)",
				 cases[i].name, WEXITSTATUS(status));
	}
}

/* ---- the administrator ----------------------------------------------------------------------- */

/* How many lines with this text a command prints; -1: it failed. */
static int lines_of(const char *command, const char *text)
{
	FILE *out = popen(command, "re");
	char line[1024];
	int n = 0;

	assert_non_null(out);
	while (fgets(line, sizeof(line), out))
		n += strstr(line, text) != NULL;
	return pclose(out) ? -1 : n;
}

static void test_root_is_served(void **state)
{
	char command[256], uid[32];

	if (geteuid())
		skip_because("needs root");
	start_engine();
	snprintf(uid, sizeof(uid), "uid      %d", OTHER);
	assert_int_equal(lines_of("build/pnmem stats", uid), 1);
	snprintf(uid, sizeof(uid), "\"uid\": %d", OTHER);
	assert_true(lines_of("build/pnmem reservations --json", uid) >= 1);
	snprintf(command, sizeof(command), "build/pnmem status --pid %d", engine.pid);
	assert_true(lines_of(command, "level") >= 1);
	assert_int_equal(lines_of("build/pnmem trace dump", agent.dir), 1);
	snprintf(command, sizeof(command), "build/pnmem trace record -o %s/r -- true 2>&1",
		 agent.dir);
	assert_true(lines_of(command, "") >= 0);
}

/* ---- an agent without the capability --------------------------------------------------------- */

static int setup_own(void **state)
{
	return agent_proc_init(&agent) || chmod(agent.dir, 0755) ||
	       chown(agent.dir, NOBODY, NOBODY);
}

/* The status of a request for another process's view. */
static int view_of_status(bool as_admin)
{
	struct proto_view_of view_of = {
		.header = proto_header_make(PROTO_VIEW_OF, sizeof(view_of), 2),
		.pid = getpid(),
	};
	struct proto_welcome welcome = { 0 };
	int sock = raw_connect(agent.socket_path), r;

	if (sock < 0)
		return sock;
	r = as_admin ? raw_send_as_admin(sock, &view_of, sizeof(view_of))
		     : raw_send(sock, &view_of, sizeof(view_of), NULL, 0);
	if (!r && raw_receive(sock, &welcome, sizeof(welcome), NULL, LIMIT_MS) <
			  (ssize_t)sizeof(welcome.header))
		r = -ETIMEDOUT;
	close(sock);
	return r ? r : welcome.header.status;
}

/*
 * The same in a process that has become another; 100: it could not. As a program that is started.
 */
static int view_of_status_as(uid_t uid, int (*then)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit((uid && become(uid)) || (then && then()) || prctl(PR_SET_DUMPABLE, 1)
			      ? 100
			      : -view_of_status(false));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return -WEXITSTATUS(status);
}

/* Its own user is its administrator, and root of the host; no other user, nor another namespace. */
static void test_agent_of_a_user(void **state)
{
	static const char *const args[] = { "--no-bpf", NULL };
	int status, fds[2];
	pid_t pid;

	if (geteuid())
		skip_because("needs root to become others");
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		int r = become(NOBODY) ? -1 : agent_proc_start(&agent, args);

		if (r || write(fds[1], &agent.pid, sizeof(agent.pid)) != sizeof(agent.pid))
			_exit(1);
		for (;;) /* the agent ends with it */
			pause();
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &agent.pid, sizeof(agent.pid)), sizeof(agent.pid));
	close(fds[0]);
	assert_int_equal(view_of_status(true), 0);
	assert_int_equal(view_of_status_as(NOBODY, NULL), 0);
	assert_int_equal(view_of_status_as(OTHER, NULL), -EPERM);
	assert_int_equal(view_of_status_as(0, be_root_without_capabilities), -EPERM);
	assert_int_equal(view_of_status_as(0, be_root_of_own_namespace), -EPERM);
	kill(agent.pid, SIGKILL);
	agent.pid = 0;
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* ---- places ---------------------------------------------------------------------------------- */

#define USERS       4
#define REFUSED_MAX 20
#define SILENT      200

static struct made_host host;

static int setup_places(void **state)
{
	static const char *args[] = { "--no-bpf", "--procfs", host.dir, NULL };

	if (made_host_init(&host) || made_host_add_process(&host, getpid(), "/test") ||
	    agent_proc_init(&agent) || chmod(agent.dir, 0755))
		return -1;
	return agent_proc_start(&agent, args);
}

static int teardown_places(void **state)
{
	agent_proc_destroy(&agent);
	made_host_destroy(&host);
	return 0;
}

/* Connects until it is refused, and keeps what it has. Returns how many were served. */
static int take_all(void)
{
	int served = 0, refused = 0;

	while (refused < REFUSED_MAX) {
		int sock = raw_connect(agent.socket_path);

		if (sock >= 0 && !raw_hello(sock)) {
			served++;
			continue;
		}
		refused++;
		close(sock);
	}
	return served;
}

/* Connections that say nothing: some stay, and others come and go without end. */
static void connect_silently(void)
{
	for (int i = 0; i < SILENT; i++)
		raw_connect(agent.socket_path);
	for (;;)
		close(raw_connect(agent.socket_path));
}

/* A process that takes all places that it can get. *ret_served is how many. */
static pid_t start_hoarder(uid_t uid, const char *group, int *ret_served)
{
	const struct rlimit many = { 4500, 4500 };
	int fds[2];
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		int served;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setrlimit(RLIMIT_NOFILE, &many) ||
		    made_host_add_process(&host, getpid(), group) ||
		    (uid ? become(uid) : be_root_without_capabilities()))
			_exit(1);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		served = take_all();
		if (write(fds[1], &served, sizeof(served)) != sizeof(served))
			_exit(1);
		if (!uid)
			connect_silently();
		for (;;)
			pause();
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], ret_served, sizeof(*ret_served)), sizeof(*ret_served));
	close(fds[0]);
	return pid;
}

/* Another user, who comes when the hoarders have all that they can get. */
static bool is_ordinary_served(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		int sock = be_ordinary() ? -1 : raw_connect(agent.socket_path);

		_exit(sock < 0 || raw_hello(sock));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return !status;
}

/*
 * Four users and root without capabilities, in three cgroups, have all that they can get, and that
 * root goes on connecting. The host's root is served, and so is a fifth user.
 */
static void test_places(void **state)
{
	static const char *const groups[] = { "/a", "/a", "/b", "/b", "/c" };
	pid_t pids[USERS + 1];
	int served[USERS + 1], status = 0, stats = 0;

	if (geteuid())
		skip_because("needs root to become others");
	for (int i = 0; i <= USERS; i++) {
		pids[i] = start_hoarder(i < USERS ? 60000 + (uid_t)i : 0, groups[i], &served[i]);
		print_message("# hoarder %d has %d places\n", i, served[i]);
		assert_true(served[i] > 0);
	}
	for (int i = 0; i < ROUNDS; i++) {
		stats += lines_of("build/pnmem stats", "clients") > 0;
		status += lines_of("build/pnmem status", "agent") > 0;
	}
	print_message("# %d of %d stats, %d status\n", stats, ROUNDS, status);
	assert_true(is_ordinary_served());
	for (int i = 0; i <= USERS; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	assert_int_equal(stats, ROUNDS);
	assert_int_equal(status, ROUNDS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_refused),
		TEST(test_root_is_served),
		cmocka_unit_test_setup_teardown(test_agent_of_a_user, setup_own, teardown),
		cmocka_unit_test_setup_teardown(test_places, setup_places, teardown_places),
	};

	return cmocka_run_group_tests_name("admin", tests, NULL, NULL);
}
