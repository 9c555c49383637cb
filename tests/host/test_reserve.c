/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reservations against a running agent on a machine that is made up: what it promises to several
 * engine processes at once, and every way in which a promise ends. The race is in
 * test_reserve_race.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "core/proto.h"
#include "host/clock.h"
#include "lib/agent_proc.h"
#include "lib/peer_proc.h"
#include "lib/reserve_host.h"

#define A_MINUTE_MS 60000
#define NOBODY      65534

static struct reserve_host host;
static struct peer_proc a, b;

/* One agent for most of them: each start costs the second in which it grants nothing. */
static int group_setup(void **state)
{
	int r = reserve_host_open(&host);

	if (!r)
		reserve_host_start(&host);
	return r;
}

static int group_teardown(void **state)
{
	reserve_host_close(&host);
	return 0;
}

static int setup(void **state)
{
	reserve_host_avail(&host, 15 * GIB);
	return 0;
}

static int teardown(void **state)
{
	pn_memwatch_stop();
	peer_proc_kill(&a);
	peer_proc_kill(&b);
	return 0;
}

static struct peer_answer reserve(const struct peer_proc *peer, int die, uint64_t bytes)
{
	return peer_proc_do(peer, (struct peer_ask){ .op = PEER_RESERVE,
						     .die = die,
						     .bytes = bytes,
						     .ttl_ms = A_MINUTE_MS });
}

static struct peer_answer end(const struct peer_proc *peer, enum peer_op op, uint64_t id)
{
	return peer_proc_do(peer, (struct peer_ask){ .op = op, .id = id });
}

static struct peer_answer look(const struct peer_proc *peer)
{
	return peer_proc_do(peer, (struct peer_ask){ .op = PEER_READ });
}

static void set_die(const struct peer_proc *peer, int die, uint64_t free_bytes)
{
	peer_proc_do(peer,
		     (struct peer_ask){ .op = PEER_SET_DIE, .die = die, .bytes = free_bytes });
}

static void start_peer(struct peer_proc *peer, uid_t as_uid)
{
	assert_int_equal(peer_proc_start(peer, as_uid), 0);
	assert_int_equal(peer_proc_do(peer, (struct peer_ask){ .op = PEER_START }).r, 0);
}

static bool nothing_reserved(void *arg)
{
	struct peer_answer got = look(arg);

	return got.source == PN_SOURCE_AGENT && !got.host_reserved_bytes;
}

static void start_both(void)
{
	start_peer(&a, 0);
	start_peer(&b, 0);
	assert_true(test_until(nothing_reserved, &b, 10000)); /* the test's before has gone */
}

/* ---- what is promised ----------------------------------------------------------------------- */

/* 15 GiB above the reserve: 10 fit once, and who holds them is not in its own way. */
static void test_one_of_two(void **state)
{
	struct peer_answer got, other;

	start_both();
	got = reserve(&a, PN_RESERVE_HOST, 10 * GIB);
	assert_int_equal(got.r, 0);
	assert_int_equal(got.source, PN_SOURCE_AGENT);
	assert_int_equal(got.fit_bytes, 15 * GIB);
	assert_int_equal(got.host_reserved_bytes, 0);
	assert_int_equal(got.spike.verdict, PN_VERDICT_ADMIT);
	assert_int_equal(got.spike.have_bytes, 15 * GIB);

	other = reserve(&b, PN_RESERVE_HOST, 10 * GIB);
	assert_int_equal(other.r, -ENOSPC);
	assert_int_equal(other.fit_bytes, 5 * GIB);
	assert_int_equal(other.host_reserved_bytes, 10 * GIB);
	assert_int_equal(other.spike.have_bytes, 5 * GIB);
	assert_int_equal(other.spec.have_bytes, 15 * GIB); /* the SPEC's own knows of none */
	/* Its own second one neither: it has not allocated the first yet. */
	assert_int_equal(reserve(&a, PN_RESERVE_HOST, 10 * GIB).r, -ENOSPC);
	assert_int_equal(reserve(&b, PN_RESERVE_HOST, 5 * GIB).r, 0);
	assert_int_equal(reserve(&b, PN_RESERVE_HOST, 1).r, -ENOSPC);

	got = end(&a, PEER_RELEASE, got.id);
	assert_int_equal(got.r, 0);
	assert_int_equal(got.host_reserved_bytes, 5 * GIB);
	assert_int_equal(reserve(&b, PN_RESERVE_HOST, 10 * GIB).r, 0);
}

