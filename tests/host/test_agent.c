/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent as an operator meets it: starting, refusing to start, ending, bad settings, broken
 * proc files, and clients that mean no good. Without BPF where hooks do not matter, so that most
 * of it runs without root too.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
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
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "core/proto.h"
#include "support/agent_proc.h"
#include "support/made_host.h"
#include "support/raw_client.h"
#include "pn_memwatch.h"

static const char *const no_bpf[] = { "--no-bpf", NULL };
static struct agent_proc agent;

static int setup(void **state)
{
	return agent_proc_init(&agent);
}

static int teardown(void **state)
{
	pn_memwatch_stop();
	agent_proc_destroy(&agent);
	return 0;
}

/* The agent answers a well-behaved client. */
static void expect_serving(void)
{
	struct raw_client client;

	assert_int_equal(raw_client_open(&client, agent.socket_path), 0);
	assert_int_equal(client.agent_pid, agent.pid);
	raw_client_close(&client);
}

/* ---- starting and ending ------------------------------------------------------------------- */

static void test_second_agent(void **state)
{
	struct agent_proc second;

	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	second = agent;
	assert_int_equal(agent_proc_start(&second, no_bpf), 0); /* the first one answers */
	assert_int_equal(agent_proc_wait(&second), 1);
	assert_int_equal(agent_proc_log_count(&agent, "another agent already serves"), 1);
	expect_serving();
}

static void test_signals(void **state)
{
	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	agent_proc_signal(&agent, SIGHUP);
	expect_serving();
	assert_int_equal(agent_proc_log_count(&agent, "SIGHUP"), 1);
	agent_proc_signal(&agent, SIGTERM);
	assert_int_equal(agent_proc_wait(&agent), 0);
	assert_int_equal(access(agent.socket_path, F_OK), -1);
}

static int count_our_programs(void)
{
	struct bpf_prog_info info;
	__u32 id = 0, len;
	int n = 0, fd;

	while (!bpf_prog_get_next_id(id, &id)) {
		fd = bpf_prog_get_fd_by_id(id);
		if (fd < 0)
			continue;
		memset(&info, 0, sizeof(info));
		len = sizeof(info);
		if (!bpf_obj_get_info_by_fd(fd, &info, &len))
			n += !strncmp(info.name, "stall_", 6);
		close(fd);
	}
	return n;
}

static bool no_programs(void *arg)
{
	return count_our_programs() == *(int *)arg;
}

static void test_hooks_detached_at_the_end(void **state)
{
	int before, with;

	if (geteuid())
		skip_because("needs root for hooks");
	before = count_our_programs();
	assert_int_equal(agent_proc_start(&agent, NULL), 0);
	with = count_our_programs();
	assert_true(with > before);
	agent_proc_signal(&agent, SIGTERM);
	assert_int_equal(agent_proc_wait(&agent), 0);
	/* The kernel frees programs after a grace period. */
	assert_true(test_until(no_programs, &before, 10000));
}

static void test_after_a_kill(void **state)
{
	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	agent_proc_kill(&agent);
	assert_int_equal(access(agent.socket_path, F_OK), 0); /* left behind */
	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	expect_serving();
}

/* Starting on a path that is not ours fails with a line, and touches nothing. */
static void expect_refusal(const char *line, int times_in_log)
{
	assert_int_equal(agent_proc_start(&agent, no_bpf), -ECHILD);
	assert_int_equal(agent_proc_wait(&agent), 1);
	assert_int_equal(agent_proc_log_count(&agent, line), times_in_log);
}

