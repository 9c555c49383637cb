/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whatever one client does, the others are served as before and the agent holds no more when it is
 * over: each attack beside the same number of processes that only keep the CPUs busy, while the
 * level goes up and down, and engines of many cgroups are attached. And the limits of one user do
 * not touch another.
 */
#include <errno.h>
#include <fcntl.h>
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
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "agent/log.h"
#include "agent/serve/peers.h"
#include "core/proto.h"
#include "host/clock.h"
#include "support/agent_proc.h"
#include "support/attack.h"
#include "support/made_host.h"
#include "support/raw_client.h"

#define ROUNDS    100
#define ATTACKERS 2
#define VIEWS     100
#define LIMIT_MS  10000
/*
 * Of a median beside the busy CPUs' own: what a loaded machine makes of it, not what an attack may.
 */
#define SLACK_US 15000
/*
 * Looks that the agent makes from a request until its answer: that of the answer, twice where
 * something was promised, and the one that it was in. Timers and ends of processes make some more.
 */
#define LOOKS_MEDIAN 4
#define LOOKS_P99    12
/* While 2048 clients are held, and for good. */
#define RSS_HELD_KIB  8192
#define RSS_AFTER_KIB 3072

static struct agent_proc agent;
static struct made_host host;

static int setup(void **state)
{
	static const char *args[] = { "--no-bpf", "--stall-hook", "poll",         "--procfs",
				      host.dir,   "--cgroupfs",   "/nonexistent", NULL };

	setenv("PN_LEVEL_HOLD_MS", "0", 1);
	if (made_host_init(&host) || made_host_add_process(&host, getpid(), "/a") ||
	    agent_proc_init(&agent) || chmod(agent.dir, 0755))
		return -1;
	return agent_proc_start(&agent, args);
}

static int teardown(void **state)
{
	agent_proc_destroy(&agent);
	made_host_destroy(&host);
	return 0;
}

static int count_fds(void)
{
	return agent_proc_descriptors(&agent, NULL);
}

static int fds_before;

static bool fds_are_back(void *arg)
{
	return count_fds() <= fds_before;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

struct times {
	uint64_t median_us, p99_us, connect_us; /* the last: median of connect and hello */
};

static struct times times_of(uint64_t *asks_ns, uint64_t *connects_ns)
{
	qsort(asks_ns, ROUNDS, sizeof(*asks_ns), by_size);
	qsort(connects_ns, ROUNDS / 10, sizeof(*connects_ns), by_size);
	return (struct times){ asks_ns[ROUNDS / 2] / 1000, asks_ns[ROUNDS * 99 / 100] / 1000,
			       connects_ns[ROUNDS / 20] / 1000 };
}

/* A well-behaved client: a look every millisecond, and now and then a new one of its kind. */
static struct times measure(int sock)
{
	static const struct timespec pause = { .tv_nsec = 1000000 };
	uint64_t asks_ns[ROUNDS], connects_ns[ROUNDS / 10];

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t begin_ns = clock_now_ns();
		struct proto_header ack;

		assert_int_equal(raw_ask(sock, PROTO_POLL_NOW, &ack, sizeof(ack)), sizeof(ack));
		assert_int_equal(ack.status, 0);
		asks_ns[i] = clock_now_ns() - begin_ns;
		made_host_set_level(&host, i % 2 ? PN_MEM_LEVEL_OK : PN_MEM_LEVEL_TIGHT);
		nanosleep(&pause, NULL);
		if (i % 10)
			continue;
		begin_ns = clock_now_ns();
		close(sock);
		sock = raw_connect(agent.socket_path);
		assert_true(sock >= 0);
		assert_int_equal(raw_hello(sock), 0);
		connects_ns[i / 10] = clock_now_ns() - begin_ns;
	}
	close(sock);
	return times_of(asks_ns, connects_ns);
}

static struct times attacked(const struct attack *attack)
{
	struct attackers attackers = { .n = 0 };
	long rss_before = agent_proc_rss_kib(&agent), rss_held;
	struct times times;
	int sock = raw_connect(agent.socket_path);

