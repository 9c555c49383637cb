/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent's message handler, with everything behind it but hooks and a sampler, over socketpairs:
 * two clients send what the input says. Every reply is a sound message, and when the clients have
 * gone nothing of them is left. Input: records of 1 byte what, 1 byte length, that many bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/serve/clients.h"
#include "agent/gpu/dies.h"
#include "agent/recorder/recorder.h"
#include "agent/views/follow.h"
#include "agent/serve/reserve.h"
#include "agent/views/views.h"
#include "support/made_host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

#define CLIENTS 2
/* Below what a client is read for at once. */
#define RECORDS_MAX 48

static struct agent_options options = { .cgroupfs = "/nonexistent", .no_bpf = true };
static struct agent agent = {
	.options = &options,
	.cgroupfs_fd = -1,
	.mode = PN_MODE_PSI_TRIGGER,
	.vmstat = { .fd = -1 },
};
static struct made_host host;
static char socket_path[128];

#define require(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "not so: %s\n", #condition);                               \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	agent_look(&agent, false);
	return 0;
}

static void end(void)
{
	server_close(&agent);
	dies_close(&agent);
	views_close(&agent);
	made_host_destroy(&host);
}

static void begin(void)
{
	static const struct views_calls views_calls = {
		.begun = dies_give,
		.ended = recorder_view_end,
	};

	require(!made_host_init(&host));
	require(!made_host_add_process(&host, 500, "/a"));
	require(!made_host_add_process(&host, 501, "/b"));
	require(!made_host_add_process(&host, getpid(), "/a")); /* the clients themselves */
	atexit(end);
	snprintf(socket_path, sizeof(socket_path), "%s/s", host.dir);
	options.socket_path = socket_path;
	options.procfs = host.dir;
	agent.procfs_fd = open(host.dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	require(agent.procfs_fd >= 0 && sd_event_new(&agent.event) >= 0);
	require(!server_open(&agent) && !host_source_open(&agent.source, agent.procfs_fd));
	require(!views_open(&agent, &views_calls) && !sleepers_open(&agent) &&
		!follow_open(&agent));
	require(sd_event_add_time(agent.event, &agent.timer, CLOCK_MONOTONIC, 0, 1, on_timer,
				  NULL) >= 0);
	setenv("PN_DIE_SOURCE", "push", 1);
	require(!dies_open(&agent));
	agent_look(&agent, true);
}

static void run_loop(void)
{
	while (sd_event_run(agent.event, 0) > 0)
		;
}

/* Whole messages, in as many bytes as they say, and descriptors with the page alone. */
static void read_replies(int sock)
{
	union {
		struct proto_header header;
		char space[8192];
	} packet;
	ssize_t n;

	while ((n = recv(sock, &packet, sizeof(packet), MSG_DONTWAIT)) > 0) {
		require(n >= (ssize_t)sizeof(packet.header) && n <= (ssize_t)sizeof(packet));
		require(packet.header.magic == PROTO_MAGIC);
		require(packet.header.version == PROTO_VERSION);
		require(packet.header.size_bytes == n);
		require(packet.header.type >= PROTO_ACK);
		require(packet.header.status <= 0 && packet.header.status > -4096);
		require(!packet.header.status || packet.header.type == PROTO_ACK);
	}
}

static void send_packet(int sock, const uint8_t *data, size_t bytes, bool framed)
{
	uint8_t packet[256] = { 0 };
	struct proto_header header;

	memcpy(packet, data, bytes);
	if (framed && bytes >= 2) {
		/* As good a header as can be; the type and the rest are the input's. */
		bytes = bytes + sizeof(header) - 2 > sizeof(packet) ? sizeof(packet)
								    : bytes + sizeof(header) - 2;
		header = proto_header_make(data[0] % 24, bytes, data[1]);
		memcpy(packet, &header, sizeof(header));
		memcpy(packet + sizeof(header), data + 2, bytes - sizeof(header));
	}
	send(sock, packet, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void play(int socks[CLIENTS], const uint8_t *data, size_t len_bytes)
{
	for (int n = 0; len_bytes >= 2 && n < RECORDS_MAX; n++) {
		int *sock = &socks[data[0] & 1];
		unsigned what = data[0] >> 1 & 7;
		size_t bytes = data[1] < len_bytes - 2 ? data[1] : len_bytes - 2;

		switch (what) {
		case 0:
			send_packet(*sock, data + 2, bytes, false);
			break;
		case 1:
			read_replies(*sock);
			break;
		case 2:
			made_host_set_level(&host, (pn_mem_level)(data[1] & 3));
			agent_look(&agent, false);
			break;
		case 3:
			shutdown(*sock, data[1] & 1 ? SHUT_RD : SHUT_WR);
			break;
		case 4:
			run_loop();
			break;
		default:
			send_packet(*sock, data + 2, bytes, true);
		}
		data += 2 + bytes;
		len_bytes -= 2 + bytes;
	}
}

static int count_views(void)
{
	int n = 0;

	for (const struct agent_view *av = agent.views; av; av = av->next)
		n++;
	return n;
}

static uint32_t count_reservations(void)
{
	const struct reserve_peer root = { .view = agent.views };
	const struct proto_reservations ask = { .after = 0 };
	struct proto_reservations_reply reply = { .count = 0 };

	reserve_list(&agent, &root, true, &ask, &reply);
	return reply.count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
	int socks[CLIENTS];

	if (!agent.event)
		begin();
	for (int i = 0; i < CLIENTS; i++) {
		int pair[2];

		require(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
				    pair));
		socks[i] = pair[0];
		/* Connects of one user are counted, and these are not what is tested. */
		if (agent.server->peers.list)
			agent.server->peers.list->connects.full_ns = 0;
		require(!server_take_client(agent.server, pair[1]));
	}
	play(socks, data, len_bytes);
	run_loop();
	for (int i = 0; i < CLIENTS; i++) {
		read_replies(socks[i]);
		close(socks[i]);
	}
	while (agent.server->peers.n_clients)
		require(sd_event_run(agent.event, 1000000) > 0);
	run_loop();
	require(!agent.server->n_subscribers && !agent.server->waiting);
	require(agent.server->subscribers.next == &agent.server->subscribers);
	require(count_views() == 1 && !agent.views->engines);
	require(!count_reservations());
	return 0;
}
