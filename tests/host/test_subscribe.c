/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Being told: subscriptions by crossing and by change, one unread event at most, a subscriber that
 * does not read; views of other processes for root alone; counters. Over a made-up /proc, so that
 * the test sets the level.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "core/page.h"
#include "core/proto.h"
#include "support/agent_proc.h"
#include "support/made_host.h"
#include "support/raw_client.h"

#define LIMIT_MS 10000
#define NOBODY   65534

static struct agent_proc agent;
static struct made_host host;
static int looker; /* a client that asks for looks */

static int setup(void **state)
{
	static const char *args[] = {
		"--no-bpf", "--stall-hook", "poll", "--procfs", host.dir, NULL
	};

	setenv("PN_LEVEL_HOLD_MS", "0", 1);
	if (made_host_init(&host) || agent_proc_init(&agent) || agent_proc_start(&agent, args))
		return -1;
	looker = raw_connect(agent.socket_path);
	return looker < 0 || raw_hello(looker);
}

static int teardown(void **state)
{
	close(looker);
	agent_proc_destroy(&agent);
	made_host_destroy(&host);
	return 0;
}

static void set_level(pn_mem_level level)
{
	struct proto_header ack;

	assert_int_equal(made_host_set_level(&host, level), 0);
	assert_int_equal(raw_ask(looker, PROTO_POLL_NOW, &ack, sizeof(ack)), sizeof(ack));
}

static int subscribe(uint32_t what, uint32_t level)
{
	struct proto_subscribe ask = {
		.header = proto_header_make(PROTO_SUBSCRIBE, sizeof(ask), 77),
		.what = what,
		.level = level,
	};
	struct proto_header ack;
	int sock = raw_connect(agent.socket_path);

	assert_true(sock >= 0);
	assert_int_equal(raw_send(sock, &ask, sizeof(ask), NULL, 0), 0);
	assert_int_equal(raw_receive(sock, &ack, sizeof(ack), NULL, LIMIT_MS), sizeof(ack));
	assert_int_equal(ack.type, PROTO_ACK);
	assert_int_equal(ack.status, 0);
	return sock;
}

static struct proto_event receive_event(int sock)
{
	struct proto_event event = { 0 };

	assert_int_equal(raw_receive(sock, &event, sizeof(event), NULL, LIMIT_MS), sizeof(event));
	assert_int_equal(event.header.type, PROTO_EVENT);
	assert_int_equal(event.header.id, 77);
	assert_int_equal(event.header.status, 0);
	return event;
}

static void expect_event(int sock, pn_mem_level level)
{
	assert_int_equal(receive_event(sock).level, level);
}

/*
 * Nothing is there and nothing was on its way: the agent has answered another client since, and it
 * tells subscribers before that.
 */
static void expect_none(int sock)
{
	char packet[128];

	assert_int_equal(raw_receive(sock, packet, sizeof(packet), NULL, 0), -ETIMEDOUT);
}

static void test_every_change(void **state)
{
	static const pn_mem_level levels[] = { PN_MEM_LEVEL_WATCH, PN_MEM_LEVEL_TIGHT,
					       PN_MEM_LEVEL_CRITICAL, PN_MEM_LEVEL_OK };
	static const unsigned avail_gib[] = { 15, 11, 5, 40 };
	int sock = subscribe(PROTO_TELL_CHANGE, 0);
	struct proto_event event = receive_event(sock); /* what it starts from */
	uint64_t last_seq = event.seq;

	assert_int_equal(event.level, PN_MEM_LEVEL_OK);
	for (size_t i = 0; i < 4; i++) {
		set_level(levels[i]);
		event = receive_event(sock);
		assert_int_equal(event.level, levels[i]);
		assert_int_equal(event.level_changes, i + 1);
		assert_true(event.seq > last_seq);
		assert_int_equal(event.host_avail_bytes >> 30, avail_gib[i]);
		assert_int_equal(event.reasons, levels[i] ? PN_REASON_HOST_BYTES : 0);
		assert_int_equal(event.cgroup_headroom_bytes, UINT64_MAX);
		last_seq = event.seq;
		set_level(levels[i]); /* a publish without a change */
		expect_none(sock);
	}
	close(sock);
}

static void test_crossing(void **state)
{
	static const struct {
		pn_mem_level level;
		bool told[PN_MEM_LEVEL_CRITICAL + 1]; /* by threshold */
	} steps[] = {
		{ PN_MEM_LEVEL_WATCH, { 0, 1, 0, 0 } },
		{ PN_MEM_LEVEL_TIGHT, { 0, 0, 1, 0 } },
		{ PN_MEM_LEVEL_CRITICAL, { 0, 0, 0, 1 } },
		{ PN_MEM_LEVEL_WATCH, { 0, 0, 1, 1 } },
		{ PN_MEM_LEVEL_OK, { 0, 1, 0, 0 } },
		{ PN_MEM_LEVEL_CRITICAL, { 0, 1, 1, 1 } },
		{ PN_MEM_LEVEL_OK, { 0, 1, 1, 1 } },
	};
	int socks[PN_MEM_LEVEL_CRITICAL + 1];

	for (int at = PN_MEM_LEVEL_WATCH; at <= PN_MEM_LEVEL_CRITICAL; at++) {
		socks[at] = subscribe(PROTO_TELL_CROSSING, (uint32_t)at);
		expect_event(socks[at], PN_MEM_LEVEL_OK);
	}
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		set_level(steps[i].level);
		for (int at = PN_MEM_LEVEL_WATCH; at <= PN_MEM_LEVEL_CRITICAL; at++) {
			if (steps[i].told[at])
				expect_event(socks[at], steps[i].level);
			else
				expect_none(socks[at]);
		}
	}
	for (int at = PN_MEM_LEVEL_WATCH; at <= PN_MEM_LEVEL_CRITICAL; at++)
		close(socks[at]);
}

