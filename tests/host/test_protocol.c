/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The wire, as version 1 froze it: byte for byte, from no struct of the tree. A client of then with
 * the agent of now, and the library of now with an agent of then; a newer client and a newer
 * agent, whose messages have grown; and what is refused, to which the connection is no forfeit.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/clock.h"
#include "host/futex.h"
#include "support/agent_proc.h"
#include "support/raw_client.h"
#include "pn_memwatch.h"

#define LIMIT_MS   10000
#define PACKET_MAX 8192

#define MAGIC    "31504e4d 0100 "
#define GIB_5    "00000040 01000000 "
#define GIB_10   "00000080 02000000 "
#define GIB_1    "00000040 00000000 "
#define ZEROS_16 "00000000 00000000 00000000 00000000 "
#define PCI_3B   "30303030 3a33623a 30302e30 00000000 " /* "0000:3b:00.0" */

/* ".." is any byte. Blanks are for the eye. */
static size_t from_hex(const char *hex, uint8_t *ret, uint8_t *ret_mask)
{
	size_t n = 0;

	for (; *hex; hex++) {
		char byte[3] = { hex[0], hex[0] == ' ' ? 0 : hex[1], 0 };

		if (*hex == ' ')
			continue;
		ret_mask[n] = *hex == '.' ? 0 : 0xff;
		ret[n++] = (uint8_t)strtoul(byte, NULL, 16);
		hex++;
	}
	return n;
}

static void assert_bytes(const uint8_t *got, size_t got_bytes, const char *hex, const char *what)
{
	static uint8_t want[PACKET_MAX], mask[PACKET_MAX];
	size_t n = from_hex(hex, want, mask);

	if (got_bytes < n)
		fail_msg("%s: %zu bytes, not %zu", what, got_bytes, n);
	for (size_t i = 0; i < n; i++)
		if ((got[i] & mask[i]) != (want[i] & mask[i]))
			fail_msg("%s: byte %zu is %02x, not %02x", what, i, got[i], want[i]);
}

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

static int connect_to_agent(void)
{
	static const char *const args[] = { "--no-bpf", NULL };
	int sock;

	if (!agent.pid)
		assert_int_equal(agent_proc_start(&agent, args), 0);
	sock = raw_connect(agent.socket_path);
	assert_true(sock >= 0);
	return sock;
}

/* ---- a client of version 1 ------------------------------------------------------------------- */

struct exchange {
	const char *what, *request, *reply;
	size_t reply_bytes; /* at least */
};

static const struct exchange version_1[] = {
	/* The reserved word has had a meaning since: what the agent takes. */
	{ "hello", MAGIC "0100 18000000 07000000 00000000 00000000",
	  MAGIC "4100 ........ 07000000 00000000 ........ ........", 48 },
	{ "poll now", MAGIC "0200 18000000 08000000 00000000 00000000",
	  MAGIC "4000 ........ 08000000 00000000 00000000", 24 },
	{ "set die",
	  MAGIC "0300 38000000 09000000 00000000 00000000"
		"02000000 00000000" GIB_5 GIB_10 GIB_1,
	  MAGIC "4000 ........ 09000000 00000000 00000000", 24 },
	{ "set die 99",
	  MAGIC "0300 38000000 0a000000 00000000 00000000"
		"63000000 00000000" GIB_5 GIB_10 GIB_1,
	  MAGIC "4000 ........ 0a000000 eaffffff 00000000", 24 }, /* EINVAL */
	{ "set die id",
	  MAGIC "0500 50000000 0b000000 00000000 00000000" ZEROS_16 PCI_3B GIB_5 GIB_10 GIB_1,
	  MAGIC "4300 ........ 0b000000 00000000 00000000 00000000", 32 },
	{ "take that back",
	  MAGIC "0500 50000000 0c000000 00000000 00000000" ZEROS_16 PCI_3B ZEROS_16
		"00000000 00000000",
	  MAGIC "4300 ........ 0c000000 00000000 00000000 00000000", 32 },
	{ "hooks", MAGIC "0400 18000000 0d000000 00000000 00000000",
	  MAGIC "4200 ........ 0d000000 00000000 00000000 ........", 24 + 8 + 32 * 200 },
	{ "dies", MAGIC "0600 18000000 0e000000 00000000 00000000",
	  MAGIC "4400 ........ 0e000000 00000000 00000000 ........", 24 + 8 + 34 * 200 },
};

/* The request with more_bytes appended, and its own length in it. */
static size_t make_request(const char *hex, size_t more_bytes, uint8_t *ret)
{
	static uint8_t mask[PACKET_MAX];
	uint32_t bytes = (uint32_t)(from_hex(hex, ret, mask) + more_bytes);

	memset(ret + bytes - more_bytes, 0xa5, more_bytes);
	memcpy(ret + 8, &bytes, sizeof(bytes));
	return bytes;
}