static void test_foreign_paths(void **state)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct stat st;
	int fd;

	fd = open(agent.socket_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	expect_refusal("exists and is not a socket", 1);
	assert_int_equal(lstat(agent.socket_path, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	unlink(agent.socket_path);

	/* Another program's socket, of another type. */
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	strcpy(addr.sun_path, agent.socket_path);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(fd, 1), 0);
	expect_refusal("another program's socket", 1);
	assert_int_equal(lstat(agent.socket_path, &st), 0);
	close(fd);
	unlink(agent.socket_path);

	snprintf(agent.socket_path, sizeof(agent.socket_path), "%s/no/such/s", agent.dir);
	expect_refusal("/no/: No such file", 1);
	strcpy(agent.socket_path, "/proc/pnmem.sock"); /* cannot be written, even by root */
	expect_refusal("cannot create", 1);
}

static void test_bad_setting(void **state)
{
	setenv("PN_PSI_FULL_REJECT", "often", 1);
	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	unsetenv("PN_PSI_FULL_REJECT");
	assert_int_equal(
		agent_proc_log_count(&agent, "PN_PSI_FULL_REJECT=often is not valid, using 15"), 1);
	expect_serving();
}

static void test_background(void **state)
{
	char command[256];
	struct proto_header hello = proto_header_make(PROTO_HELLO, sizeof(hello), 1);
	struct proto_welcome welcome;
	int sock;

	snprintf(command, sizeof(command), "build/pnmemd --no-bpf --socket %s", agent.socket_path);
	assert_int_equal(system(command), 0); /* returns when the agent is ready */
	sock = raw_connect(agent.socket_path);
	assert_true(sock >= 0);
	assert_int_equal(send(sock, &hello, sizeof(hello), 0), sizeof(hello));
	assert_int_equal(recv(sock, &welcome, sizeof(welcome), 0), sizeof(welcome));
	kill((pid_t)welcome.agent_pid, SIGTERM);
	assert_int_equal(recv(sock, &welcome, sizeof(welcome), 0), 0); /* it hangs up as it ends */
	close(sock);
}

/* ---- sources that break -------------------------------------------------------------------- */

static void write_file(const char *dir, const char *name, const char *text)
{
	char path[160];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void look(pn_mem_state *state, pn_mem_ext *ext)
{
	pn_memwatch_poll_now();
	assert_int_equal(pn_memwatch_source(), PN_SOURCE_AGENT);
	assert_int_equal(pn_memwatch_read_ext(state, ext), 0);
}

static void test_broken_proc(void **unused)
{
	static const char *const bad[] = { "", "MemTotal: 8", "MemTotal: 8388608 kB\nrubbish\n",
					   "MemTotal: 8388608 kB\nMemAvailable: x kB\n" };
	const char *args[] = { "--no-bpf", "--stall-hook", "poll", "--procfs", NULL, NULL };
	char dir[128], pressure[160];
	pn_mem_state state;
	pn_mem_ext ext;

	snprintf(dir, sizeof(dir), "%s/proc", agent.dir);
	snprintf(pressure, sizeof(pressure), "%s/pressure", dir);
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(mkdir(pressure, 0700), 0);
	write_file(dir, "meminfo",
		   "MemTotal: 8388608 kB\nMemFree: 1 kB\nMemAvailable: 04194304 kB\n");
	write_file(dir, "pressure/memory",
		   "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
		   "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
	args[4] = dir;
	assert_int_equal(agent_proc_start(&agent, args), 0);
	assert_int_equal(pn_memwatch_start(), 0);
	look(&state, &ext);
	assert_int_equal(state.host_avail_bytes, 4ull << 30);
	assert_int_equal(state.level, PN_MEM_LEVEL_OK);

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		write_file(dir, "meminfo", bad[i]);
		look(&state, &ext);
		look(&state, &ext);
		assert_int_equal(state.host_avail_bytes, 4ull << 30); /* the last good value */
		assert_int_equal(ext.source_state[PN_SRC_MEMINFO], PN_SRC_STALE);
		assert_true(ext.reasons & PN_REASON_STALE);
	}
	assert_int_equal(agent_proc_log_count(&agent, "/proc/meminfo cannot be read"), 1);

	write_file(dir, "pressure/memory", "some avg10=1.0");
	look(&state, &ext);
	assert_int_equal(ext.source_state[PN_SRC_PSI], PN_SRC_STALE);
	/* Without its full line it is still good; and everything recovers. */
	write_file(dir, "pressure/memory", "some avg10=12.00 avg60=0.00 avg300=0.00 total=5000\n");
	write_file(dir, "meminfo", "MemTotal: 8388608 kB\nMemAvailable: 4000000 kB trailing\n");
	look(&state, &ext);
	assert_int_equal(ext.source_state[PN_SRC_MEMINFO], PN_SRC_OK);
	assert_int_equal(ext.source_state[PN_SRC_PSI], PN_SRC_OK);
	assert_int_equal(state.host_avail_bytes, 4000000ull * 1024);
	assert_int_equal(state.level, PN_MEM_LEVEL_TIGHT); /* some avg10 >= 10 */
	assert_int_equal(agent_proc_log_count(&agent, "/proc/meminfo can be read again"), 1);

	unlink(strcat(pressure, "/memory"));
	snprintf(pressure, sizeof(pressure), "%s/pressure", dir);
	rmdir(pressure);
	snprintf(pressure, sizeof(pressure), "%s/meminfo", dir);
	unlink(pressure);
	look(&state, &ext); /* all gone: still the last good values */
	assert_int_equal(state.host_avail_bytes, 4000000ull * 1024);
	rmdir(dir);
}

/* ---- hooks that cannot be had -------------------------------------------------------------- */

static uint32_t mode_of_agent(void)
{
	pn_mem_state state;
	pn_mem_ext ext;

	assert_int_equal(agent_proc_start(&agent, NULL), 0);
	assert_int_equal(pn_memwatch_start(), 0);
	look(&state, &ext);
	return ext.mode;
}

/* BTF that is no BTF: a trigger or a poll, one line, and the levels are there. */
static void test_bad_btf(void **state)
{
	char path[128];

	write_file(agent.dir, "btf", "no BTF at all");
	snprintf(path, sizeof(path), "%s/btf", agent.dir);
	setenv("PNMEM_BTF", path, 1);
	assert_in_range(mode_of_agent(), PN_MODE_PSI_TRIGGER, PN_MODE_POLL);
	unsetenv("PNMEM_BTF");
	unlink(path);
	assert_int_equal(agent_proc_log_count(&agent, "no BPF hook can be had"), 1);
	assert_int_equal(agent_proc_log_count(&agent, "stalls: "), 1);
}

/* Since 5.11 a map's memory is charged to its memory cgroup. */
static bool charges_memlock(void)
{
	unsigned major = 0, minor = 0;
	struct utsname name;

	assert_int_equal(uname(&name), 0);
	sscanf(name.release, "%u.%u", &major, &minor);
	return major < 5 || (major == 5 && minor < 11);
}

/*
 * No locked memory and no right to raise the limit: before 5.11 that leaves no ring buffer and so
 * the next rung. The last test, since what is dropped here is gone for all agents after it.
 */
static void test_no_memlock(void **state)
{
	struct rlimit before, none = { 0, 0 };
	uint32_t mode;

	if (geteuid())
		skip_because("needs root for hooks");
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	assert_int_equal(prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE), 0);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &none), 0);
	mode = mode_of_agent();
	setrlimit(RLIMIT_MEMLOCK, &before);
	print_message("# without locked memory: mode %u\n", mode);
	assert_in_range(mode, charges_memlock() ? PN_MODE_PSI_TRIGGER : PN_MODE_FENTRY,
			PN_MODE_POLL);
	assert_int_equal(agent_proc_log_count(&agent, "no BPF hook can be had"),
			 mode > PN_MODE_TRACEPOINT);
	expect_serving();
}