static pn_agent_stats ask_stats(int sock)
{
	struct proto_stats_reply reply;

	assert_int_equal(raw_ask(sock, PROTO_STATS, &reply, sizeof(reply)), sizeof(reply));
	assert_int_equal(reply.header.status, 0);
	return reply.stats;
}

static void end_subscription(int sock)
{
	struct proto_subscribe ask = {
		.header = proto_header_make(PROTO_SUBSCRIBE, sizeof(ask), 78),
	};
	struct proto_header ack;

	assert_int_equal(raw_send(sock, &ask, sizeof(ask), NULL, 0), 0);
	assert_int_equal(raw_receive(sock, &ack, sizeof(ack), NULL, LIMIT_MS), sizeof(ack));
	assert_int_equal(ack.id, 78);
}

/* However much happens, one event waits for it; then one more, of the newest state. */
static void test_does_not_read(void **state)
{
	int sock = subscribe(PROTO_TELL_CHANGE, 0);
	uint64_t told = ask_stats(looker).told;

	/* The first event is unread all the while, the second waits on this side. */
	for (int i = 0; i < 51; i++)
		set_level(i % 2 ? PN_MEM_LEVEL_OK : PN_MEM_LEVEL_TIGHT);
	assert_true(ask_stats(looker).told <= told + 1);
	expect_event(sock, PN_MEM_LEVEL_OK);
	assert_int_equal(receive_event(sock).level_changes, 51);
	/* Reading alone brought that: nobody looked. And now it is as any other. */
	set_level(PN_MEM_LEVEL_WATCH);
	expect_event(sock, PN_MEM_LEVEL_WATCH);
	expect_none(sock);

	/* Something is pending and it asks, several times before the agent reads. */
	set_level(PN_MEM_LEVEL_TIGHT);
	set_level(PN_MEM_LEVEL_CRITICAL);
	for (uint32_t id = 1; id <= 5; id++) {
		struct proto_header ask = proto_header_make(PROTO_STATS, sizeof(ask), id);

		assert_int_equal(raw_send(sock, &ask, sizeof(ask), NULL, 0), 0);
	}
	expect_event(sock, PN_MEM_LEVEL_TIGHT);
	for (uint32_t n = 0, id = 0; n < 6; n++) {
		struct proto_header header;

		assert_true(raw_receive(sock, &header, sizeof(header), NULL, LIMIT_MS) > 0);
		if (header.type == PROTO_STATS_REPLY)
			assert_int_equal(header.id, ++id);
		else
			assert_int_equal(header.type, PROTO_EVENT);
	}
	end_subscription(sock);
	set_level(PN_MEM_LEVEL_OK);
	expect_none(sock);
	assert_int_equal(ask_stats(looker).subscribers, 0);
	close(sock);
}

/* An agent that only waits for such a subscriber sleeps. */
static void test_unread_wakes_nobody(void **state)
{
	int sock = subscribe(PROTO_TELL_CHANGE, 0);
	uint64_t before, after;

	set_level(PN_MEM_LEVEL_TIGHT);
	set_level(PN_MEM_LEVEL_OK);
	set_level(PN_MEM_LEVEL_WATCH);
	before = ask_stats(looker).wakeups;
	usleep(500000); /* the time over which is counted */
	after = ask_stats(looker).wakeups;
	/* It polls every 250 ms in this test; each look wakes it once or twice. */
	assert_in_range(after - before, 0, 20);
	close(sock);
}

/* ---- views of other processes ---------------------------------------------------------------- */

static int ask_view_of(int sock, int pid, int *ret_memfd)
{
	struct proto_view_of ask = {
		.header = proto_header_make(PROTO_VIEW_OF, sizeof(ask), 5),
		.pid = pid,
	};
	struct proto_welcome welcome;

	assert_int_equal(raw_send_as_admin(sock, &ask, sizeof(ask)), 0);
	assert_true(raw_receive(sock, &welcome, sizeof(welcome), ret_memfd, LIMIT_MS) >=
		    (ssize_t)sizeof(struct proto_header));
	assert_int_equal(welcome.header.id, 5);
	assert_int_equal(*ret_memfd >= 0, welcome.header.status == 0);
	return welcome.header.status;
}

