/* SPDX-License-Identifier: BSD-2-Clause */
/* See attack.h. */
#include "support/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/proto.h"
#include "support/raw_client.h"

#define NOBODY    65534
#define HOARD_MAX 2100 /* more than one user may have */

static int settled_fd = -1; /* of this attacker; -1: has been told */

static void settle(void)
{
	if (settled_fd >= 0 && write(settled_fd, "", 1) == 1)
		close(settled_fd);
	settled_fd = -1;
}

/* In the storm of it a connect may be refused: again. */
static int connect_again(const char *path)
{
	int sock;

	while ((sock = raw_connect(path)) < 0)
		usleep(1000);
	return sock;
}

static struct proto_header header_of(uint16_t type)
{
	static uint32_t id;

	return proto_header_make(type, sizeof(struct proto_header), ++id);
}

static int subscribe(int sock)
{
	struct proto_subscribe ask = {
		.header = proto_header_make(PROTO_SUBSCRIBE, sizeof(ask), 1),
		.what = PROTO_TELL_CHANGE,
	};

	return raw_send(sock, &ask, sizeof(ask), NULL, 0);
}

/* ---- what they do ---------------------------------------------------------------------------- */

static void be_busy(const char *path)
{
	for (;;)
		getppid();
}

static void never_read(const char *path)
{
	for (;;) {
		int sock = connect_again(path), r = 0;
		struct proto_header ask = header_of(PROTO_HELLO);

		raw_send(sock, &ask, sizeof(ask), NULL, 0);
		while (!r || r == -EAGAIN) {
			ask = header_of(PROTO_POLL_NOW);
			r = raw_send(sock, &ask, sizeof(ask), NULL, 0);
		}
		close(sock);
	}
}

static void flood(const char *path)
{
	static const uint16_t types[] = { PROTO_POLL_NOW, PROTO_HOOKS, PROTO_STATS,
					  PROTO_DIES,     PROTO_HELLO, 99 };
	char reply[8192];
	int sock = connect_again(path);

	for (unsigned i = 0;; i++) {
		struct proto_header ask = header_of(types[i % 6]);
		int r = raw_send(sock, &ask, sizeof(ask), NULL, 0);

		while (recv(sock, reply, sizeof(reply), MSG_DONTWAIT) > 0)
			;
		if (!r || r == -EAGAIN)
			continue;
		close(sock);
		sock = connect_again(path);
	}
}

/* As many as there are, one after the other: what changes pages, and what only takes room. */
static void flood_with_changes(const char *path)
{
	char reply[8192];
	int sock = connect_again(path);

	for (uint64_t i = 0;; i++) {
		union proto_request ask = { .header = header_of(PROTO_HELLO) };
		int r;

		switch (i % 7) {
		case 1:
			ask.reserve = (struct proto_reserve){
				.header = proto_header_make(PROTO_RESERVE, sizeof(ask.reserve), 1),
				.id = i,
				.bytes = 1 << 20,
				.ttl_ms = 1000,
				.die = -1,
			};
			break;
		case 2:
			ask.set_die = (struct proto_set_die){
				.header = proto_header_make(PROTO_SET_DIE, sizeof(ask.set_die), 1),
				.die_id = (int32_t)(i % 16),
				.free_bytes = 1ull << 40,
				.budget_bytes = 1ull << 40,
			};
			break;
		case 3:
		case 4:
			ask.verdicts.header =
				proto_header_make(PROTO_VERDICT, sizeof(ask.verdicts), 1);
			ask.verdicts.count = PROTO_VERDICTS_MAX;
			break;
		case 5:
			ask.subscribe = (struct proto_subscribe){
				.header = proto_header_make(PROTO_SUBSCRIBE, sizeof(ask.subscribe),
							    1),
				.what = PROTO_TELL_CHANGE,
			};
			break;
		case 6: /* half of them */
			ask.reservation = (struct proto_reservation){
				.header = proto_header_make(i % 2 ? PROTO_COMMIT : PROTO_RELEASE,
							    sizeof(ask.reservation), 1),
				.id = i - 5,
			};
			break;
		default:
			break;
		}
		do {
			r = raw_send(sock, &ask, ask.header.size_bytes, NULL, 0);
			while (recv(sock, reply, sizeof(reply), MSG_DONTWAIT) > 0)
				;
		} while (r == -EAGAIN);
		if (!r)
			continue;
		close(sock);
		sock = connect_again(path);
	}
}

