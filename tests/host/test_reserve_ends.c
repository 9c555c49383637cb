/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every way in which a reservation ends that nobody asks for: its process, its socket, its time to
 * live, the agent; and processes that are not what they seem.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "core/page.h"
#include "core/proto.h"
#include "host/clock.h"
#include "support/agent_proc.h"
#include "support/peer_proc.h"
#include "support/raw_client.h"
#include "support/reserve_host.h"
#include "reserve_fixture.h"

/* ---- how a promise ends --------------------------------------------------------------------- */

static void test_kill(void **state)
{
	start_both();
	assert_int_equal(peer_reserve(&a, PN_RESERVE_HOST, 7 * GIB).r, 0);
	assert_int_equal(peer_reserve(&a, PN_RESERVE_HOST, 6 * GIB).r, 0);
	assert_int_equal(peer_look(&b).host_reserved_bytes, 13 * GIB);
	peer_proc_kill(&a);
	assert_true(test_until(nothing_reserved, &b, 10000));
	assert_int_equal(peer_reserve(&b, PN_RESERVE_HOST, 15 * GIB).r, 0);
}

static void test_closed_socket(void **state)
{
	struct peer_answer got;

	start_both();
	got = peer_reserve(&a, PN_RESERVE_HOST, 13 * GIB);
	assert_int_equal(got.r, 0);
	peer_proc_do(&a, (struct peer_ask){ .op = PEER_STOP });
	assert_true(test_until(nothing_reserved, &b, 10000));
	/* The ids of before are no more. */
	assert_int_equal(peer_proc_do(&a, (struct peer_ask){ .op = PEER_START }).r, 0);
	assert_int_equal(peer_end(&a, PEER_COMMIT, got.id).r, -ESTALE);
}

static int by_size(const void *x, const void *y)
{
	uint64_t p = *(const uint64_t *)x, q = *(const uint64_t *)y;

	return p < q ? -1 : p > q;
}

/* Its time to live ends it, when it is over and not at the agent's next look. */
static void test_ttl(void **state)
{
	uint64_t late_ns[5];

	start_both();
	assert_int_equal(pn_memwatch_start(), 0);
	for (int i = 0; i < 5; i++) {
		uint64_t end_ns = clock_now_ns() + 60 * 1000000ull;
		struct peer_answer got;
		pn_mem_state seen;
		pn_mem_ext ext;

		got = peer_proc_do(&a, (struct peer_ask){ .op = PEER_RESERVE,
							  .die = PN_RESERVE_HOST,
							  .bytes = 13 * GIB,
							  .ttl_ms = 60 });
		assert_int_equal(got.r, 0);
		do {
			assert_int_equal(pn_memwatch_read_ext(&seen, &ext), 0);
			if (ext.host_reserved_bytes)
				assert_int_equal(pn_memwatch_wait(PN_WAIT_SNAPSHOT, &seen,
								  clock_now_ns() + 10000000000ull,
								  NULL),
						 0);
		} while (ext.host_reserved_bytes);
		assert_true(ext.publish_ns >= end_ns);
		late_ns[i] = ext.publish_ns - end_ns;
		assert_int_equal(peer_end(&a, PEER_COMMIT, got.id).r, -ESTALE);
	}
	qsort(late_ns, 5, sizeof(late_ns[0]), by_size);
	print_message("# past its time to live: median %.1f ms\n", (double)late_ns[2] / 1e6);
	assert_in_range(late_ns[2], 0, 60 * 1000000ull); /* a look comes every 250 ms */
}

/* ---- the agent goes and comes --------------------------------------------------------------- */

static bool on_agent(void *peer)
{
	return peer_look(peer).source == PN_SOURCE_AGENT;
}

static bool on_poll(void *peer)
{
	return peer_look(peer).source == PN_SOURCE_POLL;
}

/* What a and b hold is known to the agent, each having told it. */
static bool told(uint64_t a_bytes, uint64_t b_bytes)
{
	return peer_look(&b).host_reserved_bytes == a_bytes &&
	       peer_look(&a).host_reserved_bytes == b_bytes;
}