/* Admission of a burst of 2.4 GiB with 2 GiB left by others, refused and then not. */
static void test_admission_counts_others(void **state)
{
	struct peer_answer got;

	start_both();
	got = reserve(&a, PN_RESERVE_HOST, 13 * GIB);
	assert_int_equal(got.r, 0);
	assert_int_equal(got.spike.verdict, PN_VERDICT_ADMIT);
	assert_int_equal(look(&b).spike.verdict, PN_VERDICT_REJECT);
	assert_int_equal(look(&b).spike.check, PN_CHECK_HOST);
	assert_int_equal(look(&b).spec.verdict, PN_VERDICT_ADMIT);
	end(&a, PEER_RELEASE, got.id);
	assert_int_equal(look(&b).spike.verdict, PN_VERDICT_ADMIT);
}

static void test_refusals(void **state)
{
	static const struct {
		int die;
		uint64_t bytes;
		uint32_t ttl_ms;
		int r;
	} rows[] = {
		{ PN_RESERVE_HOST, 0, 1000, -EINVAL },
		{ PN_RESERVE_HOST, 1, 0, -EINVAL },
		{ PN_RESERVE_HOST, 1, PN_RESERVE_TTL_MAX_MS + 1, -EINVAL },
		{ PN_RESERVE_HOST, 1, PN_RESERVE_TTL_MAX_MS, 0 },
		{ PN_RESERVE_HOST, UINT64_MAX, 1000, -ENOSPC },
		{ -2, 1, 1000, -EINVAL },
		{ 32, 1, 1000, -EINVAL },
		{ 31, 1, 1000, -ENODEV },
		{ 0, 1, 1000, -ENODEV },
	};
	uint64_t id = 0;

	start_both();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct peer_answer got =
			peer_proc_do(&a, (struct peer_ask){ .op = PEER_RESERVE,
							    .die = rows[i].die,
							    .bytes = rows[i].bytes,
							    .ttl_ms = rows[i].ttl_ms });

		assert_int_equal(got.r, rows[i].r);
		if (!got.r)
			id = got.id;
	}
	assert_int_equal(end(&a, PEER_COMMIT, id + 1).r, -ESTALE);
	/* Only whose it is may end it; ids are each process's own. */
	assert_int_equal(end(&b, PEER_RELEASE, id).r, -ESTALE);
	assert_int_equal(look(&b).host_reserved_bytes, 1);
	assert_int_equal(end(&a, PEER_RELEASE, id).r, 0);
	assert_int_equal(end(&a, PEER_RELEASE, id).r, -ESTALE);
}

/* Siblings under a limit: each other's reservations count there, and those from outside do not. */
static void test_group_limit(void **state)
{
	struct peer_proc outside = { 0 };
	struct peer_answer got;

	reserve_host_limit(&host, "pod", 20 * GIB, 7 * GIB); /* 1 GiB of reserve: 12 left */
	assert_int_equal(peer_proc_start(&a, 0), 0);
	assert_int_equal(peer_proc_start(&b, 0), 0);
	assert_int_equal(peer_proc_start(&outside, 0), 0);
	reserve_host_place(&host, a.pid, "/pod/a");
	reserve_host_place(&host, b.pid, "/pod/b");
	reserve_host_place(&host, outside.pid, "/podium");
	peer_proc_do(&a, (struct peer_ask){ .op = PEER_START });
	peer_proc_do(&b, (struct peer_ask){ .op = PEER_START });
	peer_proc_do(&outside, (struct peer_ask){ .op = PEER_START });

	got = reserve(&outside, PN_RESERVE_HOST, 2 * GIB);
	assert_int_equal(got.r, 0);
	assert_int_equal(got.fit_bytes, 15 * GIB);
	got = reserve(&a, PN_RESERVE_HOST, 8 * GIB);
	assert_int_equal(got.r, 0);
	assert_int_equal(got.fit_bytes, 12 * GIB); /* the group's, not the host's 13 */
	assert_int_equal(got.cgroup_reserved_bytes, 0);
	got = reserve(&b, PN_RESERVE_HOST, 5 * GIB);
	assert_int_equal(got.r, -ENOSPC);
	assert_int_equal(got.fit_bytes, 4 * GIB);
	assert_int_equal(got.cgroup_reserved_bytes, 8 * GIB);
	assert_int_equal(got.host_reserved_bytes, 10 * GIB);
	assert_int_equal(got.spike.check, PN_CHECK_NONE);
	assert_int_equal(got.spike.have_bytes, 4 * GIB);
	assert_int_equal(reserve(&b, PN_RESERVE_HOST, 4 * GIB).r, 0);
	got = look(&outside);
	assert_int_equal(got.spike.have_bytes, 3 * GIB); /* 15 less the group's 12 */
	peer_proc_kill(&outside);
}