/* The last rung, at level OK: a look every 250 ms, where others leave it at a heartbeat of 2 s. */
static void test_poll(void **state)
{
	const char *args[] = { "--stall-hook", "poll", "--procfs", NULL, NULL };
	struct made_host host;
	pn_mem_ext before, after;
	pn_mem_state seen;

	assert_int_equal(made_host_init(&host), 0);
	args[3] = host.dir;
	assert_int_equal(agent_proc_start(&agent, args), 0);
	assert_int_equal(pn_memwatch_start(), 0);
	assert_int_equal(pn_memwatch_read_ext(&seen, &before), 0);
	assert_int_equal(before.mode, PN_MODE_POLL);
	usleep(3000000);
	assert_int_equal(pn_memwatch_read_ext(&seen, &after), 0);
	assert_int_equal(seen.level, PN_MEM_LEVEL_OK);
	assert_in_range(after.looks - before.looks, 6, 13);
	made_host_destroy(&host);
}

/* What the agent's pid is in a pid namespace of its own, below ours: exits with 0 if not known. */
static void stranger_run(void)
{
	pn_agent_info info = { .pid = -1 };
	int status = 1;
	pid_t pid;

	if (unshare(CLONE_NEWPID))
		_exit(2);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (pn_memwatch_start() || pn_memwatch_agent(&info))
			_exit(3);
		_exit(info.pid != 0);
	}
	waitpid(pid, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 4);
}

/* Whoever reads /proc by the agent's pid must not get another process of that number. */
static void test_pid_of_the_agent(void **state)
{
	pn_agent_info info = { 0 };
	int status;
	pid_t pid;

	if (geteuid())
		skip_because("needs root for a pid namespace");
	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	pid = fork();
	if (!pid)
		stranger_run();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(pn_memwatch_start(), 0);
	assert_int_equal(pn_memwatch_agent(&info), 0);
	assert_int_equal(info.pid, agent.pid);
}

/* ---- clients that mean no good ------------------------------------------------------------- */

static int fds_wanted;

static bool fds_are_back(void *arg)
{
	/* Fewer: the connection of the agent's start may have been counted, too. */
	return agent_proc_descriptors(&agent, NULL) <= fds_wanted;
}