/* What was held goes on alone, is told to the next agent, and counts there before anything new. */
static void test_restart(void **state)
{
	struct peer_answer got;

	start_both();
	got = peer_reserve(&a, PN_RESERVE_HOST, 10 * GIB);
	assert_int_equal(got.r, 0);
	agent_proc_kill(&host.agent);
	assert_true(test_until(on_poll, &a, 10000));
	assert_true(test_until(on_poll, &b, 10000));
	/* Alone: its own threads are held to it, other processes know of nothing. */
	assert_int_equal(peer_reserve(&a, PN_RESERVE_HOST, 10 * GIB).r, -ENOSPC);
	assert_int_equal(peer_reserve(&b, PN_RESERVE_HOST, 1 * GIB).r, 1);
	/* Half of it has been allocated by now. */
	reserve_host_avail(&host, 9 * GIB);

	/*
	 * Again where this machine was too busy for engines to be back in the agent's first second.
	 */
	for (int i = 0; i < 5 && !told(10 * GIB, 1 * GIB); i++) {
		agent_proc_kill(&host.agent);
		reserve_host_start(&host);
		assert_true(test_until(on_agent, &a, 10000));
		assert_true(test_until(on_agent, &b, 10000));
	}
	assert_true(told(10 * GIB, 1 * GIB));
	assert_int_equal(peer_reserve(&b, PN_RESERVE_HOST, 5 * GIB).r, -ENOSPC);
	reserve_host_avail(&host, 5 * GIB);
	assert_int_equal(peer_end(&a, PEER_COMMIT, got.id).r, 0);
	assert_int_equal(peer_look(&b).host_reserved_bytes, 0);
}

/* A new agent grants nothing while it may not know of all that is held. */
static void test_gathering(void **state)
{
	struct peer_answer got;
	uint64_t before_ns;

	agent_proc_kill(&host.agent);
	before_ns = clock_now_ns();
	assert_int_equal(agent_proc_start(&host.agent, host.args), 0);
	start_peer(&a, 0);
	got = peer_reserve(&a, PN_RESERVE_HOST, GIB);
	assert_int_equal(got.r, 0);
	assert_true(clock_now_ns() - before_ns > 1000000000);
}

/* ---- processes that are not what they seem -------------------------------------------------- */

static int raw_reserve_as(int sock, uint64_t id, uint64_t bytes, uint32_t flags)
{
	struct proto_reserve ask = {
		.header = proto_header_make(PROTO_RESERVE, sizeof(ask), 2),
		.id = id,
		.bytes = bytes,
		.ttl_ms = PEER_TTL_MS,
		.die = -1,
		.flags = flags,
	};
	struct proto_reserve_reply reply = { .result = -EIO };

	if (send(sock, &ask, sizeof(ask), 0) != sizeof(ask) ||
	    recv(sock, &reply, sizeof(reply), 0) < (ssize_t)sizeof(reply.header))
		return -EIO;
	return reply.header.status ? reply.header.status : reply.result;
}

static int raw_reserve(int sock, uint64_t id, uint64_t bytes)
{
	return raw_reserve_as(sock, id, bytes, 0);
}

static int raw_release(int sock, uint64_t id)
{
	struct proto_reservation ask = {
		.header = proto_header_make(PROTO_RELEASE, sizeof(ask), 3),
		.id = id,
	};
	struct proto_header ack = { .status = -EIO };

	if (send(sock, &ask, sizeof(ask), 0) != sizeof(ask) ||
	    recv(sock, &ack, sizeof(ack), 0) != sizeof(ack))
		return -EIO;
	return ack.status;
}