static void test_bounds(void **state)
{
	struct peer_proc c = { 0 };
	struct peer_answer got;
	int r = 0, held = 0;

	if (geteuid())
		skip_because("needs root to be several users");
	start_both();
	while (!(r = reserve(&a, PN_RESERVE_HOST, 1).r))
		held++;
	assert_int_equal(r, -EDQUOT);
	assert_int_equal(held, 64);
	assert_int_equal(reserve(&b, PN_RESERVE_HOST, 1).r, 0); /* another's is not touched */
	peer_proc_kill(&b);

	assert_int_equal(chmod(host.agent.dir, 0711), 0);
	start_peer(&b, NOBODY);
	start_peer(&c, NOBODY);
	for (held = 0; !(r = reserve(held % 3 ? &b : &c, PN_RESERVE_HOST, 1).r); held++)
		if (held == 90)
			peer_proc_kill(&c), start_peer(&c, NOBODY);
	assert_int_equal(r, -EDQUOT);
	/* Another user sees its own; root all. */
	got = peer_proc_do(&b, (struct peer_ask){ .op = PEER_LIST });
	assert_in_range(got.r, 60, 128);
	assert_int_equal(got.line[0].uid, NOBODY);
	assert_int_equal(peer_proc_do(&a, (struct peer_ask){ .op = PEER_LIST }).r, 64 + got.r);
	peer_proc_kill(&c);
}

/* What a command prints, up to so many bytes. */
static const char *output_of(const char *command)
{
	static char text[16384];
	FILE *out = popen(command, "re");
	size_t n;

	assert_non_null(out);
	n = fread(text, 1, sizeof(text) - 1, out);
	text[n] = 0;
	assert_int_equal(pclose(out), 0);
	return text;
}

static void test_commands(void **state)
{
	json_t *list, *line;
	const char *text;
	json_error_t error;

	start_both();
	set_die(&a, 0, 20 * GIB);
	assert_int_equal(reserve(&a, PN_RESERVE_HOST, 10 * GIB).r, 0);
	assert_int_equal(reserve(&b, 0, 3 * GIB).r, 0);
	text = output_of("build/pnmem reservations");
	assert_non_null(strstr(text, "10.0 GiB"));
	assert_non_null(strstr(text, "die 0"));
	text = output_of("build/pnmem status");
	assert_non_null(strstr(text, "reserved host 10.0 GiB, die 0 3.0 GiB"));
	text = output_of("build/pnmem admit spike --json; true");
	assert_non_null(strstr(text, "\"claimed_bytes\": 10737418240"));

	list = json_loads(output_of("build/pnmem reservations --json"), 0, &error);
	assert_non_null(list);
	line = json_array_get(json_object_get(list, "reservations"), 0);
	assert_int_equal(json_integer_value(json_object_get(line, "pid")), a.pid);
	assert_int_equal(json_integer_value(json_object_get(line, "bytes")), 10 * GIB);
	assert_true(json_is_true(json_object_get(line, "host")));
	assert_string_equal(json_string_value(json_object_get(line, "state")), "held");
	assert_in_range(json_integer_value(json_object_get(line, "left_ms")), 1, A_MINUTE_MS);
	line = json_array_get(json_object_get(list, "reservations"), 1);
	assert_int_equal(json_integer_value(json_object_get(line, "die")), 0);
	json_decref(list);
}

