/* SPDX-License-Identifier: BSD-2-Clause */
/* See hostile.h. Each function runs in a process of its own, until the test kills it. */
#include "support/hostile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/pressure/pressure_watch.h"
#include "core/page.h"
#include "core/proto.h"
#include "support/lingering_socket.h"
#include "support/raw_client.h"
#include "support/uring_sleepers.h"

#define HELD_MAX  900
#define LINGER_S  600
#define SLEEPERS  10000
#define READERS   50
#define ALL_BYTES (1ull << 40)

static int connect_again(const char *path)
{
	int sock;

	while ((sock = raw_connect(path)) < 0)
		usleep(1000);
	return sock;
}

static int connect_pressure(const char *path)
{
	char pressure[128];
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(pressure, sizeof(pressure), "%s%s", path, PRESSURE_WATCH_SUFFIX);
	if (sock < 0 || !raw_connect_with(sock, pressure))
		return sock;
	close(sock);
	return -1;
}

static void read_all(int sock)
{
	char reply[8192];

	while (recv(sock, reply, sizeof(reply), MSG_DONTWAIT) > 0)
		;
}

/* Sends, and connects again where the agent has hung up. */
static void send_again(int *sock, const char *path, const void *packet, size_t bytes)
{
	int r = raw_send(*sock, packet, bytes, NULL, 0);

	read_all(*sock);
	if (!r || r == -EAGAIN)
		return;
	close(*sock);
	*sock = connect_again(path);
	raw_hello(*sock);
}

static int connect_hello(const char *path)
{
	int sock = connect_again(path);

	raw_hello(sock);
	return sock;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

/* The client keeps the page's descriptor and hangs up, so that each connect may need a new page. */
static void keep_pages(const char *path)
{
	static int held[HELD_MAX];

	for (unsigned i = 0;; i++) {
		int sock = connect_again(path);

		if (held[i % HELD_MAX] > 0)
			close(held[i % HELD_MAX]);
		held[i % HELD_MAX] = raw_page(sock);
		close(sock);
	}
}

/* Both sockets are sent a descriptor whose close takes ten minutes. */
static void send_lingering(const char *path)
{
	int fd = lingering_socket(LINGER_S);
	struct proto_header ask = proto_header_make(PROTO_STATS, sizeof(ask), 1);

	for (;;) {
		int sock = connect_again(path), pressure = connect_pressure(path);

		raw_send(sock, &ask, sizeof(ask), &fd, 1);
		if (pressure >= 0) {
			raw_send(pressure, "Q", 1, &fd, 1);
			close(pressure);
		}
		close(sock);
	}
}

static void push_die(int *sock, const char *path, bool full)
{
	struct proto_set_die push = {
		.header = proto_header_make(PROTO_SET_DIE, sizeof(push), 1),
		.free_bytes = full ? 0 : ALL_BYTES,
		.budget_bytes = ALL_BYTES,
	};

	send_again(sock, path, &push, sizeof(push));
}

/* Its own page is CRITICAL and is not, again and again. */
static void flip_level(const char *path)
{
	int sock = connect_hello(path);

	for (bool full = true;; full = !full)
		push_die(&sock, path, full);
}

static void hold_pressure_sockets(const char *path)
{
	static int held[HELD_MAX];

	for (unsigned i = 0;; i++) {
		if (held[i % HELD_MAX] > 0)
			close(held[i % HELD_MAX]);
		held[i % HELD_MAX] = connect_pressure(path);
	}
}

/* Subscribers of every change never read, and their user's page changes all the time. */
static void subscribe_unread(const char *path)
{
	struct proto_subscribe ask = {
		.header = proto_header_make(PROTO_SUBSCRIBE, sizeof(ask), 1),
		.what = PROTO_TELL_CHANGE,
	};
	int socks[READERS], pusher = connect_hello(path);

	for (int i = 0; i < READERS; i++)
		socks[i] = connect_again(path);
	for (unsigned i = 0;; i++) {
		int *sock = &socks[i % READERS], r;

		r = raw_send(*sock, &ask, sizeof(ask), NULL, 0);
		if (r && r != -EAGAIN) {
			close(*sock);
			*sock = connect_again(path);
		}
		push_die(&pusher, path, i % 2);
	}
}

static void flood_verdicts(const char *path)
{
	struct proto_verdicts packet = {
		.header = proto_header_make(PROTO_VERDICT, sizeof(packet), 1),
		.count = PROTO_VERDICTS_MAX,
		.dropped = UINT32_MAX,
	};
	int sock = connect_hello(path);

	for (;;)
		send_again(&sock, path, &packet, sizeof(packet));
}

/* Ten thousand sleep on the page, which the client changes; where the kernel has no such sleepers
 * it only changes. */
static void sleep_on_page(const char *path)
{
	struct uring_sleepers sleepers;
	int pusher = connect_hello(path), memfd = raw_page(pusher);
	struct page *page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, memfd, 0);
	bool can_sleep = page != MAP_FAILED && !uring_sleepers_open(&sleepers);

	if (can_sleep)
		uring_sleepers_add(&sleepers, &page->level_word, SLEEPERS);
	for (bool full = true;; full = !full) {
		push_die(&pusher, path, full);
		if (can_sleep)
			uring_sleepers_add(&sleepers, &page->level_word,
					   uring_sleepers_woken(&sleepers));
	}
}