/* A process ends and leaves its socket to a child: what it held goes with it, by its pidfd. */
static void test_socket_outlives_its_process(void **state)
{
	int socks[2], sock, r = -EIO;
	pid_t parent;

	start_both();
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, socks), 0);
	parent = fork();
	if (!parent) {
		sock = raw_connect(host.agent.socket_path);
		r = raw_hello(sock);
		if (!r)
			r = raw_reserve(sock, 1, 13 * GIB);
		if (!fork()) { /* keeps the socket */
			close(socks[0]);
			recv(socks[1], &r, sizeof(r), 0);
			r = raw_release(sock, 1);
			send(socks[1], &r, sizeof(r), 0);
			r = raw_reserve(sock, 2, 13 * GIB);
			recv(socks[1], &r, sizeof(r), 0);
			_exit(0);
		}
		send(socks[1], &r, sizeof(r), 0);
		pause();
		_exit(0);
	}
	close(socks[1]);
	assert_int_equal(recv(socks[0], &r, sizeof(r), 0), sizeof(r));
	assert_int_equal(r, 0);
	assert_int_equal(peer_look(&b).host_reserved_bytes, 13 * GIB);
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
	assert_true(test_until(nothing_reserved, &b, 10000));
	send(socks[0], &r, sizeof(r), 0);
	assert_int_equal(recv(socks[0], &r, sizeof(r), 0), sizeof(r));
	assert_int_equal(r, -ESTALE); /* the socket serves, the promise is gone */
	/* Nor does a new one stay in the name of the process that has ended. */
	assert_true(test_until(nothing_reserved, &b, 10000));
	close(socks[0]);
}

/*
 * While the agent gathers it believes what clients say that they held, up to what there is: of the
 * host less what others hold by then, and within the group's limit.
 */
static void test_gathers_no_more_than_there_is(void **state)
{
	struct peer_answer got;
	int socks[2], r[6], sock;
	pid_t pid;

	reserve_host_limit(&host, "small", 64ull << 20, 0);
	agent_proc_kill(&host.agent);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, socks), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		recv(socks[1], r, sizeof(r), 0);
		sock = raw_connect(host.agent.socket_path);
		r[0] = raw_hello(sock);
		for (unsigned i = 1; i < 6; i++)
			r[i] = raw_reserve_as(sock, i, i < 3 ? 64 * GIB : 48ull << 20,
					      PROTO_RESERVE_AGAIN);
		send(socks[1], r, sizeof(r), 0);
		pause();
		_exit(0);
	}
	reserve_host_place(&host, pid, "/small");
	assert_int_equal(agent_proc_start(&host.agent, host.args), 0);
	send(socks[0], r, sizeof(r), 0);
	assert_int_equal(recv(socks[0], r, sizeof(r), 0), sizeof(r));
	assert_int_equal(r[0], 0);
	assert_int_equal(r[1], -ENOSPC);
	assert_int_equal(r[2], -ENOSPC);
	assert_int_equal(r[3], 0);
	assert_int_equal(r[4], -ENOSPC);
	assert_int_equal(r[5], -ENOSPC);
	/* Who has no limit may have had the rest. */
	sock = raw_connect(host.agent.socket_path);
	assert_int_equal(raw_hello(sock), 0);
	assert_int_equal(raw_reserve_as(sock, 1, 64 * GIB, PROTO_RESERVE_AGAIN), -ENOSPC);
	assert_int_equal(raw_reserve_as(sock, 2, 63 * GIB, PROTO_RESERVE_AGAIN), 0);
	assert_int_equal(raw_reserve_as(sock, 3, 2 * GIB, PROTO_RESERVE_AGAIN), -ENOSPC);
	start_peer(&a, 0);
	got = peer_look(&a);
	assert_int_equal(got.host_reserved_bytes, 63 * GIB + (48ull << 20));
	close(sock);
	close(socks[0]);
	close(socks[1]);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	reserve_host_wait();
}

/* The limit of the group whose page this socket is given; UINT64_MAX: none was given. */
static uint64_t limit_seen(int sock)
{
	int memfd = raw_page(sock);
	struct page_view view;
	pn_mem_state seen;
	pn_mem_ext ext;
	void *page;

	if (memfd < 0)
		return UINT64_MAX;
	page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, memfd, 0);
	if (page == MAP_FAILED || page_open(&view, page, PAGE_BYTES) ||
	    page_read(&view, &seen, &ext))
		return UINT64_MAX;
	return ext.cgroup_limit_bytes;
}