/* ---- how a promise ends --------------------------------------------------------------------- */

static void test_kill(void **state)
{
	start_both();
	assert_int_equal(reserve(&a, PN_RESERVE_HOST, 7 * GIB).r, 0);
	assert_int_equal(reserve(&a, PN_RESERVE_HOST, 6 * GIB).r, 0);
	assert_int_equal(look(&b).host_reserved_bytes, 13 * GIB);
	peer_proc_kill(&a);
	assert_true(test_until(nothing_reserved, &b, 10000));
	assert_int_equal(reserve(&b, PN_RESERVE_HOST, 15 * GIB).r, 0);
}

static void test_closed_socket(void **state)
{
	struct peer_answer got;

	start_both();
	got = reserve(&a, PN_RESERVE_HOST, 13 * GIB);
	assert_int_equal(got.r, 0);
	peer_proc_do(&a, (struct peer_ask){ .op = PEER_STOP });
	assert_true(test_until(nothing_reserved, &b, 10000));
	/* The ids of before are no more. */
	assert_int_equal(peer_proc_do(&a, (struct peer_ask){ .op = PEER_START }).r, 0);
	assert_int_equal(end(&a, PEER_COMMIT, got.id).r, -ESTALE);
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
		assert_int_equal(end(&a, PEER_COMMIT, got.id).r, -ESTALE);
	}
	qsort(late_ns, 5, sizeof(late_ns[0]), by_size);
	print_message("# past its time to live: median %.1f ms\n", (double)late_ns[2] / 1e6);
	assert_in_range(late_ns[2], 0, 60 * 1000000ull); /* a look comes every 250 ms */
}

/* ---- commit --------------------------------------------------------------------------------- */

/*
 * The bytes are never free to others twice, nor missing afterwards: whoever reads meanwhile sees at
 * most the 5 GiB that are left.
 */
struct reader {
	pthread_t thread;
	_Atomic bool stop;
	uint64_t most_bytes;
	uint64_t n_reads;
};

static void *read_on(void *arg)
{
	struct reader *reader = arg;

	while (!reader->stop) {
		pn_admit_result room;
		pn_mem_state state;
		pn_mem_ext ext;

		if (pn_memwatch_read_ext(&state, &ext))
			continue;
		pn_admit_load_spike_ext(&state, &ext, &room);
		if (room.have_bytes > reader->most_bytes)
			reader->most_bytes = room.have_bytes;
		reader->n_reads++;
	}
	return NULL;
}

static void test_commit_of_the_host(void **state)
{
	struct reader reader = { 0 };
	struct peer_answer got;

	start_both();
	assert_int_equal(pn_memwatch_start(), 0);
	got = reserve(&a, PN_RESERVE_HOST, 10 * GIB);
	assert_int_equal(pthread_create(&reader.thread, NULL, read_on, &reader), 0);
	for (int i = 0; i < 100; i++) {
		uint64_t id = got.id;

		assert_int_equal(got.r, 0);
		reserve_host_avail(&host, 5 * GIB); /* allocated */
		got = end(&a, PEER_COMMIT, id);
		assert_int_equal(got.r, 0);
		assert_int_equal(got.host_avail_bytes - RESERVE_HOST_RESERVE_BYTES, 5 * GIB);
		assert_int_equal(got.spike.have_bytes, 5 * GIB);
		assert_int_equal(look(&b).host_reserved_bytes, 0);
		assert_int_equal(reserve(&b, PN_RESERVE_HOST, 6 * GIB).r, -ENOSPC);
		/* Another 10 GiB become free and are taken in the same moment. */
		assert_int_equal(end(&a, PEER_COMMIT, id).r, -ESTALE);
		reader.stop = true;
		pthread_join(reader.thread, NULL);
		reserve_host_avail(&host, 15 * GIB);
		got = reserve(&a, PN_RESERVE_HOST, 10 * GIB);
		reader.stop = false;
		assert_int_equal(pthread_create(&reader.thread, NULL, read_on, &reader), 0);
	}
	reader.stop = true;
	pthread_join(reader.thread, NULL);
	assert_true(reader.n_reads > 1000);
	assert_int_equal(reader.most_bytes, 5 * GIB);
}