static void exchange_on(int sock, const struct exchange *e, size_t more_bytes)
{
	static uint8_t packet[PACKET_MAX];
	size_t bytes = make_request(e->request, more_bytes, packet);
	uint32_t said_bytes;
	int fd;
	ssize_t n;

	assert_int_equal(raw_send(sock, packet, bytes, NULL, 0), 0);
	n = raw_receive(sock, packet, sizeof(packet), &fd, LIMIT_MS);
	assert_true(n >= (ssize_t)e->reply_bytes);
	assert_bytes(packet, (size_t)n, e->reply, e->what);
	memcpy(&said_bytes, packet + 8, sizeof(said_bytes));
	assert_int_equal(said_bytes, n);
	assert_int_equal(fd >= 0, !strcmp(e->what, "hello"));
	if (fd >= 0)
		close(fd);
}

static void test_old_client(void **state)
{
	int sock = connect_to_agent();

	for (size_t i = 0; i < sizeof(version_1) / sizeof(version_1[0]); i++)
		exchange_on(sock, &version_1[i], 0);
	close(sock);
}

/* A later client's messages are longer: of those the agent takes what it knows. */
static void test_newer_client(void **state)
{
	int sock = connect_to_agent();

	for (size_t i = 0; i < sizeof(version_1) / sizeof(version_1[0]); i++)
		exchange_on(sock, &version_1[i], 8 * (i + 1));
	exchange_on(sock, &version_1[0], 4096 - 24);
	close(sock);
}