/* What only the administrator may ask for. */
static void ask_as_root(const char *path)
{
	static const uint16_t types[] = { PROTO_TRACE_DUMP, PROTO_TRACE_RECORD };
	int sock = connect_hello(path);

	for (unsigned i = 0;; i++) {
		struct proto_view_of of = {
			.header = proto_header_make(PROTO_VIEW_OF, sizeof(of), 1),
			.pid = (int32_t)i % 1000 + 1,
		};
		struct proto_header ask = proto_header_make(types[i % 2], sizeof(ask), 1);

		send_again(&sock, path, &of, sizeof(of));
		send_again(&sock, path, &ask, sizeof(ask));
	}
}

/* Those that are not here are in attack.c, by name. */
static const struct attack kinds[] = {
	{ "keeps pages", keep_pages, false, false },
	{ "sends sockets that linger", send_lingering, false, false },
	{ "makes its page CRITICAL and back", flip_level, false, false },
	{ "holds the pressure socket", hold_pressure_sockets, false, false },
	{ "subscribes and does not read", subscribe_unread, false, false },
	{ "floods with verdicts", flood_verdicts, false, false },
	{ "sleeps on its page ten thousand times", sleep_on_page, false, false },
	{ "asks for what is the administrator's", ask_as_root, false, false },
};
static const char *const others[] = { "floods with promises", "sends garbage" };

static const struct attack *attack_named(const char *name)
{
	const struct attack *attack = attacks;

	while (attack->name && strcmp(attack->name, name))
		attack++;
	return attack->name ? attack : NULL;
}

int hostile_start(struct attackers *attackers, const char *socket_path,
		  const struct made_host *host)
{
	const int n_kinds = sizeof(kinds) / sizeof(kinds[0]);
	int r = 0;

	attackers->n = 0;
	for (int i = 0; i < HOSTILE_CLIENTS && !r; i++) {
		const struct attack *attack =
			i < n_kinds ? &kinds[i] : attack_named(others[i - n_kinds]);

		r = attack ? attack_add(attackers, attack, socket_path, host,
					HOSTILE_FIRST_UID + (uid_t)i % HOSTILE_USERS)
			   : -ENOENT;
	}
	return r;
}

int hostile_start_burners(struct attackers *attackers, const char *socket_path,
			  const struct made_host *host)
{
	int r = 0;

	attackers->n = 0;
	for (int i = 0; i < HOSTILE_CLIENTS && !r; i++)
		r = attack_add(attackers, &attacks[0], socket_path, host,
			       HOSTILE_FIRST_UID + (uid_t)i % HOSTILE_USERS);
	return r;
}