static void test_commit_of_a_die(void **state)
{
	struct peer_answer got;
	uint64_t id;

	start_both();
	set_die(&a, 0, 20 * GIB);
	got = reserve(&a, 0, 15 * GIB);
	assert_int_equal(got.r, 0);
	assert_int_equal(got.fit_bytes, 20 * GIB);
	id = got.id;
	assert_int_equal(got.load.verdict, PN_VERDICT_ADMIT); /* its own is not in its way */
	assert_int_equal(got.load_die.verdict, PN_VERDICT_ADMIT);
	got = look(&b);
	assert_int_equal(got.die_reserved_bytes[0], 15 * GIB);
	assert_int_equal(got.load.verdict, PN_VERDICT_REJECT);
	assert_int_equal(got.load_die.verdict, PN_VERDICT_REJECT);
	assert_int_equal(got.load_die.have_bytes, 5 * GIB);
	assert_int_equal(got.host_reserved_bytes, 0);

	/* Allocated, but no figure of the die is newer: it stays, for its owner now too. */
	got = end(&a, PEER_COMMIT, id);
	assert_int_equal(got.r, 0);
	assert_int_equal(got.die_reserved_bytes[0], 15 * GIB);
	got = reserve(&b, 0, 6 * GIB);
	assert_int_equal(got.r, -ENOSPC);
	assert_int_equal(got.fit_bytes, 5 * GIB);
	got = peer_proc_do(&b, (struct peer_ask){ .op = PEER_LIST });
	assert_int_equal(got.r, 1);
	assert_int_equal(got.line[0].state, PN_RESERVATION_COMMITTED);
	set_die(&a, 0, 5 * GIB);
	got = look(&b);
	assert_int_equal(got.die_reserved_bytes[0], 0);
	assert_int_equal(got.load_die.have_bytes, 5 * GIB);

	/* Pushed after it was allocated and before it is committed: gone at once. */
	got = reserve(&b, 0, 4 * GIB);
	assert_int_equal(got.r, 0);
	set_die(&b, 0, 1 * GIB);
	got = end(&b, PEER_COMMIT, got.id);
	assert_int_equal(got.r, 0);
	assert_int_equal(got.die_reserved_bytes[0], 0);
	assert_int_equal(reserve(&a, 0, 2 * GIB).fit_bytes, 1 * GIB);
}

/* ---- the agent goes and comes --------------------------------------------------------------- */

static bool on_agent(void *peer)
{
	return look(peer).source == PN_SOURCE_AGENT;
}

static bool on_poll(void *peer)
{
	return look(peer).source == PN_SOURCE_POLL;
}

/* What was held goes on alone, is told to the next agent, and counts there before anything new. */
static void test_restart(void **state)
{
	struct peer_answer got, other;

	start_both();
	got = reserve(&a, PN_RESERVE_HOST, 10 * GIB);
	assert_int_equal(got.r, 0);
	agent_proc_kill(&host.agent);
	assert_true(test_until(on_poll, &a, 10000));
	assert_true(test_until(on_poll, &b, 10000));
	/* Alone: its own threads are held to it, other processes know of nothing. */
	assert_int_equal(reserve(&a, PN_RESERVE_HOST, 10 * GIB).r, -ENOSPC);
	assert_int_equal(reserve(&b, PN_RESERVE_HOST, 1 * GIB).r, 1);
	/* Half of it has been allocated by now. */
	reserve_host_avail(&host, 9 * GIB);

	reserve_host_start(&host);
	other = reserve(&b, PN_RESERVE_HOST, 9 * GIB);
	if (other.source == PN_SOURCE_AGENT)
		assert_int_equal(other.r, -ENOSPC);
	assert_true(test_until(on_agent, &a, 10000));
	assert_true(test_until(on_agent, &b, 10000));
	other = look(&b);
	assert_int_equal(other.host_reserved_bytes, 10 * GIB);
	assert_int_equal(look(&a).host_reserved_bytes, 1 * GIB + (other.r == 1 ? 9 * GIB : 0));
	assert_int_equal(reserve(&b, PN_RESERVE_HOST, 5 * GIB).r, -ENOSPC);
	reserve_host_avail(&host, 5 * GIB);
	assert_int_equal(end(&a, PEER_COMMIT, got.id).r, 0);
	assert_int_equal(look(&b).host_reserved_bytes, 0);
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
	got = reserve(&a, PN_RESERVE_HOST, GIB);
	assert_int_equal(got.r, 0);
	assert_true(clock_now_ns() - before_ns > 1000000000);
}