/* Nothing but promises: each is to be in every page before it is answered. */
static void flood_with_promises(const char *path)
{
	char reply[8192];
	int sock = connect_again(path);

	raw_hello(sock);
	for (uint64_t id = 1;; id++) {
		struct proto_reserve ask = {
			.header = proto_header_make(PROTO_RESERVE, sizeof(ask), 1),
			.id = id,
			.bytes = 4096,
			.ttl_ms = 60000,
			.die = -1,
		};
		struct proto_reservation end = {
			.header = proto_header_make(PROTO_RELEASE, sizeof(end), 1),
			.id = id,
		};

		while (raw_send(sock, &ask, sizeof(ask), NULL, 0) ||
		       raw_send(sock, &end, sizeof(end), NULL, 0))
			while (recv(sock, reply, sizeof(reply), MSG_DONTWAIT) > 0)
				;
		while (recv(sock, reply, sizeof(reply), MSG_DONTWAIT) > 0)
			;
	}
}

static void send_garbage(const char *path)
{
	char packet[5000];
	int sock = connect_again(path);

	for (;;) {
		size_t bytes = (size_t)rand() % sizeof(packet);
		int r;

		for (size_t i = 0; i < bytes; i += 97)
			packet[i] = (char)rand();
		r = raw_send(sock, packet, bytes, NULL, 0);
		if (!r || r == -EAGAIN)
			continue;
		close(sock);
		sock = connect_again(path);
	}
}

/* Every length that is too short, whole headers that promise more among them. */
static void send_halves(const char *path)
{
	for (size_t bytes = 1;; bytes = bytes % 55 + 1) {
		struct proto_set_die push = {
			.header = proto_header_make(PROTO_SET_DIE, bytes, 1),
		};
		int sock = connect_again(path);
		struct pollfd end = { .fd = sock, .events = POLLIN };

		raw_send(sock, &push, bytes, NULL, 0);
		poll(&end, 1, 100);
		close(sock);
	}
}

static void leak_descriptors(const char *path)
{
	int fds[253], sock = connect_again(path);
	char reply[8192];

	for (int i = 0; i < 253; i++)
		fds[i] = STDIN_FILENO;
	for (;;) {
		struct proto_header ask = header_of(PROTO_STATS);
		int r = raw_send(sock, &ask, sizeof(ask), fds, 253);

		while (recv(sock, reply, sizeof(reply), MSG_DONTWAIT) > 0)
			;
		if (!r || r == -EAGAIN || r == -ETOOMANYREFS)
			continue;
		close(sock);
		sock = connect_again(path);
	}
}

static void die_at_step(const char *path, int step)
{
	int sock = connect_again(path);
	struct proto_header ask = header_of(PROTO_HELLO);
	struct proto_set_die push = {
		.header = proto_header_make(PROTO_SET_DIE, sizeof(push), 2),
		.die_id = step,
		.free_bytes = 1ull << 40,
		.budget_bytes = 1ull << 40,
	};

	if (step > 0)
		raw_send(sock, &ask, step == 1 ? 7 : sizeof(ask), NULL, 0);
	if (step > 2)
		raw_receive(sock, &ask, sizeof(ask), NULL, 1000);
	if (step > 3)
		raw_send(sock, &push, sizeof(push), NULL, 0);
	if (step > 4)
		subscribe(sock);
	for (int i = 0; step > 5 && i < 20; i++) {
		ask = header_of(PROTO_POLL_NOW);
		raw_send(sock, &ask, sizeof(ask), NULL, 0);
	}
	if (step > 6)
		shutdown(sock, SHUT_RD);
	raise(SIGKILL);
}

static void die_everywhere(const char *path)
{
	for (int step = 0;; step = (step + 1) % 8) {
		pid_t pid = fork();

		if (!pid)
			die_at_step(path, step);
		waitpid(pid, NULL, 0);
	}
}