/* The page, by the offsets that every reader of it has. */
static void test_page_layout(void **state)
{
	static uint8_t packet[PACKET_MAX];
	size_t bytes = make_request(version_1[0].request, 0, packet), copy;
	const uint8_t *page;
	uint64_t seq, total;
	uint32_t stride;
	int sock = connect_to_agent(), memfd;

	assert_int_equal(raw_send(sock, packet, bytes, NULL, 0), 0);
	assert_true(raw_receive(sock, packet, sizeof(packet), &memfd, LIMIT_MS) >= 48);
	page = mmap(NULL, 8192, PROT_READ, MAP_SHARED, memfd, 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	assert_bytes(page, 8192,
		     "504e4d45 4d504731 01000000 ........ d0010000 ........ .... 8000 ........"
		     "d0010000 00000000",
		     "page");
	memcpy(&stride, page + 28, sizeof(stride));
	memcpy(&seq, page + 40, sizeof(seq));
	assert_true(seq && seq % 2 == 0);
	copy = 128 + seq / 2 % page[24] * stride;
	memcpy(&total, page + copy, sizeof(total));
	assert_in_range(total, 1ull << 26, 1ull << 48); /* MemTotal */
	assert_true(page[copy + 448] <= 3);             /* the level */
	close(memfd);
	close(sock);
	munmap((void *)page, 8192);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void test_refusals_cost_nothing(void **state)
{
	static const struct exchange refused[] = {
		{ "version 2", "31504e4d 0200 0100 18000000 21000000 00000000 00000000",
		  MAGIC "4000 18000000 21000000 a3ffffff", 24 }, /* EPROTONOSUPPORT */
		{ "version 0, longer",
		  "31504e4d 0000 0100 20000000 22000000 00000000 00000000"
		  "11111111 11111111",
		  MAGIC "4000 18000000 22000000 a3ffffff", 24 },
		{ "type 99", MAGIC "6300 18000000 23000000 00000000 00000000",
		  MAGIC "4000 18000000 23000000 a1ffffff", 24 }, /* EOPNOTSUPP */
		{ "a reply", MAGIC "4000 18000000 24000000 00000000 00000000",
		  MAGIC "4000 18000000 24000000 a1ffffff", 24 },
		{ "type 65535, longer",
		  MAGIC "ffff 20000000 25000000 00000000 00000000"
			"00000000 00000000",
		  MAGIC "4000 18000000 25000000 a1ffffff", 24 },
		{ "subscribe to level 9",
		  MAGIC "0700 20000000 26000000 00000000 00000000 01000000 09000000",
		  MAGIC "4000 18000000 26000000 eaffffff", 24 },
	};
	int sock = connect_to_agent();

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		exchange_on(sock, &refused[i], 0);
	exchange_on(sock, &version_1[0], 0); /* as if nothing had been */
	close(sock);
}

/* After these there is no telling what comes next: the connection ends, without a word. */
static void test_unsound_ends(void **state)
{
	static const char *const unsound[] = {
		"31",
		MAGIC "0100 18000000 07000000 00000000", /* half a header */
		"31504e4e 0100 0100 18000000 07000000 00000000 00000000",
		MAGIC "0100 19000000 07000000 00000000 00000000", /* not its length */
		MAGIC "0300 18000000 07000000 00000000 00000000", /* shorter than its type */
		MAGIC "0700 1c000000 07000000 00000000 00000000 01000000",
	};
	static uint8_t packet[PACKET_MAX], mask[PACKET_MAX];

	for (size_t i = 0; i < sizeof(unsound) / sizeof(unsound[0]) + 1; i++) {
		int sock = connect_to_agent();
		size_t bytes = i < sizeof(unsound) / sizeof(unsound[0])
				       ? from_hex(unsound[i], packet, mask)
				       : make_request(version_1[0].request, 4096 - 23, packet);
		ssize_t n;

		assert_int_equal(raw_send(sock, packet, bytes, NULL, 0), 0);
		n = raw_receive(sock, packet, sizeof(packet), NULL, LIMIT_MS);
		assert_true(n == 0 || n == -ECONNRESET);
		close(sock);
	}
}

/* ---- an agent of version 1, in a thread ------------------------------------------------------ */

#define OLD_EXT_BYTES 2080
#define OLD_STRIDE    (464 + OLD_EXT_BYTES)

static struct old_agent {
	int listener, memfd;
	uint8_t *page;
	pthread_t thread;
	_Atomic bool stop;
	size_t more_bytes;      /* appended to every reply, as a newer agent would */
	_Atomic unsigned asked; /* a bit for each type */
	_Atomic unsigned wrong; /* a bit for each type of which the bytes were others */
} old;

/* On the page, with the words that there were then. */
static void old_publish(uint64_t seq, uint64_t avail_bytes, uint32_t level)
{
	const uint64_t now_ns = clock_now_ns();
	uint8_t *copy = old.page + 128 + seq / 2 % 4 * OLD_STRIDE;

	memcpy(copy, &(uint64_t){ 64ull << 30 }, 8);
	memcpy(copy + 8, &avail_bytes, 8);
	memcpy(copy + 448, &level, 4);
	memcpy(copy + 456, &seq, 8);
	memcpy(old.page + 48, &now_ns, 8);
	__atomic_store_n((uint64_t *)(old.page + 40), seq, __ATOMIC_RELEASE);
	for (int word = 56; word <= 60; word += 4) { /* level, publish */
		__atomic_fetch_add((uint32_t *)(old.page + word), 1, __ATOMIC_RELEASE);
		futex_wake((_Atomic uint32_t *)(old.page + word), FUTEX_WAKE_ANY);
	}
}

static void old_make_page(void)
{
	static const char header[] = "504e4d45 4d504731 01000000 00300000 d0010000 20080000"
				     "0400 8000 f0090000 d0010000 00000000";
	uint8_t mask[128];

	old.memfd = memfd_create("old", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(old.memfd, 12288), 0);
	old.page = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, old.memfd, 0);
	assert_ptr_not_equal(old.page, MAP_FAILED);
	assert_int_equal(fcntl(old.memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	from_hex(header, old.page, mask);
	old_publish(1000, 40ull << 30, 0);
}

static const char *old_request(unsigned type)
{
	switch (type) {
	case 3:
		return MAGIC "0300 38000000 ........ 00000000 00000000"
			     "02000000 00000000" GIB_5 GIB_10 GIB_1;
	case 5:
		return MAGIC "0500 50000000 ........ 00000000 00000000" ZEROS_16 PCI_3B GIB_5 GIB_10
			GIB_1;
	default:
		return MAGIC ".... 18000000 ........ 00000000 00000000";
	}
}

/* Answers in the bytes of then. What it did not know it refused, and hung up. */
static bool old_answer(int sock)
{
	static uint8_t packet[PACKET_MAX], reply[PACKET_MAX], want[PACKET_MAX], mask[PACKET_MAX];
	ssize_t n = raw_receive(sock, packet, sizeof(packet), NULL, LIMIT_MS);
	unsigned type = n >= 24 ? packet[6] : 0;
	const uint32_t reply_bytes[] = { 24, 48, 24, 24, 24 + 8 + 6400, 32, 24 + 8 + 6800 };
	const uint8_t reply_types[] = { 0x40, 0x41, 0x40, 0x40, 0x42, 0x43, 0x44 };
	uint32_t bytes = type < 7 ? reply_bytes[type] : 24;
	size_t want_bytes = from_hex(old_request(type), want, mask);

	if (n <= 0)
		return false;
	old.asked |= 1u << type;
	for (size_t i = 0; i < want_bytes; i++)
		if (type < 7 && ((packet[i] ^ want[i]) & mask[i] || n != (ssize_t)want_bytes))
			old.wrong |= 1u << type;
	memset(reply, 0, sizeof(reply));
	from_hex(MAGIC "4000 00000000 00000000 00000000 00000000", reply, mask);
	if (type < 7)
		reply[6] = reply_types[type];
	else
		memcpy(reply + 16, &(int32_t){ -EOPNOTSUPP }, 4);
	memset(reply + bytes, 0xa5, old.more_bytes);
	bytes += (uint32_t)old.more_bytes;
	memcpy(reply + 8, &bytes, 4);
	memcpy(reply + 12, packet + 12, 4);
	if (type == 1)
		memcpy(reply + 24, &(uint32_t){ 12288 }, 4);
	if (type == 4 || type == 6)
		reply[24] = 3; /* lines, all of them empty */
	raw_send(sock, reply, bytes, &old.memfd, type == 1);
	return type < 7;
}

static void *old_serve(void *arg)
{
	while (!old.stop) {
		int sock = accept4(old.listener, NULL, NULL, SOCK_CLOEXEC);

		while (sock >= 0 && old_answer(sock))
			;
		close(sock);
	}
	return NULL;
}

static void old_start(size_t more_bytes)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	old = (struct old_agent){ .more_bytes = more_bytes };
	old_make_page();
	strcpy(addr.sun_path, agent.socket_path);
	old.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(old.listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(old.listener, 8), 0);
	assert_int_equal(pthread_create(&old.thread, NULL, old_serve, NULL), 0);
}

static void old_stop(void)
{
	pn_memwatch_stop(); /* hangs up */
	old.stop = true;
	shutdown(old.listener, SHUT_RDWR);
	pthread_join(old.thread, NULL);
	close(old.listener);
	close(old.memfd);
	munmap(old.page, 12288);
	unlink(agent.socket_path);
}

static bool is_attached(void *arg)
{
	return pn_memwatch_source() == PN_SOURCE_AGENT;
}

static void *wait_critical(void *arg)
{
	pn_mem_state *got = arg;

	return (void *)(long)pn_memwatch_wait_at(PN_AT_LEAST, PN_MEM_LEVEL_CRITICAL,
						 clock_now_ns() + LIMIT_MS * 1000000ull, got);
}

/* All that the library could ask of an agent of then it still asks in the same words. */
static void use_old_agent(void)
{
	pn_hook_status lines[4];
	pn_mem_state state, got;
	pthread_t waiter;
	void *result;

	assert_int_equal(pn_memwatch_start(), 0);
	assert_int_equal(pn_memwatch_source(), PN_SOURCE_AGENT);
	assert_int_equal(pn_memwatch_read(&state), 0);
	assert_int_equal(state.host_avail_bytes, 40ull << 30);
	pn_memwatch_poll_now();
	pn_memwatch_set_die(2, 5ull << 30, 10ull << 30, 1ull << 30);
	assert_int_equal(pn_memwatch_set_die_pci("3b:00.0", 5ull << 30, 10ull << 30, 1ull << 30),
			 0);
	assert_int_equal(pn_memwatch_hooks(lines, 4), 3);
	assert_int_equal(pn_memwatch_dies(lines, 4), 3);
	assert_int_equal(pn_memwatch_source(), PN_SOURCE_AGENT);
	assert_int_equal(old.wrong, 0);
	assert_int_equal(old.asked & 0x7e, 0x7e);

	/* There is no word for a threshold on its page: the level's own wakes. */
	assert_int_equal(pthread_create(&waiter, NULL, wait_critical, &got), 0);
	old_publish(1002, 11ull << 30, PN_MEM_LEVEL_TIGHT);
	old_publish(1004, 5ull << 30, PN_MEM_LEVEL_CRITICAL);
	pthread_join(waiter, &result);
	assert_null(result);
	assert_int_equal(got.level, PN_MEM_LEVEL_CRITICAL);
}

static void test_old_agent(void **state)
{
	pn_agent_stats stats;

	old_start(0);
	use_old_agent();
	/* It refuses what it does not know and hangs up: the library is back in a moment. */
	assert_int_equal(pn_memwatch_stats(&stats), -EOPNOTSUPP);
	assert_true(test_until(is_attached, NULL, LIMIT_MS));
	old_stop();
}

static void test_newer_agent(void **state)
{
	old_start(40);
	use_old_agent();
	old_stop();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_old_client, setup, teardown),
		cmocka_unit_test_setup_teardown(test_newer_client, setup, teardown),
		cmocka_unit_test_setup_teardown(test_page_layout, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refusals_cost_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unsound_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(test_old_agent, setup, teardown),
		cmocka_unit_test_setup_teardown(test_newer_agent, setup, teardown),
	};

	return cmocka_run_group_tests_name("protocol", tests, NULL, NULL);
}