	assert_true(sock >= 0);
	assert_int_equal(raw_hello(sock), 0);
	assert_int_equal(attack_start(&attackers, attack, agent.socket_path, &host, ATTACKERS), 0);
	times = measure(sock);
	rss_held = agent_proc_rss_kib(&agent);
	attack_end(&attackers);
	if (!test_until(fds_are_back, NULL, LIMIT_MS))
		fail_msg("%s: %d descriptors, %d before", attack->name, count_fds(), fds_before);
	print_message("# %-26s look %5lu us, p99 %6lu us, connect %5lu us, agent %+ld KiB held, "
		      "%+ld KiB after\n",
		      attack->name, (unsigned long)times.median_us, (unsigned long)times.p99_us,
		      (unsigned long)times.connect_us, rss_held - rss_before,
		      agent_proc_rss_kib(&agent) - rss_before);
	assert_true(rss_held - rss_before < RSS_HELD_KIB);
	assert_true(agent_proc_rss_kib(&agent) - rss_before < RSS_AFTER_KIB);
	return times;
}

/* An engine of a cgroup of its own: its process connects on this socket, says hello, and waits. */
static pid_t start_engine(int n)
{
	int fds[2];
	char cgroup[32], byte;
	pid_t pid;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		int sock;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(cgroup, sizeof(cgroup), "/engine%d", n);
		if (made_host_add_process(&host, getpid(), cgroup))
			_exit(1);
		sock = raw_connect(agent.socket_path);
		if (sock < 0 || raw_hello(sock) || write(fds[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	return pid;
}

/* Each view has been read in its turn, and has open what it will have open. */
static void settle(void)
{
	int fds, n_same = 0;

	for (int i = 0; i < 200 && n_same < 10; i++) {
		fds = count_fds();
		usleep(100000); /* the agent's own looks go on */
		n_same = count_fds() == fds ? n_same + 1 : 0;
	}
}

static void end_engines(const pid_t *engines)
{
	for (int i = 0; i < VIEWS; i++) {
		kill(engines[i], SIGKILL);
		waitpid(engines[i], NULL, 0);
	}
}

static void test_attacks(void **state)
{
	static pid_t engines[VIEWS];
	struct times alone = { 0 };
	long rss_before;

	if (geteuid())
		skip_because("needs root to attack as another user");
	for (int i = 0; i < VIEWS; i++)
		engines[i] = start_engine(i);
	settle();
	fds_before = count_fds();
	rss_before = agent_proc_rss_kib(&agent);
	for (const struct attack *attack = attacks; attack->name; attack++) {
		struct times times = attacked(attack);

		if (attack == attacks)
			alone = times;
		assert_in_range(times.median_us, 0, 3 * alone.median_us + SLACK_US);
		assert_in_range(times.connect_us, 0, 3 * alone.connect_us + 3 * SLACK_US);
	}
	/* All of them together leave no more than one may. */
	assert_true(agent_proc_rss_kib(&agent) - rss_before < 2 * RSS_AFTER_KIB);
	end_engines(engines);
}

/*
 * The same by what the agent does, which no other load of the machine changes: how often it looks
 * before it answers one who asks for a look.
 */
static uint64_t looks_of_one(int sock)
{
	static const uint16_t types[] = { PROTO_STATS, PROTO_POLL_NOW, PROTO_STATS };
	struct proto_stats_reply reply;
	struct proto_header asks[3];
	struct mmsghdr packets[3] = { 0 };
	struct iovec iov[3];
	uint64_t before = 0;

	/* In one call: this process may have to wait for a CPU between two. */
	for (size_t i = 0; i < 3; i++) {
		asks[i] = proto_header_make(types[i], sizeof(asks[i]), 1);
		iov[i] = (struct iovec){ &asks[i], sizeof(asks[i]) };
		packets[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
	}
	assert_int_equal(sendmmsg(sock, packets, 3, MSG_NOSIGNAL), 3);
	for (size_t i = 0; i < 3; i++) {
		assert_true(raw_receive(sock, &reply, sizeof(reply), NULL, LIMIT_MS) > 0);
		if (!i)
			before = reply.stats.looks;
	}
	return reply.stats.looks - before;
}

static void test_looks_for_one(void **state)
{
	static pid_t engines[VIEWS];
	uint64_t looks[ROUNDS];

	if (geteuid())
		skip_because("needs root to attack as another user");
	for (int i = 0; i < VIEWS; i++)
		engines[i] = start_engine(i);
	for (const struct attack *attack = attacks; attack->name; attack++) {
		struct attackers attackers = { .n = 0 };
		int sock;

		if (attack->settles)
			continue;
		sock = raw_connect(agent.socket_path);
		assert_int_equal(raw_hello(sock), 0);
		assert_int_equal(attack_start(&attackers, attack, agent.socket_path, &host, 1), 0);
		for (int i = 0; i < ROUNDS; i++) {
			looks[i] = looks_of_one(sock);
			usleep(3000); /* or it would be over its own 100 requests in 50 ms */
		}
		attack_end(&attackers);
		close(sock);
		qsort(looks, ROUNDS, sizeof(*looks), by_size);
		print_message("# %-26s %lu looks for one, p99 %lu\n", attack->name,
			      (unsigned long)looks[ROUNDS / 2],
			      (unsigned long)looks[ROUNDS * 99 / 100]);
		assert_in_range(looks[ROUNDS / 2], 1, LOOKS_MEDIAN);
		assert_in_range(looks[ROUNDS * 99 / 100], 1, LOOKS_P99);
	}
	end_engines(engines);
}

/* A client that is there while another asks without pause: has it been hung up on? */
struct moved {
	int sock, other;
};

static bool is_hung_up(void *arg)
{
	const struct moved *moved = arg;
	struct pollfd end = { .fd = moved->sock };

	assert_int_equal(raw_status(moved->other, PROTO_POLL_NOW), 0);
	return poll(&end, 1, 20) && end.revents & POLLHUP;
}

/* Who asks all the time does not keep the agent from following those that move. */
static void test_moved_meanwhile(void **state)
{
	const pid_t pid = start_engine(0);
	struct moved moved = { raw_connect(agent.socket_path), raw_connect(agent.socket_path) };

	assert_int_equal(raw_hello(moved.sock), 0);
	assert_int_equal(made_host_add_process(&host, getpid(), "/b"), 0);
	assert_int_equal(raw_hello(moved.other), 0);
	assert_true(test_until(is_hung_up, &moved, LIMIT_MS));
	/* Not who was in /b from the start. */
	assert_int_equal(raw_status(moved.other, PROTO_POLL_NOW), 0);
	close(moved.sock);
	close(moved.other);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* In a process of this user, since that is the connect's: how many of n hellos are answered. */
static int count_served(uid_t uid, int n)
{
	const struct rlimit many = { (rlim_t)n + 100, (rlim_t)n + 100 };
	int fds[2], served = 0;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		if (setrlimit(RLIMIT_NOFILE, &many) || setgid(uid) || setuid(uid))
			_exit(1);
		for (int i = 0; i < n; i++) {
			int sock = raw_connect(agent.socket_path);

			served += sock >= 0 && !raw_hello(sock);
		}
		_exit(write(fds[1], &served, sizeof(served)) != sizeof(served));
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &served, sizeof(served)), sizeof(served));
	close(fds[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return served;
}

static void test_one_users_limit(void **state)
{
	if (geteuid())
		skip_because("needs root to become another user");
	fds_before = count_fds();
	assert_int_equal(count_served(65534, 100), 100);
	/* All that it may, all that it may connect at once, and no more. */
	assert_in_range(count_served(65533, UID_CLIENTS_MAX + 50), UID_CLIENTS_MAX - 1,
			UID_CLIENTS_MAX);
	assert_int_equal(count_served(65532, 100), 100);
	assert_in_range(agent_proc_log_count(&agent, "an engine was turned away"), 1,
			LOG_LIMIT_LINES);
	assert_true(test_until(fds_are_back, NULL, LIMIT_MS));
}

/* ---- what one may take up -------------------------------------------------------------------- */

/* What is sent to one who does not read, before it is hung up on. */
static void test_unread(void **state)
{
	struct proto_header ask = proto_header_make(PROTO_HOOKS, sizeof(ask), 1);
	int sock = raw_connect(agent.socket_path), r = 0;
	size_t unread_bytes = 0;
	char reply[8192];
	ssize_t n;

	while (!r || r == -EAGAIN)
		r = raw_send(sock, &ask, sizeof(ask), NULL, 0);
	assert_true(r == -EPIPE || r == -ECONNRESET);
	/* The reset is told once, and then comes what was there before it. */
	while ((n = recv(sock, reply, sizeof(reply), MSG_DONTWAIT)) > 0 ||
	       (n < 0 && errno == ECONNRESET))
		unread_bytes += n > 0 ? (size_t)n : 0;
	assert_in_range(unread_bytes, 2 * sizeof(struct proto_hooks_reply), 40000);
	close(sock);
}

/* The text that a command prints. */
static void run_command(const char *command, char *ret, size_t bytes)
{
	FILE *out = popen(command, "re");
	size_t n;

	assert_non_null(out);
	n = fread(ret, 1, bytes - 1, out);
	ret[n] = 0;
	assert_int_equal(pclose(out), 0);
}

/* The number after this name in a report; the first of that name behind `from`. */
static unsigned long number_in(const char *report, const char *from, const char *name)
{
	const char *at = strstr(report, from);

	at = at ? strstr(at, name) : NULL;
	assert_non_null(at);
	return strtoul(at + strlen(name), NULL, 10);
}

/* Verdicts of one user push no more than their share of what else there is out of the recorder. */
static void test_verdicts_of_one(void **state)
{
	enum { PACKETS = 1500, SENT = PACKETS * PROTO_VERDICTS_MAX };
	struct proto_verdicts packet = {
		.header = proto_header_make(PROTO_VERDICT, sizeof(packet), 1),
		.count = PROTO_VERDICTS_MAX,
	};
	char path[256], command[512];
	static char report[1 << 20];
	int sock = raw_connect(agent.socket_path), n = 0, r;
	uint64_t begin_ns = clock_now_ns();
	unsigned long kept, dropped;

	for (int i = 0; i < PROTO_VERDICTS_MAX; i++)
		packet.at[i].verdict.ask = TRACE_ASK_REQUEST;
	assert_int_equal(raw_hello(sock), 0);
	while (n < PACKETS)
		n += !raw_send(sock, &packet, sizeof(packet), NULL, 0);
	while ((r = raw_status(sock, PROTO_POLL_NOW)) == -EAGAIN)
		;
	assert_int_equal(r, 0); /* the agent has read them */
	run_command("build/pnmem trace dump", path, sizeof(path));
	path[strcspn(path, "\n")] = 0;
	snprintf(command, sizeof(command), "build/pnmem trace report --json %s", path);
	run_command(command, report, sizeof(report));
	unlink(path);
	close(sock);
	kept = number_in(report, "\"admitted\"", ":");
	dropped = number_in(report, "\"lost\"", "\"verdicts\":");
	print_message("# %d verdicts: %lu kept, %lu dropped\n", SENT, kept, dropped);
	assert_int_equal(kept + dropped, SENT);
	assert_in_range(kept, 4096, 4096 + (clock_now_ns() - begin_ns) / 1000000 + 1);
}

/* ---- peers.c by itself ----------------------------------------------------------------------- */

static const struct peers_limits limits = {
	.places_max = CLIENTS_MAX,
	.connects = { .burst = UID_CLIENTS_MAX, .per_s = 1000 },
};

static int join(struct peers *peers, uid_t uid, const char *group, uint64_t now_ns)
{
	struct peer_place place;
	struct peer *peer;
	int r = peers_connect(peers, uid, now_ns, &peer);

	return r ? r : peers_join(peers, peer, group, &place);
}

/* A client that connects and goes. */
static void come_and_go(struct peers *peers, uid_t uid, const char *group, uint64_t now_ns)
{
	struct peer_place place;
	struct peer *peer;

	assert_int_equal(peers_connect(peers, uid, now_ns, &peer), 0);
	assert_int_equal(peers_join(peers, peer, group, &place), 0);
	peers_leave(peers, &place);
}

/* How many places these clients get, at a time at which they have connected rarely. */
static int join_all(struct peers *peers, uid_t uid, const char *group, uint64_t now_ns)
{
	int n = 0;

	while (!join(peers, uid, group, now_ns))
		n++;
	return n;
}

/* A client that an earlier agent let in is over no share; it only needs a place. */
static void test_peers_rejoin(void **state)
{
	static const struct peers_limits few = { .places_max = 8,
						 .connects = { .burst = 1, .per_s = 1 } };
	struct peers peers = { .limits = &few };
	struct peer_place places[8], more;

	for (int i = 0; i < 8; i++)
		assert_int_equal(peers_rejoin(&peers, 1, "a", 1, &places[i]), 0);
	assert_int_equal(peers_rejoin(&peers, 1, "a", 1, &more), -EMFILE);
	for (int i = 0; i < 8; i++)
		peers_leave(&peers, &places[i]);
	assert_int_equal(join(&peers, 1, "a", 1), 0); /* its connects have not been counted */
	peers_close(&peers);
}

static void test_peers(void **state)
{
	const uint64_t s_ns = 1000000000;
	struct peers peers = { .limits = &limits };
	uint64_t now_ns = s_ns;
	int n = 0;

	assert_int_equal(join_all(&peers, 1, "a", now_ns), UID_CLIENTS_MAX);
	assert_int_equal(join(&peers, 1, "a", now_ns), -EAGAIN); /* too often, too */
	now_ns += 10 * s_ns;
	assert_int_equal(join(&peers, 1, "a", now_ns), -EMFILE);
	assert_int_equal(peers.list->refused, 3);
	/* Another user gets half of the rest, also one in the same cgroup. */
	assert_int_equal(join_all(&peers, 2, "a", now_ns), UID_CLIENTS_MAX / 2);
	/* The cgroup has its three quarters, whoever comes. */
	assert_int_equal(join(&peers, 3, "a", now_ns), -EMFILE);
	assert_int_equal(join_all(&peers, 3, "b", now_ns), UID_CLIENTS_MAX / 4);
	assert_int_equal(join_all(&peers, 4, "c", now_ns), UID_CLIENTS_MAX / 8);
	come_and_go(&peers, 5, "d", now_ns);
	assert_int_equal(peers.n_clients, UID_CLIENTS_MAX * 15 / 8);
	/* A client that connects and goes is counted as long as it counts, and then forgotten. */
	for (uid_t uid = 100; uid < 1100; uid++) {
		now_ns += s_ns / 100;
		come_and_go(&peers, uid, "", now_ns);
	}
	for (const struct peer *peer = peers.list; peer; peer = peer->next)
		n++;
	assert_in_range(n, 4, 6);
	n = 0;
	for (const struct peer_group *group = peers.groups; group; group = group->next)
		n++;
	assert_int_equal(n, 3);
	peers_close(&peers);
	assert_null(peers.list);
}

/* Root of each container is a user of its own, and all of them leave places for other users. */
static void test_peers_root(void **state)
{
	const uint64_t s_ns = 1000000000;
	struct peers peers = { .limits = &limits };
	struct peer_place kept[CLIENTS_KEPT];
	struct peer *root;

	assert_int_equal(join_all(&peers, 0, "a", 10 * s_ns), UID_CLIENTS_MAX);
	assert_int_equal(join_all(&peers, 0, "b", 20 * s_ns), UID_CLIENTS_MAX / 2);
	assert_int_equal(join(&peers, 0, "c", 30 * s_ns), -EMFILE);
	assert_int_equal(join_all(&peers, 1, "c", 30 * s_ns), UID_CLIENTS_MAX / 4);
	/* The administrator has places beside these, which change nothing for others. */
	assert_int_equal(peers_connect(&peers, 0, 40 * s_ns, &root), 0);
	for (int i = 0; i < CLIENTS_KEPT; i++)
		peers_join_kept(&peers, root, &kept[i]);
	assert_int_equal(join_all(&peers, 2, "c", 30 * s_ns), UID_CLIENTS_MAX / 8);
	for (int i = 0; i < CLIENTS_KEPT; i++)
		peers_leave(&peers, &kept[i]);
	assert_int_equal(peers.n_kept, 0);
	assert_int_equal(peers.n_clients, UID_CLIENTS_MAX * 15 / 8);
	peers_close(&peers);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_peers),
		cmocka_unit_test(test_peers_rejoin),
		cmocka_unit_test(test_peers_root),
		cmocka_unit_test_setup_teardown(test_one_users_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unread, setup, teardown),
		cmocka_unit_test_setup_teardown(test_verdicts_of_one, setup, teardown),
		cmocka_unit_test_setup_teardown(test_moved_meanwhile, setup, teardown),
		cmocka_unit_test_setup_teardown(test_attacks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_looks_for_one, setup, teardown),
	};

	return cmocka_run_group_tests_name("isolation", tests, NULL, NULL);
}