/* The one that connected is gone, and who knows nothing of it holds the socket. */
static void fork_away(const char *path)
{
	for (int i = 0; i < 10; i++) {
		int sock = connect_again(path);

		raw_hello(sock);
		subscribe(sock);
		for (int k = 0; k < 3; k++)
			if (!fork())
				pause();
		close(sock);
	}
	settle();
	pause();
}

static void be_stopped(const char *path)
{
	for (int i = 0; i < 50; i++) {
		int sock = connect_again(path);

		raw_hello(sock);
		subscribe(sock);
		for (int k = 0; k < 20; k++) {
			struct proto_header ask = header_of(PROTO_POLL_NOW);

			raw_send(sock, &ask, sizeof(ask), NULL, 0);
		}
	}
	settle();
	raise(SIGSTOP);
	pause();
}

static void hoard(const char *path)
{
	const struct rlimit many = { HOARD_MAX + 50, HOARD_MAX + 50 };
	int held = 0;

	setrlimit(RLIMIT_NOFILE, &many);
	for (int i = 0; i < HOARD_MAX; i++) {
		int sock = connect_again(path);

		if (subscribe(sock))
			close(sock);
		else
			held++;
	}
	settle();
	for (;;)
		pause();
}

static void storm(const char *path)
{
	for (;;) {
		int sock = raw_connect(path);

		if (sock >= 0)
			close(sock);
	}
}

const struct attack attacks[] = {
	{ "nothing but busy CPUs", be_busy, false, false },
	{ "never reads", never_read, false, false },
	{ "floods", flood, false, false },
	{ "floods with changes", flood_with_changes, false, false },
	{ "floods with promises", flood_with_promises, true, false },
	{ "sends garbage", send_garbage, true, false },
	{ "sends half messages", send_halves, true, false },
	{ "leaks descriptors", leak_descriptors, true, false },
	{ "dies in every state", die_everywhere, false, false },
	{ "forks and goes", fork_away, false, true },
	{ "is stopped", be_stopped, false, true },
	{ "takes all it can get", hoard, true, true },
	{ "connects again and again", storm, true, false },
	{ 0 },
};

/* ---- running them ---------------------------------------------------------------------------- */

static void run_attacker(const struct attack *attack, const char *socket_path,
			 const struct made_host *host, uid_t uid, int fd)
{
	int null = open("/dev/null", O_RDONLY);

	setpgid(0, 0);
	signal(SIGPIPE, SIG_IGN);
	srand((unsigned)getpid());
	dup2(null, STDIN_FILENO);
	if (made_host_add_process(host, getpid(), "/attackers"))
		_exit(1);
	if (uid && (setgid(uid) || setuid(uid)))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* afterwards: a change of user takes it back */
	settled_fd = fd;
	if (!attack->settles)
		settle();
	attack->run(socket_path);
	_exit(1);
}

int attack_add(struct attackers *attackers, const struct attack *attack, const char *socket_path,
	       const struct made_host *host, uid_t uid)
{
	int fds[2];
	char byte;
	pid_t pid;

	if (attackers->n == ATTACKERS_MAX)
		return -ENOSPC;
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (!pid) {
		close(fds[0]);
		run_attacker(attack, socket_path, host, uid, fds[1]);
	}
	close(fds[1]);
	if (pid < 0 || read(fds[0], &byte, 1) != 1) {
		close(fds[0]);
		return -ECHILD;
	}
	close(fds[0]);
	attackers->group[attackers->n++] = pid;
	return 0;
}

int attack_start(struct attackers *attackers, const struct attack *attack, const char *socket_path,
		 const struct made_host *host, int n)
{
	int r = 0;

	attackers->n = 0;
	for (int i = 0; i < n && !r; i++)
		r = attack_add(attackers, attack, socket_path, host,
			       attack->as_nobody ? NOBODY : 0);
	return r;
}

void attack_end(struct attackers *attackers)
{
	for (int i = 0; i < attackers->n; i++) {
		kill(-attackers->group[i], SIGKILL);
		waitpid(attackers->group[i], NULL, 0);
	}
	attackers->n = 0;
}
