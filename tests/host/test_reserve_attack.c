/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What one user's reservations can do to others: they cost the agent a part of its time however
 * many pages show them, other users' changes do not wait behind them, and neither the places nor a
 * die that nobody samples can be taken away.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
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

#include "core/proto.h"
#include "host/clock.h"
#include "support/agent_proc.h"
#include "support/made_host.h"
#include "support/raw_client.h"

#define VIEWS     1500
#define FIRST_ID  70000
#define GREEDY_ID 60000
#define OTHER_ID  61000
#define TTL_MS    60000
#define ATTACK_NS 3000000000ull
#define CHANGES   20
/* reserve.c: one in 20 of the time and a burst of 100 ms; and what the greedy's requests cost. */
#define CPU_PART 4

static struct agent_proc agent;
static struct made_host host;

static int connect_as(uid_t uid)
{
	int sock;

	if (seteuid(0) || seteuid(uid))
		return -EPERM;
	sock = raw_connect(agent.socket_path);
	if (seteuid(0))
		return -EPERM;
	if (sock >= 0 && raw_hello(sock))
		return -EPROTO;
	return sock;
}

/* The result of a reservation, of a request that was refused its status. */
static int reserve(int sock, uint64_t id, uint64_t bytes, uint8_t uuid)
{
	struct proto_reserve ask = {
		.header = proto_header_make(PROTO_RESERVE, sizeof(ask), (uint32_t)id),
		.id = id,
		.bytes = bytes,
		.ttl_ms = TTL_MS,
		.die = -1,
		.uuid = { uuid },
	};
	struct proto_reserve_reply reply;
	int r;

	do {
		if (raw_send(sock, &ask, sizeof(ask), NULL, 0) ||
		    raw_receive(sock, &reply, sizeof(reply), NULL, 20000) <= 0)
			return -EPIPE;
		r = reply.header.type == PROTO_RESERVE_REPLY ? reply.result : reply.header.status;
		if (r == -EAGAIN)
			usleep(reply.wait_ms * 1000);
	} while (r == -EAGAIN);
	return r;
}

static int release(int sock, uint64_t id)
{
	struct proto_reservation ask = {
		.header = proto_header_make(PROTO_RELEASE, sizeof(ask), (uint32_t)id),
		.id = id,
	};
	struct proto_header reply;

	if (raw_send(sock, &ask, sizeof(ask), NULL, 0) ||
	    raw_receive(sock, &reply, sizeof(reply), NULL, 20000) <= 0)
		return -EPIPE;
	return reply.status;
}

static int push_die(int sock, uint8_t uuid, uint64_t bytes)
{
	struct proto_set_die_id ask = {
		.header = proto_header_make(PROTO_SET_DIE_ID, sizeof(ask), 1),
		.uuid = { uuid },
		.free_bytes = bytes,
		.budget_bytes = bytes,
	};
	struct proto_die_place reply;

	if (raw_send(sock, &ask, sizeof(ask), NULL, 0) ||
	    raw_receive(sock, &reply, sizeof(reply), NULL, 20000) <= 0)
		return -EPIPE;
	return reply.header.status;
}

static int setup(void **state)
{
	const char *const args[] = { "--no-bpf", "--procfs", host.dir, NULL };
	struct rlimit descriptors;
	int sock;

	/* The agent's too: it raises its own to the hard limit, which stays. */
	getrlimit(RLIMIT_NOFILE, &descriptors);
	descriptors.rlim_cur = descriptors.rlim_max;
	setrlimit(RLIMIT_NOFILE, &descriptors);
	if (agent_proc_init(&agent) || chmod(agent.dir, 0711) || made_host_init(&host) ||
	    made_host_add_process(&host, getpid(), "/here") || agent_proc_start(&agent, args))
		return -1;
	/* Its first second, in which it grants nothing. */
	sock = connect_as(OTHER_ID);
	if (reserve(sock, 1, 1, 0))
		return -1;
	close(sock);
	return 0;
}

static int teardown(void **state)
{
	agent_proc_destroy(&agent);
	made_host_destroy(&host);
	return 0;
}

/* ---- places and dies ------------------------------------------------------------------------- */

/* As many as this user is given, by enough clients. */
static unsigned take_places(uid_t uid)
{
	unsigned n = 0;
	int r = 0;

	for (int client = 0; client < 3; client++) {
		int sock = connect_as(uid);

		for (uint64_t id = 1; !(r = reserve(sock, id, 1, 0)); id++)
			n++;
		assert_int_equal(r, -EDQUOT);
	}
	return n;
}