/* ---- processes that are not what they seem -------------------------------------------------- */

static int raw_connect(void)
{
	struct proto_header hello = proto_header_make(PROTO_HELLO, sizeof(hello), 1);
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct proto_welcome welcome;
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(addr.sun_path, host.agent.socket_path);
	if (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) ||
	    send(sock, &hello, sizeof(hello), 0) != sizeof(hello) ||
	    recv(sock, &welcome, sizeof(welcome), 0) != sizeof(welcome))
		return -1;
	return sock;
}

static int raw_reserve(int sock, uint64_t id, uint64_t bytes)
{
	struct proto_reserve ask = {
		.header = proto_header_make(PROTO_RESERVE, sizeof(ask), 2),
		.id = id,
		.bytes = bytes,
		.ttl_ms = A_MINUTE_MS,
		.die = -1,
	};
	struct proto_reserve_reply reply = { .result = -EIO };

	if (send(sock, &ask, sizeof(ask), 0) != sizeof(ask) ||
	    recv(sock, &reply, sizeof(reply), 0) < (ssize_t)sizeof(reply.header))
		return -EIO;
	return reply.header.status ? reply.header.status : reply.result;
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
		sock = raw_connect();
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
	assert_int_equal(look(&b).host_reserved_bytes, 13 * GIB);
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
	assert_int_equal(reserve(&a, PN_RESERVE_HOST, 13 * GIB).r, 0);
	got = peer_proc_do(&b, (struct peer_ask){ .op = PEER_LIST });
	assert_int_equal(got.r, 1);
	assert_int_equal(got.line[0].pid, 0);
	assert_int_equal(got.line[0].bytes, 13 * GIB);
	assert_int_equal(got.line[0].is_host, 1);
	assert_int_equal(reserve(&b, PN_RESERVE_HOST, 10 * GIB).r, -ENOSPC);
	peer_proc_kill(&a);
	assert_true(test_until(nothing_reserved, &b, 10000));
	got = peer_proc_do(&b, (struct peer_ask){ .op = PEER_RESERVE,
						  .die = PN_RESERVE_HOST,
						  .bytes = 13 * GIB,
						  .ttl_ms = 50 });
	assert_int_equal(got.r, 0);
	assert_int_equal(look(&b).source, PN_SOURCE_AGENT);
	start_peer(&a, 0); /* whom b's would be in the way of */
	assert_true(test_until(nothing_reserved, &a, 10000));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one_of_two, setup, teardown),
		cmocka_unit_test_setup_teardown(test_admission_counts_others, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
		cmocka_unit_test_setup_teardown(test_group_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_commands, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kill, setup, teardown),
		cmocka_unit_test_setup_teardown(test_closed_socket, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ttl, setup, teardown),
		cmocka_unit_test_setup_teardown(test_commit_of_the_host, setup, teardown),
		cmocka_unit_test_setup_teardown(test_commit_of_a_die, setup, teardown),
		cmocka_unit_test_setup_teardown(test_restart, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gathering, setup, teardown),
		cmocka_unit_test_setup_teardown(test_socket_outlives_its_process, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_pid_namespace, setup, teardown),
	};

	return cmocka_run_group_tests_name("reserve", tests, group_setup, group_teardown);
}