static void test_view_of(void **state)
{
	int sock = raw_connect(agent.socket_path), memfd, other;
	pn_mem_state snapshot;
	struct page_view view = { 0 };
	uint64_t views;
	void *page;

	if (geteuid())
		skip_because("needs root");
	assert_int_equal(made_host_add_process(&host, 500, "/a"), 0);
	assert_int_equal(made_host_add_process(&host, 501, "/a"), 0);
	assert_int_equal(made_host_add_process(&host, 502, "/b"), 0);
	views = ask_stats(looker).views;
	assert_int_equal(ask_view_of(sock, 500, &memfd), 0);
	assert_int_equal(ask_stats(looker).views, views + 1);
	page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, memfd, 0);
	assert_int_equal(page_open(&view, page, PAGE_BYTES), 0);
	assert_int_equal(page_read(&view, &snapshot, NULL), 0);
	assert_int_equal(snapshot.host_total_bytes, 64ull << 30);
	munmap(page, PAGE_BYTES);
	close(memfd);
	/* One at a time, as long as the connection lives. */
	assert_int_equal(ask_view_of(sock, 501, &memfd), 0);
	close(memfd);
	assert_int_equal(ask_stats(looker).views, views + 1);
	assert_int_equal(ask_view_of(sock, 502, &other), 0);
	close(other);
	assert_int_equal(ask_stats(looker).views, views + 1);
	assert_int_equal(ask_view_of(sock, 999, &other), -ESRCH);
	assert_int_equal(ask_view_of(sock, 0, &other), -ESRCH);
	assert_int_equal(ask_view_of(sock, -1, &other), -ESRCH);
	assert_int_equal(raw_hello(sock), 0);
	close(sock);
	for (int i = 0; i < 1000 && ask_stats(looker).views != views; i++)
		;
	assert_int_equal(ask_stats(looker).views, views);
}

/* Runs it as another user; its result is the child's exit status. */
static int as_nobody(int (*run)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(setgid(NOBODY) || setuid(NOBODY) ? 100 : run());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int try_as_nobody(void)
{
	struct proto_view_of ask = {
		.header = proto_header_make(PROTO_VIEW_OF, sizeof(ask), 5),
		.pid = 500,
	};
	struct proto_stats_reply reply;
	struct proto_header ack;
	int sock = raw_connect(agent.socket_path), fd;

	if (sock < 0 || raw_send(sock, &ask, sizeof(ask), NULL, 0) ||
	    raw_receive(sock, &ack, sizeof(ack), &fd, LIMIT_MS) != sizeof(ack))
		return 1;
	if (ack.status != -EPERM || fd >= 0)
		return 2;
	/* Its own view it gets, and of the users only itself. */
	if (raw_hello(sock))
		return 3;
	if (raw_ask(sock, PROTO_STATS, &reply, sizeof(reply)) != sizeof(reply))
		return 4;
	if (reply.stats.uid_count != 1 || reply.stats.uid[0].uid != NOBODY ||
	    reply.stats.uid[0].clients != 1 || reply.stats.uids != 2)
		return 5;
	return 0;
}

static void test_not_root(void **state)
{
	if (geteuid())
		skip_because("needs root to become another user");
	assert_int_equal(made_host_add_process(&host, 500, "/a"), 0);
	assert_int_equal(chmod(agent.dir, 0755), 0);
	assert_int_equal(as_nobody(try_as_nobody), 0);
}

static void test_stats(void **state)
{
	pn_agent_stats before = ask_stats(looker), after;
	int sock = subscribe(PROTO_TELL_CHANGE, 0);

	expect_event(sock, PN_MEM_LEVEL_OK);
	set_level(PN_MEM_LEVEL_TIGHT);
	expect_event(sock, PN_MEM_LEVEL_TIGHT);
	after = ask_stats(looker);
	assert_int_equal(after.clients, before.clients + 1);
	assert_int_equal(after.subscribers, before.subscribers + 1);
	assert_int_equal(after.accepted, before.accepted + 1);
	assert_int_equal(after.requests, before.requests + 3);
	assert_int_equal(after.told, before.told + 2);
	assert_int_equal(after.dropped, before.dropped);
	assert_true(after.uptime_ns > before.uptime_ns);
	assert_true(after.looks > before.looks && after.wakeups > before.wakeups);
	/* Never more than once in a look, and not in one for others that follows within 10 ms. */
	assert_in_range(after.publishes - before.publishes, 1, after.looks - before.looks);
	assert_int_equal(after.uid_count, 1);
	assert_int_equal(after.uid[0].clients, after.clients);
	assert_int_equal(raw_send(sock, "x", 1, NULL, 0), 0);
	for (int i = 0; i < 1000 && ask_stats(looker).clients != before.clients; i++)
		;
	after = ask_stats(looker);
	assert_int_equal(after.dropped, before.dropped + 1);
	assert_int_equal(after.subscribers, before.subscribers);
	close(sock);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_every_change, setup, teardown),
		cmocka_unit_test_setup_teardown(test_crossing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_does_not_read, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unread_wakes_nobody, setup, teardown),
		cmocka_unit_test_setup_teardown(test_view_of, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_root, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stats, setup, teardown),
	};

	return cmocka_run_group_tests_name("subscribe", tests, NULL, NULL);
}
