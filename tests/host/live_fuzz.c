/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * live_fuzz SECONDS [SEED]: sends anything to a running agent (PNMEMD, built with a sanitizer):
 * messages that are nearly right, half of one, garbage, descriptors, hang-ups in every state, while
 * the level moves and so does the process, from group to group. All the time a well-behaved client
 * must be served, and at the end nothing is reserved any more and the agent goes with status 0,
 * which it does not if a sanitizer found anything.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/budget.h"
#include "core/proto.h"
#include "host/clock.h"
#include "support/agent_proc.h"
#include "support/made_host.h"
#include "support/raw_client.h"

#define CLIENTS     24
#define CHECK_EVERY 500
#define S_NS        1000000000ull

static struct agent_proc agent;
static struct made_host host;
static int socks[CLIENTS]; /* -1: not connected */
static unsigned long counts[6];

/* The agent's own limit is another test's: below it, or the well-behaved one would meet it too. */
static const struct budget_limit connect_limit = { .burst = 500, .per_s = 700 };
static struct budget connects;

static unsigned pick(unsigned n)
{
	return (unsigned)rand() % n;
}

/* Numbers that mean something to someone. */
static uint64_t odd_number(void)
{
	static const uint64_t numbers[] = { 0,          1,         2,        15,
					    16,         31,        32,       INT32_MAX,
					    UINT32_MAX, INT64_MAX, 1u << 30, UINT64_MAX };

	return pick(3) ? numbers[pick(sizeof(numbers) / sizeof(numbers[0]))]
		       : (uint64_t)rand() << pick(40);
}

/* A message of some type, of its size or another, filled with odd numbers, then perhaps bent. */
static size_t make_packet(uint8_t *packet, size_t room)
{
	static const size_t sizes[] = { 24, 32, 56, 80, 200, 4096 };
	size_t bytes = sizes[pick(6)] + (pick(4) ? 0 : pick(40));
	struct proto_header header = proto_header_make((uint16_t)pick(20), bytes, (uint32_t)rand());

	if (bytes > room)
		bytes = room;
	for (size_t i = 0; i + 8 <= bytes; i += 4) {
		uint64_t number = odd_number();

		memcpy(packet + i, &number, 8);
	}
	if (bytes >= 56 && !pick(3))
		memcpy(packet + 40, "0000:3b:00.0\0\0\0", 16);
	if (!pick(20))
		header.version = (uint16_t)rand();
	memcpy(packet, &header, sizeof(header));
	if (!pick(8))
		packet[pick((unsigned)bytes)] ^= (uint8_t)(1u << pick(8));
	return pick(10) ? bytes : pick((unsigned)bytes + 1);
}

static void drop(int *sock)
{
	if (*sock >= 0)
		close(*sock);
	*sock = -1;
}

static void do_something(int *sock)
{
	uint8_t packet[5000];
	int fds[8] = { 0 };
	unsigned what = pick(100);

	if (*sock < 0 && budget_take(&connects, &connect_limit, clock_now_ns()))
		*sock = raw_connect(agent.socket_path);
	if (*sock < 0) {
		usleep(1000); /* it has been too quick */
		return;
	}
	if (what < 60) {
		size_t bytes = make_packet(packet, sizeof(packet));

		counts[0]++;
		if (raw_send(*sock, packet, bytes, fds, pick(10) ? 0 : 1 + pick(8)) == -EPIPE)
			drop(sock);
	} else if (what < 80) {
		counts[1]++;
		while (recv(*sock, packet, sizeof(packet), MSG_DONTWAIT) > 0)
			;
	} else if (what < 88) {
		counts[2]++;
		drop(sock);
	} else if (what < 90) {
		counts[3]++;
		shutdown(*sock, (int)pick(3));
	} else if (what < 95) {
		counts[4]++;
		made_host_set_level(&host, (pn_mem_level)pick(4));
		if (!pick(50))
			made_host_add_process(&host, getpid(), pick(2) ? "/one" : "/own");
	} else {
		size_t bytes = pick(sizeof(packet));

		counts[5]++;
		for (size_t i = 0; i < bytes; i++)
			packet[i] = (uint8_t)rand();
		raw_send(*sock, packet, bytes, NULL, 0);
	}
}

