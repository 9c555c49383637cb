/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any user may send the agent descriptors, of which closing the last reference takes as long as the
 * user likes: a TCP socket with unsent data and SO_LINGER. The agent answers others meanwhile, ends
 * when it is told to, and keeps nothing. On this kernel as it is, which refuses to send them, and
 * as it was before 6.16 (old_kernel.h).
 */
#include <dirent.h>
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
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "agent/pressure/pressure_watch.h"
#include "core/proto.h"
#include "support/agent_proc.h"
#include "support/lingering_socket.h"
#include "support/old_kernel.h"
#include "support/raw_client.h"

#define NOBODY 65534
/* Ten minutes: whoever waits for one has no end before the test's limits. */
#define LINGER_S 600
#define LIMIT_MS 10000
#define SENDERS  40 /* times two descriptors a sender */

static struct agent_proc agent;
static char pressure_path[128];

static int setup(void **state)
{
	if (agent_proc_init(&agent) || chmod(agent.dir, 0755))
		return -1;
	snprintf(pressure_path, sizeof(pressure_path), "%s%s", agent.socket_path,
		 PRESSURE_WATCH_SUFFIX);
	return 0;
}

static int teardown(void **state)
{
	old_kernel_use(false);
	agent_proc_destroy(&agent);
	return 0;
}

static void start(bool old)
{
	static const char *const args[] = { "--no-bpf", "--stall-hook", "poll", NULL };

	old_kernel_use(old);
	assert_int_equal(agent_proc_start(&agent, args), 0);
}

/* ---- who sends ------------------------------------------------------------------------------- */

static int send_with(int sock, const void *text, size_t bytes, int flags, int fd)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(2 * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (void *)text, bytes };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	int fds[2] = { fd, fd };

	if (fd < 0)
		return send(sock, text, bytes, MSG_NOSIGNAL | MSG_DONTWAIT | flags) < 0 ? -errno
											: 0;
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(&control.header), fds, sizeof(fds));
	return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT | flags) < 0 ? -errno : 0;
}

static int pressure_connect(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(addr.sun_path, pressure_path);
	return connect(sock, (struct sockaddr *)&addr, sizeof(addr)) ? -errno : sock;
}

/* Each sends fd in its way and returns 0 or what the last send said. The agent is stopped. */
static int in_a_request(int fd)
{
	struct proto_header ask = proto_header_make(PROTO_POLL_NOW, sizeof(ask), 1);

	return send_with(raw_connect(agent.socket_path), &ask, sizeof(ask), 0, fd);
}

static int in_an_empty_packet(int fd)
{
	return send_with(raw_connect(agent.socket_path), "", 0, 0, fd);
}

static int behind_an_empty_packet(int fd)
{
	int sock = raw_connect(agent.socket_path);

	if (send_with(sock, "", 0, 0, -1))
		return -EIO;
	return send_with(sock, "x", 1, 0, fd);
}

/* The agent drops the client at the first packet and closes the socket with the second in it. */
static int behind_a_bad_request(int fd)
{
	int sock = raw_connect(agent.socket_path);

	if (send_with(sock, "bad", 3, 0, -1))
		return -EIO;
	return send_with(sock, "x", 1, 0, fd);
}

static int and_hung_up(int fd)
{
	struct proto_header ask = proto_header_make(PROTO_STATS, sizeof(ask), 1);
	int sock = raw_connect(agent.socket_path), r;

	if (send_with(sock, &ask, sizeof(ask), 0, -1))
		return -EIO;
	r = send_with(sock, "x", 1, 0, fd);
	close(sock);
	return r;
}

static int to_the_pressure_socket(int fd)
{
	return send_with(pressure_connect(), "Q", 1, 0, fd);
}

static int in_the_next_bytes(int fd)
{
	int sock = pressure_connect();

	if (send_with(sock, "Q1J", 3, 0, -1))
		return -EIO;
	return send_with(sock, "J", 1, 0, fd);
}

static int out_of_band(int fd)
{
	int sock = pressure_connect(), r = send_with(sock, "Q", 1, MSG_OOB, fd);

	return r ? r : send_with(sock, "J", 1, 0, -1);
}

static const struct way {
	const char *name;
	int (*send)(int fd);
} ways[] = {
	{ "in a request", in_a_request },
	{ "in an empty packet", in_an_empty_packet },
	{ "behind an empty packet", behind_an_empty_packet },
	{ "behind a bad request", behind_a_bad_request },
	{ "and hung up", and_hung_up },
	{ "to the pressure socket", to_the_pressure_socket },
	{ "in the next bytes of a stream", in_the_next_bytes },
	{ "out of band", out_of_band },
};