static void test_garbage(void **state)
{
	char packet[4096];
	int socks[64], null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	fds_wanted = agent_proc_descriptors(&agent, NULL);
	srand(1);
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 64; i++) {
			size_t bytes = (size_t)rand() % sizeof(packet);
			struct proto_header h = proto_header_make((uint16_t)(rand() % 6), bytes, 1);

			socks[i] = raw_connect(agent.socket_path);
			assert_true(socks[i] >= 0);
			for (size_t k = 0; k < bytes; k++)
				packet[k] = (char)rand();
			if (i % 3 == 0 && bytes >= sizeof(h))
				memcpy(packet, &h, sizeof(h)); /* nearly right */
			if (i % 7 == 0) { /* with a descriptor that nobody wants */
				union {
					struct cmsghdr header;
					char space[CMSG_SPACE(sizeof(int))];
				} control = { 0 };
				struct iovec iov = { packet, bytes };
				struct msghdr msg = { .msg_iov = &iov,
						      .msg_iovlen = 1,
						      .msg_control = &control,
						      .msg_controllen = sizeof(control) };

				control.header.cmsg_level = SOL_SOCKET;
				control.header.cmsg_type = SCM_RIGHTS;
				control.header.cmsg_len = CMSG_LEN(sizeof(int));
				memcpy(CMSG_DATA(&control.header), &null, sizeof(null));
				sendmsg(socks[i], &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
			} else {
				send(socks[i], packet, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
			}
		}
		for (int i = 0; i < 64; i++)
			close(socks[i]);
	}
	close(null);
	expect_serving();
	assert_true(test_until(fds_are_back, NULL, 5000));
}

/* Asks as fast as it can and never takes a reply: others are served meanwhile. */
static void test_flood(void **state)
{
	struct proto_header ask = proto_header_make(PROTO_POLL_NOW, sizeof(ask), 1);
	int flood, sock;

	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	flood = raw_connect(agent.socket_path);
	assert_int_equal(raw_hello(flood), 0);
	for (int i = 0; i < 20000; i++)
		if (send(flood, &ask, sizeof(ask), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
		    errno != EAGAIN)
			break; /* dropped */
	sock = raw_connect(agent.socket_path);
	assert_true(sock >= 0);
	assert_int_equal(raw_hello(sock), 0);
	close(sock);
	close(flood);
	expect_serving();
}

/* A version that the agent does not speak is told so. */
static void test_versions(void **state)
{
	struct proto_header ask = proto_header_make(PROTO_HELLO, sizeof(ask), 5), reply;
	int sock;

	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	sock = raw_connect(agent.socket_path);
	ask.version = PROTO_VERSION + 1;
	assert_int_equal(send(sock, &ask, sizeof(ask), 0), sizeof(ask));
	assert_int_equal(recv(sock, &reply, sizeof(reply), 0), sizeof(reply));
	assert_int_equal(reply.status, -EPROTONOSUPPORT);
	assert_int_equal(reply.version, PROTO_VERSION);
	assert_int_equal(reply.id, 5);
	close(sock);
}

/* Dies that an engine pushed go with it. */
static void test_dies_go_with_their_engine(void **unused)
{
	struct proto_set_die push = {
		.header = proto_header_make(PROTO_SET_DIE, sizeof(push), 2),
		.die_id = 1,
		.free_bytes = 5,
		.budget_bytes = 100ull << 30,
		.used_bytes = 6,
	};
	struct proto_header ack;
	pn_mem_state state;
	pn_mem_ext ext;
	int sock;

	assert_int_equal(agent_proc_start(&agent, no_bpf), 0);
	assert_int_equal(pn_memwatch_start(), 0);
	sock = raw_connect(agent.socket_path);
	assert_int_equal(raw_hello(sock), 0);
	assert_int_equal(send(sock, &push, sizeof(push), 0), sizeof(push));
	assert_int_equal(recv(sock, &ack, sizeof(ack), 0), sizeof(ack));
	assert_int_equal(ack.status, 0);
	/* Same cgroup, same view. */
	assert_int_equal(pn_memwatch_read(&state), 0);
	assert_int_equal(state.n_dies, 2);
	assert_int_equal(state.per_die_free[1], 5);
	assert_int_equal(state.level, PN_MEM_LEVEL_TIGHT);
	push.die_id = 99;
	assert_int_equal(send(sock, &push, sizeof(push), 0), sizeof(push));
	assert_int_equal(recv(sock, &ack, sizeof(ack), 0), sizeof(ack));
	assert_int_equal(ack.status, -EINVAL);
	close(sock);
	for (int i = 0; i < 100 && state.n_dies; i++)
		look(&state, &ext);
	assert_int_equal(state.n_dies, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_second_agent, setup, teardown),
		cmocka_unit_test_setup_teardown(test_signals, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hooks_detached_at_the_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_after_a_kill, setup, teardown),
		cmocka_unit_test_setup_teardown(test_foreign_paths, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_setting, setup, teardown),
		cmocka_unit_test_setup_teardown(test_background, setup, teardown),
		cmocka_unit_test_setup_teardown(test_broken_proc, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_btf, setup, teardown),
		cmocka_unit_test_setup_teardown(test_poll, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pid_of_the_agent, setup, teardown),
		cmocka_unit_test_setup_teardown(test_garbage, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flood, setup, teardown),
		cmocka_unit_test_setup_teardown(test_versions, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dies_go_with_their_engine, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_memlock, setup, teardown),
	};

	return cmocka_run_group_tests_name("agent", tests, NULL, NULL);
}