/* 0 or what is wrong. */
static const char *check_served(void)
{
	struct proto_stats_reply stats;
	struct proto_header ack;
	const char *wrong = NULL;
	int sock = raw_connect(agent.socket_path);

	if (sock < 0)
		return "no connection";
	if (raw_hello(sock))
		wrong = "no welcome";
	else if (raw_ask(sock, PROTO_POLL_NOW, &ack, sizeof(ack)) != sizeof(ack) || ack.status)
		wrong = "no look";
	else if (raw_ask(sock, PROTO_STATS, &stats, sizeof(stats)) != sizeof(stats) ||
		 stats.stats.clients > CLIENTS + 200)
		wrong = "no stats, or clients that have gone";
	close(sock);
	return wrong;
}

static bool nothing_is_reserved(void *arg)
{
	struct proto_reservations ask = {
		.header = proto_header_make(PROTO_RESERVATIONS, sizeof(ask), 1),
	};
	struct proto_reservations_reply reply = { .count = 1 };
	int sock = raw_connect(agent.socket_path);

	if (sock < 0)
		return false;
	if (raw_hello(sock) || raw_send(sock, &ask, sizeof(ask), NULL, 0) ||
	    raw_receive(sock, &reply, sizeof(reply), NULL, 1000) != sizeof(reply))
		reply.count = 1;
	close(sock);
	return !reply.count;
}

static const char *fuzz(uint64_t seconds)
{
	uint64_t end_ns = clock_now_ns() + seconds * S_NS;
	const char *wrong = NULL;

	for (unsigned long n = 0; !wrong && clock_now_ns() < end_ns; n++) {
		do_something(&socks[pick(CLIENTS)]);
		if (n % CHECK_EVERY == 0)
			wrong = check_served();
	}
	for (int i = 0; i < CLIENTS; i++)
		drop(&socks[i]);
	if (!wrong && !test_until(nothing_is_reserved, NULL, 10000))
		wrong = "something is reserved for clients that have gone";
	return wrong;
}

static const char *run(uint64_t seconds)
{
	static const char *args[] = {
		"--no-bpf", "--stall-hook", "poll", "--procfs", host.dir, NULL
	};
	const char *wrong;
	int status;

	setenv("PN_LEVEL_HOLD_MS", "0", 1);
	for (int i = 0; i < CLIENTS; i++)
		socks[i] = -1;
	if (made_host_init(&host) || made_host_add_process(&host, 1, "/one") ||
	    made_host_add_process(&host, 2, "/two") || made_host_add_process(&host, 15, "/three") ||
	    made_host_add_process(&host, getpid(), "/own"))
		return "no /proc of its own";
	if (agent_proc_start(&agent, args))
		return "the agent does not start";
	wrong = fuzz(seconds);
	agent_proc_signal(&agent, SIGTERM);
	status = agent_proc_wait(&agent);
	if (!wrong && status) {
		printf("# status %d\n", status);
		wrong = "the agent did not end well";
	}
	return wrong;
}

int main(int argc, char **argv)
{
	unsigned seed = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : (unsigned)time(NULL);
	const char *wrong;

	if (argc < 2)
		return 2;
	srand(seed);
	signal(SIGPIPE, SIG_IGN);
	if (agent_proc_init(&agent))
		return 1;
	wrong = run(strtoul(argv[1], NULL, 10));
	printf("# seed %u: %lu messages, %lu reads, %lu hang-ups, %lu shutdowns, %lu levels, "
	       "%lu times garbage\n",
	       seed, counts[0], counts[1], counts[2], counts[3], counts[4], counts[5]);
	if (wrong) {
		printf("# %s\n", wrong);
		agent_proc_log_print(&agent);
	}
	agent_proc_destroy(&agent);
	made_host_destroy(&host);
	return wrong != NULL;
}