#define WAYS (sizeof(ways) / sizeof(ways[0]))

/* Runs as nobody, sends so often, drops its own reference and stays until it is ended. */
static pid_t sender_start(int (*send)(int fd), int times, int *ret_error)
{
	int told[2], error = 0;
	pid_t pid;

	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (setgid(NOBODY) || setuid(NOBODY) || prctl(PR_SET_PDEATHSIG, SIGKILL))
			error = -errno;
		for (int i = 0; i < times && !error; i++) {
			int fd = lingering_socket(LINGER_S);

			error = fd < 0 ? -ENETDOWN : send(fd);
			if (!error) /* else it is the last one */
				close(fd);
		}
		if (write(told[1], &error, sizeof(error)) == sizeof(error))
			pause();
		_exit(0);
	}
	close(told[1]);
	assert_int_equal(read(told[0], ret_error, sizeof(*ret_error)), sizeof(*ret_error));
	close(told[0]);
	return pid;
}

static void sender_end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- the agent ------------------------------------------------------------------------------- */

static int count_fds(void)
{
	char path[64];
	int n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", agent.pid);
	dir = opendir(path);
	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

static int fds_before;

static bool fds_are_back(void *arg)
{
	return count_fds() <= fds_before;
}

static void expect_answer(int sock, const char *name)
{
	int status = raw_status(sock, PROTO_POLL_NOW);

	if (status)
		fail_msg("%s: the answer to another client: %d", name, status);
}

/* So that it finds all that was sent at once. */
static pid_t send_while_stopped(int (*send)(int fd), int times, int *ret_error)
{
	pid_t pid;

	agent_proc_signal(&agent, SIGSTOP);
	pid = sender_start(send, times, ret_error);
	agent_proc_signal(&agent, SIGCONT);
	return pid;
}

static void test_refused(void **state)
{
	int sock;

	if (!old_kernel_is_new())
		skip_because("the kernel has no SO_PASSRIGHTS");
	start(false);
	sock = raw_connect(agent.socket_path);
	for (size_t i = 0; i < WAYS; i++) {
		int error;
		pid_t pid = send_while_stopped(ways[i].send, 1, &error);

		if (error != -EPERM && error != -EOPNOTSUPP)
			fail_msg("%s: %d", ways[i].name, error);
		expect_answer(sock, ways[i].name);
		sender_end(pid);
	}
	close(sock);
}

static void test_sent(void **state)
{
	int sock;

	start(true);
	sock = raw_connect(agent.socket_path);
	expect_answer(sock, "before");
	fds_before = count_fds();
	for (size_t i = 0; i < WAYS; i++) {
		int error;
		pid_t pid = send_while_stopped(ways[i].send, 1, &error);

		/* Out of band, on a kernel that is built without. */
		if (error && error != -EOPNOTSUPP)
			fail_msg("%s: %d", ways[i].name, error);
		expect_answer(sock, ways[i].name);
		/* The sender still holds its end. Its client is dropped, and waits for nothing. */
		if (!error && !test_until(fds_are_back, NULL, LIMIT_MS))
			fail_msg("%s: %d descriptors, not %d", ways[i].name, count_fds(),
				 fds_before);
		sender_end(pid);
		if (!test_until(fds_are_back, NULL, LIMIT_MS))
			fail_msg("%s: %d descriptors, not %d", ways[i].name, count_fds(),
				 fds_before);
	}
	close(sock);
}

/* More than there are threads that close. */
static void test_many(void **state)
{
	int error, sock;
	pid_t pid;

	start(true);
	sock = raw_connect(agent.socket_path);
	expect_answer(sock, "before");
	fds_before = count_fds();
	pid = send_while_stopped(in_a_request, SENDERS, &error);
	assert_int_equal(error, 0);
	expect_answer(sock, "many");
	assert_true(test_until(fds_are_back, NULL, LIMIT_MS));
	sender_end(pid);
	close(sock);
}

/* With connections that it has not accepted yet, and with some that it has. */
static void test_ends(void **state)
{
	for (size_t i = 0; i < WAYS; i++) {
		int error;
		pid_t pid;

		start(true);
		agent_proc_signal(&agent, SIGSTOP);
		pid = sender_start(ways[i].send, SENDERS, &error);
		agent_proc_signal(&agent, SIGTERM);
		agent_proc_signal(&agent, SIGCONT);
		if (agent_proc_wait(&agent))
			fail_msg("%s: it does not end", ways[i].name);
		sender_end(pid);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_refused),
		TEST(test_sent),
		TEST(test_many),
		TEST(test_ends),
	};

	old_kernel_main(argv);
	return cmocka_run_group_tests_name("descriptors_sent", tests, NULL, NULL);
}
