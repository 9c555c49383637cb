/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pressure socket, with the programs that it is for: one on sd_event_add_memory_pressure,
 * from whatever libsystemd has it, and one that does what systemd.io/PRESSURE says and no more.
 * The agent reads a made-up /proc, so that the level is what the test says.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "agent/log.h"
#include "agent/pressure/pressure_watch.h"
#include "core/proto.h"
#include "host/clock.h"
#include "support/agent_proc.h"
#include "support/raw_client.h"

#define S_NS    1000000000ull
#define PROGRAM "build/tests/host/sd_event_program"

static struct agent_proc agent;
static char proc_dir[80], cgroup_dir[96], watch_path[128];

/* ---- the machine --------------------------------------------------------------------------- */

static void write_file(const char *name, const char *text)
{
	char path[256], aside[260];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", proc_dir, name);
	snprintf(aside, sizeof(aside), "%s.new", path);
	file = fopen(aside, "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(rename(aside, path), 0);
}

/* 8 GiB, of which so much is available: 7000 is OK, 2000 WATCH, 1300 TIGHT, 500 CRITICAL. */
static void available(unsigned mib)
{
	char text[128];

	snprintf(text, sizeof(text), "MemTotal: 8388608 kB\nMemAvailable: %u kB\n", mib * 1024);
	write_file("meminfo", text);
}

static int setup(void **state)
{
	char path[160];

	if (agent_proc_init(&agent))
		return -1;
	snprintf(watch_path, sizeof(watch_path), "%s%s", agent.socket_path, PRESSURE_WATCH_SUFFIX);
	snprintf(proc_dir, sizeof(proc_dir), "%s/proc", agent.dir);
	snprintf(cgroup_dir, sizeof(cgroup_dir), "%s/cgroups", proc_dir);
	snprintf(path, sizeof(path), "%s/pressure", proc_dir);
	if (mkdir(proc_dir, 0755) || mkdir(path, 0755))
		return -1;
	write_file("pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
				      "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
	available(7000);
	setenv("PN_HOST_RESERVE_BYTES", "1G", 1);
	setenv("PN_LEVEL_HOLD_MS", "0", 1);
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	return remove(path);
}

static int teardown(void **state)
{
	agent_proc_kill(&agent);
	nftw(proc_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	agent_proc_destroy(&agent);
	return 0;
}

/* It polls: a level is there within 250 ms. */
static void start(void)
{
	const char *args[] = { "--no-bpf", "--stall-hook", "poll",     "--procfs",
			       proc_dir,   "--cgroupfs",   cgroup_dir, NULL };

	assert_int_equal(agent_proc_start(&agent, args), 0);
}

/* ---- a client by the document ---------------------------------------------------------------- */

static int client_connect(const void *text, size_t bytes)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(addr.sun_path, watch_path);
	assert_int_equal(connect(sock, (struct sockaddr *)&addr, sizeof(addr)), 0);
	if (bytes)
		assert_int_equal(send(sock, text, bytes, MSG_NOSIGNAL), bytes);
	return sock;
}

/* Whether it is told within this time; takes what it is sent. */
static bool told(int sock, int limit_ms)
{
	struct pollfd poll_fd = { .fd = sock, .events = POLLIN };
	char byte[16];

	return poll(&poll_fd, 1, limit_ms) == 1 && recv(sock, byte, sizeof(byte), 0) > 0;
}

static void test_what_is_written(void **unused)
{
	static const struct {
		const char *text;
		size_t bytes;
		unsigned not_at_mib, at_mib; /* available */
	} cases[] = {
		{ "", 0, 2000, 1200 },
		{ "WATCH", 5, 7000, 2000 },
		{ "tight\n", 6, 2000, 1200 },
		{ "CRITICAL", 9, 1200, 500 }, /* with its NUL */
		{ "some 200000 2000000", 20, 2000, 1200 },
		{ "\xff\x00\x01", 3, 2000, 1200 },
		{ "CRITICALLY so, and on and on and on", 35, 2000, 1200 },
	};
	enum { N = sizeof(cases) / sizeof(cases[0]) };
	static const unsigned steps[] = { 2000, 1200, 500 };
	bool was_told[N] = { false };
	int socks[N];

	start();
	for (size_t i = 0; i < N; i++)
		socks[i] = client_connect(cases[i].text, cases[i].bytes);
	for (size_t i = 0; i < N; i++)
		assert_false(told(socks[i], i ? 0 : 600)); /* OK: two polls and more */
	for (size_t step = 0; step < 3; step++) {
		available(steps[step]);
		for (size_t i = 0; i < N; i++)
			if (cases[i].at_mib == steps[step])
				assert_true(was_told[i] = told(socks[i], 2000));
			else if (!was_told[i])
				assert_false(told(socks[i], 0));
	}
	for (size_t i = 0; i < N; i++)
		close(socks[i]);
}

/* A name that comes in two writes counts as a whole. */
static void test_written_in_pieces(void **unused)
{
	int sock;

	start();
	sock = client_connect("CRIT", 4);
	assert_int_equal(send(sock, "ICAL", 4, MSG_NOSIGNAL), 4);
	available(1200);
	assert_false(told(sock, 1000));
	available(500);
	assert_true(told(sock, 2000));
	close(sock);
}

/* While it lasts, not more often than once a second; not any more when it is over. */
static void test_repeated(void **unused)
{
	uint64_t first_ns, now_ns;
	int sock, n = 0;

	start();
	sock = client_connect(NULL, 0);
	available(1200);
	assert_true(told(sock, 2000));
	first_ns = clock_now_ns();
	do
		n += told(sock, 500);
	while ((now_ns = clock_now_ns()) - first_ns < 2500000000ull);
	assert_in_range(n, 1, (int)((now_ns - first_ns) / S_NS) + 1);
	available(7000);
	told(sock, 300); /* what was under way: the next poll sees it */
	assert_false(told(sock, 1200));
	close(sock);
}

/* Who does not read has one byte waiting, and no more. */
static void test_one_unread(void **unused)
{
	int reads, sleeps, waiting = -1;

	start();
	reads = client_connect(NULL, 0);
	sleeps = client_connect(NULL, 0);
	available(1200);
	for (int i = 0; i < 2; i++)
		assert_true(told(reads, 3000));
	assert_int_equal(ioctl(sleeps, FIONREAD, &waiting), 0);
	assert_int_equal(waiting, 1);
	close(reads);
	close(sleeps);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void make_group(const char *name, const char *max, const char *current)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", cgroup_dir, name);
	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "cgroups/%s/memory.max", name);
	write_file(path, max);
	snprintf(path, sizeof(path), "cgroups/%s/memory.current", name);
	write_file(path, current);
}

/* This process is in this group of the made-up machine. */
static void be_in(const char *name)
{
	char path[64], text[64];

	snprintf(path, sizeof(path), "%d/cgroup", (int)getpid());
	snprintf(text, sizeof(text), "0::/%s\n", name);
	write_file(path, text);
}

/*
 * One that moves is told of where it is, on the same connection; while somebody asks for looks all
 * the time, which must not keep the agent from finding out.
 */
static void test_moved(void **unused)
{
	char path[256];
	int sock, asks;
	bool is_told = false;

	snprintf(path, sizeof(path), "%s/%d", proc_dir, (int)getpid());
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(mkdir(cgroup_dir, 0755), 0);
	write_file("cgroups/cgroup.controllers", "memory\n");
	make_group("calm", "8589934592\n", "1048576\n");
	make_group("full", "8589934592\n", "8388608000\n");
	be_in("calm");
	start();
	sock = client_connect(NULL, 0);
	asks = raw_connect(agent.socket_path);
	assert_int_equal(raw_hello(asks), 0);
	assert_false(told(sock, 600));
	be_in("full");
	for (int i = 0; i < 500 && !is_told; i++) {
		assert_true(raw_status(asks, PROTO_POLL_NOW) <= 0); /* it has moved too */
		is_told = told(sock, 20);
		if (i % 10 || is_told)
			continue;
		close(asks);
		asks = raw_connect(agent.socket_path);
	}
	assert_true(is_told);
	close(sock);
	close(asks);
}

/* ---- clients that mean no good ------------------------------------------------------------- */

/* Writes without end, half-closes, or leaves at once: the others are told all the same, and no
 * descriptor stays behind. */
static void test_bad_clients(void **unused)
{
	static const char flood[65536];
	int good, flooder, half;
	uint64_t end_ns;

	start();
	good = client_connect(NULL, 0);
	flooder = client_connect(NULL, 0);
	half = client_connect("CRITICAL", 8);
	assert_int_equal(shutdown(half, SHUT_WR), 0);
	for (int i = 0; i < 300; i++)
		close(client_connect("WATCH", 5));
	available(1200);
	end_ns = clock_now_ns() + S_NS;
	while (clock_now_ns() < end_ns)
		send(flooder, flood, sizeof(flood), MSG_DONTWAIT | MSG_NOSIGNAL);
	assert_true(told(good, 2000));
	assert_false(told(half, 0)); /* it has hung up */
	close(flooder);
	close(half);
	close(good);
	agent_proc_signal(&agent, SIGTERM);
	assert_int_equal(agent_proc_wait(&agent), 0);
}

/* One user's share is bounded; the next is turned away, with one line for all of them. */
static void test_limit(void **unused)
{
	enum { SHARE = 2048, MORE = 8 };
	static int socks[SHARE + MORE];
	struct rlimit limit = { SHARE + 100, SHARE + 100 }, before;
	int n_closed = 0;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit.rlim_max = before.rlim_max;
	if (limit.rlim_cur > limit.rlim_max)
		skip_because("needs %lu descriptors", (unsigned long)limit.rlim_cur);
	if (before.rlim_cur < limit.rlim_cur)
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	start();
	for (int i = 0; i < SHARE + MORE; i++)
		socks[i] = client_connect(NULL, 0);
	for (int i = 0; i < MORE; i++) {
		char byte;

		n_closed += recv(socks[SHARE + i], &byte, 1, 0) == 0;
	}
	assert_int_equal(n_closed, MORE);
	available(1200);
	assert_true(told(socks[0], 3000));
	assert_true(told(socks[SHARE - 1], 3000));
	for (int i = 0; i < SHARE + MORE; i++)
		close(socks[i]);
	assert_in_range(agent_proc_log_count(&agent, "was turned away"), 1, LOG_LIMIT_LINES);
	setrlimit(RLIMIT_NOFILE, &before);
}

/* ---- the socket file ------------------------------------------------------------------------- */

static void test_file(void **unused)
{
	struct stat st;
	int fd;

	start();
	assert_int_equal(lstat(watch_path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0666);
	agent_proc_kill(&agent);
	assert_int_equal(lstat(watch_path, &st), 0); /* left behind, and replaced */
	start();
	close(client_connect(NULL, 0));
	agent_proc_signal(&agent, SIGTERM);
	assert_int_equal(agent_proc_wait(&agent), 0);
	assert_int_equal(lstat(watch_path, &st), -1);

	/* What is not ours stays, and the agent does without. */
	fd = open(watch_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	start();
	assert_int_equal(agent_proc_log_count(&agent, "no pressure socket at"), 1);
	agent_proc_signal(&agent, SIGTERM);
	assert_int_equal(agent_proc_wait(&agent), 0);
	assert_int_equal(lstat(watch_path, &st), 0);
	assert_true(S_ISREG(st.st_mode));
}

/* ---- restarts under systemd ------------------------------------------------------------------ */

/* What systemd is: a datagram socket of this name, which takes descriptors. */
static int manager_open(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const struct timeval limit = { .tv_sec = 5 };
	int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/notify", agent.dir);
	assert_int_equal(bind(sock, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	setenv("NOTIFY_SOCKET", addr.sun_path, 1);
	return sock;
}

static unsigned manager_ready, manager_alive; /* messages of that kind */

/* The next descriptor to be stored, and its name. */
static int manager_take(int sock, char *ret_name, size_t bytes)
{
	char text[512], control[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
	int fd = -1;

	while (fd < 0) {
		struct iovec iov = { text, sizeof(text) - 1 };
		struct msghdr msg = { .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = control,
				      .msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
		const char *name;

		assert_true(n >= 0);
		text[n] = 0;
		manager_ready += !strncmp(text, "READY=1", 7);
		manager_alive += !strncmp(text, "WATCHDOG=1", 10);
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
			if (c->cmsg_type == SCM_RIGHTS)
				memcpy(&fd, CMSG_DATA(c), sizeof(fd));
		name = strstr(text, "FDNAME=");
		assert_true(fd < 0 || (strstr(text, "FDSTORE=1") && name));
		snprintf(ret_name, bytes, "%s", name ? name + strlen("FDNAME=") : "");
		ret_name[strcspn(ret_name, "\n")] = 0;
	}
	return fd;
}

static bool answers(void *arg)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool connected;

	strcpy(addr.sun_path, watch_path);
	connected = !connect(sock, (struct sockaddr *)&addr, sizeof(addr));
	close(sock);
	return connected;
}

/* As systemd starts it, with two stored descriptors: one of ours, and one of whoever. */
static void start_again(int stored, const char *name)
{
	char number[16], names[128];

	agent.pid = fork();
	if (!agent.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(stored, 200);
		dup2(200, 3);
		dup2(200, 4);
		snprintf(number, sizeof(number), "%d", getpid());
		snprintf(names, sizeof(names), "%s:other", name);
		setenv("LISTEN_PID", number, 1);
		setenv("LISTEN_FDS", "2", 1);
		setenv("LISTEN_FDNAMES", names, 1);
		execl("build/pnmemd", "pnmemd", "--foreground", "--no-bpf", "--stall-hook", "poll",
		      "--procfs", proc_dir, "--socket", agent.socket_path, NULL);
		_exit(127);
	}
	assert_true(test_until(answers, NULL, 10000));
}

/* Its client does not notice, and is told by the next agent what it had asked the last one for. */
static void test_outlives_the_agent(void **unused)
{
	struct pollfd client = { .events = POLLIN | POLLRDHUP };
	int manager = manager_open(), stored;
	char name[64], path[160];

	start();
	client.fd = client_connect("CRITICAL", 8);
	stored = manager_take(manager, name, sizeof(name));
	agent_proc_kill(&agent);
	assert_int_equal(poll(&client, 1, 0), 0); /* not even hung up */
	available(1200);
	start_again(stored, name);
	close(stored);
	assert_false(told(client.fd, 600));
	available(500);
	assert_true(told(client.fd, 2000));
	/* Now that nobody else has it, it ends with the agent. */
	agent_proc_signal(&agent, SIGTERM);
	assert_int_equal(agent_proc_wait(&agent), 0);
	assert_int_equal(poll(&client, 1, 0), 1);
	assert_true(client.revents & POLLRDHUP);
	close(client.fd);
	close(manager);
	unsetenv("NOTIFY_SOCKET");
	snprintf(path, sizeof(path), "%s/notify", agent.dir);
	unlink(path);
}

/* As many messages as it takes, of nothing. */
static void manager_fill(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	strcpy(addr.sun_path, getenv("NOTIFY_SOCKET"));
	while (sendto(sock, "X=1", 3, MSG_DONTWAIT, (struct sockaddr *)&addr, sizeof(addr)) == 3)
		;
	assert_int_equal(errno, EAGAIN);
	close(sock);
}

/* It does not read, and nobody waits for it but what it is to be told: that goes there later. */
static void test_manager_is_busy(void **unused)
{
	enum { N = 40 };
	int manager = manager_open(), watchers[N], sock;
	char name[64], path[160];

	manager_fill();
	setenv("WATCHDOG_USEC", "400000", 1);
	start();
	sock = raw_connect(agent.socket_path);
	assert_int_equal(raw_hello(sock), 0);
	for (int i = 0; i < N; i++)
		watchers[i] = client_connect("CRITICAL", 8);
	for (int i = 0; i < 20; i++)
		assert_int_equal(raw_status(sock, PROTO_POLL_NOW), 0);
	available(500);
	for (int i = 0; i < N; i++)
		assert_true(told(watchers[i], 2000));
	manager_ready = manager_alive = 0;
	for (int i = 0; i < N; i++) {
		int stored = manager_take(manager, name, sizeof(name));

		assert_string_equal(name, "pressure-3");
		close(stored);
	}
	assert_int_equal(manager_ready, 1);
	assert_true(manager_alive > 0);
	manager_fill();
	agent_proc_signal(&agent, SIGTERM);
	assert_int_equal(agent_proc_wait(&agent), 0);
	for (int i = 0; i < N; i++)
		close(watchers[i]);
	close(sock);
	close(manager);
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	snprintf(path, sizeof(path), "%s/notify", agent.dir);
	unlink(path);
}

/* ---- a program on sd-event ------------------------------------------------------------------- */

/* Path of a libsystemd that has the call; or false, and why. */
static bool find_libsystemd(char *ret_path, size_t bytes)
{
	FILE *found = popen("tools/fetch-libsystemd --cached 2>&1", "r");

	strcpy(ret_path, "tools/fetch-libsystemd says nothing");
	if (!found || !fgets(ret_path, (int)bytes, found))
		return false;
	ret_path[strcspn(ret_path, "\n")] = 0;
	return !pclose(found);
}

/* Returns when it watches; what it says comes on *ret_fd. */
static pid_t program_start(const char *libsystemd, const char *write_base64, int *ret_fd)
{
	int fds[2];
	char said = 0;
	pid_t pid;

	setenv("MEMORY_PRESSURE_WATCH", watch_path, 1);
	if (write_base64)
		setenv("MEMORY_PRESSURE_WRITE", write_base64, 1);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(fds[1], STDOUT_FILENO);
		execl(PROGRAM, PROGRAM, libsystemd, NULL);
		_exit(127);
	}
	unsetenv("MEMORY_PRESSURE_WATCH");
	unsetenv("MEMORY_PRESSURE_WRITE");
	close(fds[1]);
	assert_int_equal(read(fds[0], &said, 1), 1);
	assert_int_equal(said, '+');
	*ret_fd = fds[0];
	return pid;
}

static bool handler_ran(int fd, int limit_ms)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	char byte[256];

	return poll(&poll_fd, 1, limit_ms) == 1 && read(fd, byte, sizeof(byte)) > 0;
}

static void program_end(pid_t pid, int fd)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
}

/* Unmodified: the variables, sd_event_add_memory_pressure, and its handler runs. */
static void test_sd_event(void **unused)
{
	int plain_fd, critical_fd;
	pid_t plain, critical;
	char libsystemd[512];

	if (!find_libsystemd(libsystemd, sizeof(libsystemd)))
		skip_because("sd_event_add_memory_pressure: %s", libsystemd);
	start();
	plain = program_start(libsystemd, NULL, &plain_fd);
	critical = program_start(libsystemd, "Q1JJVElDQUw=", &critical_fd);
	assert_false(handler_ran(plain_fd, 600));
	available(1200);
	assert_true(handler_ran(plain_fd, 2000));
	assert_true(handler_ran(plain_fd, 3000)); /* again: it had taken what it was sent */
	assert_false(handler_ran(critical_fd, 0));
	available(500);
	assert_true(handler_ran(critical_fd, 2000));
	program_end(plain, plain_fd);
	program_end(critical, critical_fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_what_is_written),
		TEST(test_written_in_pieces),
		TEST(test_repeated),
		TEST(test_one_unread),
		TEST(test_bad_clients),
		TEST(test_moved),
		TEST(test_limit),
		TEST(test_file),
		TEST(test_outlives_the_agent),
		TEST(test_manager_is_busy),
		TEST(test_sd_event),
	};

	return cmocka_run_group_tests_name("pressure_watch", tests, NULL, NULL);
}