/*
 * A process connects and ends, its child has the socket, and its number is by now another's, of a
 * group with a limit: that one's page is not handed out.
 */
static void test_number_of_another(void **state)
{
	uint64_t limit_bytes = 0;
	int socks[2], sock;
	pid_t parent;

	reserve_host_limit(&host, "another", 20 * GIB, 7 * GIB);
	for (int ends = 0; ends < 2; ends++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, socks), 0);
		parent = fork();
		if (!parent) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(socks[0]);
			recv(socks[1], &limit_bytes, sizeof(limit_bytes), 0); /* is in its group */
			sock = raw_connect(host.agent.socket_path);
			raw_status(sock, PROTO_STATS); /* the agent has accepted it */
			if (fork()) {
				if (!ends)
					pause();
				_exit(0);
			}
			recv(socks[1], &limit_bytes, sizeof(limit_bytes), 0);
			limit_bytes = limit_seen(sock);
			send(socks[1], &limit_bytes, sizeof(limit_bytes), 0);
			_exit(0);
		}
		close(socks[1]);
		reserve_host_place(&host, parent, "/another");
		send(socks[0], &limit_bytes, sizeof(limit_bytes), 0);
		if (ends)
			assert_int_equal(waitpid(parent, NULL, 0), parent);
		send(socks[0], &limit_bytes, sizeof(limit_bytes), 0);
		assert_int_equal(recv(socks[0], &limit_bytes, sizeof(limit_bytes), 0),
				 sizeof(limit_bytes));
		assert_int_equal(limit_bytes, ends ? 0 : 20 * GIB);
		close(socks[0]);
		if (ends)
			continue;
		kill(parent, SIGKILL);
		assert_int_equal(waitpid(parent, NULL, 0), parent);
	}
}

/* Clients whose pid the agent cannot know: socket and time to live end what they hold. */
static void test_other_pid_namespace(void **state)
{
	int ours = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
	struct peer_answer got;

	if (unshare(CLONE_NEWPID))
		skip_because("needs root for a pid namespace");
	agent_proc_kill(&host.agent);
	/* The agent is in the new one, as its first process. */
	assert_int_equal(agent_proc_start(&host.agent, host.args), 0);
	assert_int_equal(setns(ours, CLONE_NEWPID), 0);
	close(ours);
	reserve_host_wait();
	start_peer(&a, 0);
	start_peer(&b, 0);
	assert_int_equal(peer_reserve(&a, PN_RESERVE_HOST, 13 * GIB).r, 0);
	got = peer_proc_do(&b, (struct peer_ask){ .op = PEER_LIST });
	assert_int_equal(got.r, 1);
	assert_int_equal(got.line[0].pid, 0);
	assert_int_equal(got.line[0].bytes, 13 * GIB);
	assert_int_equal(got.line[0].is_host, 1);
	assert_int_equal(peer_reserve(&b, PN_RESERVE_HOST, 10 * GIB).r, -ENOSPC);
	peer_proc_kill(&a);
	assert_true(test_until(nothing_reserved, &b, 10000));
	got = peer_proc_do(&b, (struct peer_ask){ .op = PEER_RESERVE,
						  .die = PN_RESERVE_HOST,
						  .bytes = 13 * GIB,
						  .ttl_ms = 50 });
	assert_int_equal(got.r, 0);
	assert_int_equal(peer_look(&b).source, PN_SOURCE_AGENT);
	start_peer(&a, 0); /* whom b's would be in the way of */
	assert_true(test_until(nothing_reserved, &a, 10000));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_kill, setup, teardown),
		cmocka_unit_test_setup_teardown(test_closed_socket, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ttl, setup, teardown),
		cmocka_unit_test_setup_teardown(test_restart, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gathering, setup, teardown),
		cmocka_unit_test_setup_teardown(test_socket_outlives_its_process, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gathers_no_more_than_there_is, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_number_of_another, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_pid_namespace, setup, teardown),
	};

	return cmocka_run_group_tests_name("reserve_ends", tests, group_setup, group_teardown);
}