static void test_places(void **state)
{
	int sock;

	for (uid_t uid = 0; uid < 4; uid++)
		assert_true(take_places(GREEDY_ID + uid) > 0);
	sock = connect_as(OTHER_ID);
	assert_int_equal(reserve(sock, 1, 1, 0), 0);
	close(sock);
	sock = connect_as(0);
	for (uint64_t id = 1; id <= 16; id++)
		assert_int_equal(reserve(sock, id, 1, 0), 0);
	close(sock);
}

static void test_unsampled_die(void **state)
{
	int theirs = connect_as(GREEDY_ID), ours = connect_as(OTHER_ID);

	assert_int_equal(push_die(theirs, 7, 1ull << 63), 0);
	assert_int_equal(reserve(theirs, 1, 1ull << 62, 7), 0);
	assert_int_equal(push_die(ours, 7, 1ull << 30), 0);
	assert_int_equal(reserve(ours, 1, 1ull << 30, 7), 0);
	assert_int_equal(reserve(ours, 2, 1, 7), -ENOSPC);
	close(theirs);
	close(ours);
}

/* ---- time ------------------------------------------------------------------------------------ */

static uint64_t agent_cpu_ns(void)
{
	unsigned long long ns = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", agent.pid);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%llu", &ns), 1);
	fclose(file);
	return ns;
}

static void be_greedy(int ready_fd, _Atomic uint64_t *n_done)
{
	int sock = connect_as(GREEDY_ID);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (uint64_t id = 1;; id++) {
		if (reserve(sock, id, 1, 0) || release(sock, id))
			_exit(1);
		(*n_done)++;
		if (id == 1 && write(ready_fd, "", 1) != 1)
			_exit(2);
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void test_time(void **state)
{
	static int socks[VIEWS];
	_Atomic uint64_t *n_done =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t cpu_ns, begin_ns, wall_ns, before, between[CHANGES], waits[CHANGES], n_between = 0;
	int ready[2], other;
	char byte;
	pid_t pid;

	assert_true(n_done != MAP_FAILED);
	/* Each user has a view of its own. */
	for (int i = 0; i < VIEWS; i++) {
		socks[i] = connect_as(FIRST_ID + (uid_t)i);
		assert_true(socks[i] >= 0);
	}
	other = connect_as(OTHER_ID);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid)
		be_greedy(ready[1], n_done);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	sleep(1); /* its burst */
	begin_ns = clock_now_ns();
	cpu_ns = agent_cpu_ns();
	before = *n_done;
	while (clock_now_ns() - begin_ns < ATTACK_NS)
		usleep(10000);
	wall_ns = clock_now_ns() - begin_ns;
	cpu_ns = agent_cpu_ns() - cpu_ns;
	printf("# beside %d views %llu promises in %.1f s took %.0f %% of a CPU\n", VIEWS,
	       (unsigned long long)(*n_done - before), (double)wall_ns / 1e9,
	       100.0 * (double)cpu_ns / (double)wall_ns);
	assert_true(*n_done > before);
	assert_true(cpu_ns < wall_ns / CPU_PART);
	/* Between two changes of the other the greedy one has made hardly any. */
	for (int i = 0; i < CHANGES; i++) {
		before = *n_done;
		begin_ns = clock_now_ns();
		assert_int_equal(reserve(other, (uint64_t)i + 1, 1, 0), 0);
		waits[i] = clock_now_ns() - begin_ns;
		between[i] = *n_done - before;
		n_between += between[i];
		usleep(500000); /* it is not greedy itself */
	}
	qsort(waits, CHANGES, sizeof(waits[0]), compare);
	printf("# another user's promise took %.0f ms (median), meanwhile %llu of the greedy "
	       "one's\n",
	       (double)waits[CHANGES / 2] / 1e6, (unsigned long long)n_between);
	assert_true(n_between <= CHANGES);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (int i = 0; i < VIEWS; i++)
		close(socks[i]);
	close(other);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_places, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unsampled_die, setup, teardown),
		cmocka_unit_test_setup_teardown(test_time, setup, teardown),
	};

	if (geteuid()) {
		printf("1..0 # SKIP not root\n# skip: test_reserve_attack: not root\n");
		return 0;
	}
	return cmocka_run_group_tests_name("reserve_attack", tests, NULL, NULL);
}
