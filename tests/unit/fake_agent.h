/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An agent for the attach tests: a thread that serves core/proto.h and publishes on a sealed memfd
 * page, well or badly on purpose. In a whole state of its every number is the same. Include after
 * cmocka.h; only the test's own thread may call agent_start and agent_stop.
 */
#ifndef PNMEM_TESTS_FAKE_AGENT_H
#define PNMEM_TESTS_FAKE_AGENT_H

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "core/page.h"
#include "core/proto.h"
#include "host/page_wake.h"
#include "watch_tree.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* How it answers. */
enum manner {
	MANNER_WELL,
	MANNER_BUSY, /* a good welcome; every other request is refused */
	MANNER_SILENT,
	MANNER_HANGS_UP,
	MANNER_REFUSES,
	MANNER_GARBAGE,
	MANNER_SHORT_REPLY,
	MANNER_LONG_REPLY,
	MANNER_OTHER_ID,
	MANNER_NO_PAGE,
	MANNER_TWO_PAGES, /* two descriptors in one message, a bad packet around them */
	MANNER_UNSEALED,
	MANNER_SHORT_FILE,
	MANNER_WRONG_MAGIC,
	MANNER_NOT_A_MEMFD,
	MANNER_COUNT,
};

#define AGENT_CLIENTS 16

struct fake_agent {
	char path[108];
	int listen_fd;
	int command_fd;
	pthread_t server, publisher;
	pthread_mutex_t lock; /* the page and all below without _Atomic */
	struct page *page;
	int memfd;
	int client[AGENT_CLIENTS];
	bool fresh;
	uint64_t n; /* of the last snapshot */
	uint64_t published_ns;
	struct proto_set_die die[PN_MEM_MAX_DIES]; /* pushed on the page of now */

	_Atomic int manner;
	_Atomic bool stop, renew, flat_out;
	_Atomic int64_t beat_offset_ns; /* of the heartbeat from the truth */
	_Atomic uint32_t n_hooks;
	_Atomic int hellos, looks_asked, renewals;
};

static inline void agent_fill(pn_mem_state *state, pn_mem_ext *ext, uint64_t n)
{
	memset(state, 0, sizeof(*state));
	memset(ext, 0, sizeof(*ext));
	state->host_total_bytes = state->host_avail_bytes = state->cgroup_max_bytes = n;
	state->n_dies = PN_MEM_MAX_DIES;
	state->level = (pn_mem_level)(n % 4);
	ext->publishes = ext->looks = n;
	ext->mode = PN_MODE_FENTRY; /* an in-process poll never says that */
	for (int i = 0; i < PN_MEM_MAX_DIES; i++) {
		state->per_die_free[i] = state->per_die_budget[i] = state->per_die_used[i] = n;
		ext->die_sample_ns[i] = n;
	}
}

static inline bool agent_is_whole(const pn_mem_state *state, const pn_mem_ext *ext)
{
	uint64_t n = state->host_total_bytes;
	bool whole = state->host_avail_bytes == n && state->cgroup_max_bytes == n &&
		     state->n_dies == PN_MEM_MAX_DIES && state->level == (pn_mem_level)(n % 4) &&
		     ext->publishes == n && ext->looks == n;

	for (int i = 0; i < PN_MEM_MAX_DIES; i++)
		whole = whole && state->per_die_free[i] == n && state->per_die_budget[i] == n &&
			state->per_die_used[i] == n && ext->die_sample_ns[i] == n;
	return whole;
}

/* With the lock held. Less than one a microsecond, as page_seq_floor() asks for. */
static inline void agent_publish(struct fake_agent *a)
{
	pn_mem_state state;
	pn_mem_ext ext;

	agent_fill(&state, &ext, ++a->n);
	do
		ext.publish_ns = clock_now_ns();
	while (ext.publish_ns < a->published_ns + 2000);
	a->published_ns = ext.publish_ns;
	page_publish(a->page, &state, &ext, a->fresh ? page_seq_floor(ext.publish_ns) : 0);
	a->fresh = false;
	if (a->beat_offset_ns)
		a->page->heartbeat_ns = ext.publish_ns + (uint64_t)a->beat_offset_ns;
	page_wake(a->page, page_bump_all(a->page), INT_MAX);
}

static inline void agent_make_page(struct fake_agent *a)
{
	a->memfd = memfd_create("fake-agent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(a->memfd >= 0);
	assert_int_equal(ftruncate(a->memfd, a->manner == MANNER_SHORT_FILE
						     ? sizeof(struct page) - 8
						     : PAGE_BYTES),
			 0);
	a->page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, a->memfd, 0);
	assert_true(a->page != MAP_FAILED);
	if (a->manner != MANNER_UNSEALED)
		assert_int_equal(
			fcntl(a->memfd, F_ADD_SEALS,
			      F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL),
			0);
	page_init(a->page);
	a->page->magic += a->manner == MANNER_WRONG_MAGIC;
	memset(a->die, 0, sizeof(a->die));
	a->fresh = true;
}

/* As a killed agent leaves it: half way through a publish. */
static inline void agent_drop_page(struct fake_agent *a)
{
	const size_t copies = sizeof(a->page->copy) / sizeof(a->page->copy[0]);
	uint64_t k = a->page->seq / 2;

	a->page->seq = k * 2 + 1;
	memset(&a->page->copy[(k + 1) % copies], 0xee, sizeof(a->page->copy[0]) / 2);
	munmap(a->page, PAGE_BYTES);
	close(a->memfd);
}

static inline void agent_drop_clients(struct fake_agent *a)
{
	for (int i = 0; i < AGENT_CLIENTS; i++) {
		if (a->client[i] >= 0)
			close(a->client[i]);
		a->client[i] = -1;
	}
}

static inline void agent_send(int sock, const void *packet, size_t bytes, const int *fds, int n_fds)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(2 * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { .iov_base = (void *)packet, .iov_len = bytes };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n_fds) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE((size_t)n_fds * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN((size_t)n_fds * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, (size_t)n_fds * sizeof(int));
	}
	sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static inline void agent_welcome(struct fake_agent *a, int sock, uint32_t id)
{
	struct {
		struct proto_welcome welcome;
		char more[8];
	} reply = { .welcome = { .header = proto_header_make(PROTO_WELCOME,
							     sizeof(struct proto_welcome), id) } };
	int fds[2] = { a->memfd, a->memfd }, n_fds = a->manner == MANNER_TWO_PAGES ? 2 : 1;
	size_t bytes = sizeof(reply.welcome);

	agent_publish(a);
	switch (a->manner) {
	case MANNER_REFUSES:
		reply.welcome.header.status = -EPERM;
		break;
	case MANNER_GARBAGE:
		memset(&reply, 0x5a, sizeof(reply));
		break;
	case MANNER_SHORT_REPLY:
		bytes = 7;
		break;
	case MANNER_LONG_REPLY:
		bytes = sizeof(reply);
		break;
	case MANNER_TWO_PAGES:
	case MANNER_OTHER_ID:
		reply.welcome.header.id++;
		break;
	case MANNER_NO_PAGE:
		n_fds = 0;
		break;
	case MANNER_NOT_A_MEMFD:
		fds[0] = a->command_fd;
		break;
	}
	agent_send(sock, &reply, bytes, fds, n_fds);
}

static inline void agent_tell_hooks(struct fake_agent *a, int sock, uint32_t id)
{
	struct proto_hooks_reply reply = {
		.header = proto_header_make(PROTO_HOOKS_REPLY, sizeof(reply), id),
		.count = a->n_hooks,
	};

	memset(reply.hook, 'x', sizeof(reply.hook)); /* no string ends */
	agent_send(sock, &reply, sizeof(reply), NULL, 0);
}

static inline void agent_answer(struct fake_agent *a, int *client)
{
	struct proto_header ack = proto_header_make(PROTO_ACK, sizeof(ack), 0);
	union proto_request request;
	ssize_t n = recv(*client, &request, sizeof(request), MSG_DONTWAIT);

	if (n <= 0 || proto_check_request(&request, (size_t)n) || a->manner == MANNER_HANGS_UP) {
		close(*client);
		*client = -1;
		return;
	}
	if (request.header.type == PROTO_HELLO)
		a->hellos++;
	if (a->manner == MANNER_SILENT)
		return;
	ack.id = request.header.id;
	if (a->manner == MANNER_BUSY && request.header.type != PROTO_HELLO) {
		ack.status = -EBUSY;
		agent_send(*client, &ack, sizeof(ack), NULL, 0);
		return;
	}
	switch (request.header.type) {
	case PROTO_HELLO:
		agent_welcome(a, *client, ack.id);
		return;
	case PROTO_RESERVE:
	case PROTO_RESERVATIONS: /* it is of before there were any */
		ack.status = -EOPNOTSUPP;
		agent_send(*client, &ack, sizeof(ack), NULL, 0);
		return;
	case PROTO_HOOKS:
		agent_tell_hooks(a, *client, ack.id);
		return;
	case PROTO_SET_DIE:
		a->die[request.set_die.die_id] = request.set_die;
		break;
	default:
		a->looks_asked++;
	}
	agent_publish(a);
	agent_send(*client, &ack, sizeof(ack), NULL, 0);
}

static inline void agent_accept(struct fake_agent *a)
{
	int sock = accept4(a->listen_fd, NULL, NULL, SOCK_CLOEXEC);

	for (int i = 0; i < AGENT_CLIENTS && sock >= 0; i++)
		if (a->client[i] < 0) {
			a->client[i] = sock;
			return;
		}
	if (sock >= 0)
		close(sock);
}

static inline void *agent_serve(void *arg)
{
	struct fake_agent *a = arg;
	struct pollfd fds[AGENT_CLIENTS + 2];
	uint64_t count;

	while (!a->stop) {
		fds[AGENT_CLIENTS] = (struct pollfd){ .fd = a->listen_fd, .events = POLLIN };
		fds[AGENT_CLIENTS + 1] = (struct pollfd){ .fd = a->command_fd, .events = POLLIN };
		for (int i = 0; i < AGENT_CLIENTS; i++)
			fds[i] = (struct pollfd){ .fd = a->client[i], .events = POLLIN };
		poll(fds, AGENT_CLIENTS + 2, -1);
		pthread_mutex_lock(&a->lock);
		for (int i = 0; i < AGENT_CLIENTS; i++)
			if (fds[i].revents)
				agent_answer(a, &a->client[i]);
		if (fds[AGENT_CLIENTS].revents)
			agent_accept(a);
		if (fds[AGENT_CLIENTS + 1].revents)
			(void)!read(a->command_fd, &count, sizeof(count));
		if (a->renew) {
			agent_drop_page(a);
			agent_make_page(a);
			agent_drop_clients(a);
			a->renew = false;
			a->renewals++;
		}
		pthread_mutex_unlock(&a->lock);
	}
	return NULL;
}

static inline void *agent_publish_on(void *arg)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct fake_agent *a = arg;

	while (!a->stop) {
		if (!a->flat_out) {
			nanosleep(&pause, NULL);
			continue;
		}
		for (int i = 0; i < 20; i++) {
			pthread_mutex_lock(&a->lock);
			agent_publish(a);
			pthread_mutex_unlock(&a->lock);
		}
		sched_yield(); /* the lock is not a fair one */
	}
	return NULL;
}

static inline void agent_command(struct fake_agent *a, _Atomic bool *what)
{
	const uint64_t one = 1;

	*what = true;
	assert_int_equal(write(a->command_fd, &one, sizeof(one)), sizeof(one));
}

/* Once for each test; a->manner may be set after it. */
static inline void agent_init(struct fake_agent *a)
{
	memset(a, 0, sizeof(*a));
	pthread_mutex_init(&a->lock, NULL);
	snprintf(a->path, sizeof(a->path), "%s", getenv("PN_SOCKET"));
	a->listen_fd = -1;
}

static inline void agent_start(struct fake_agent *a)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	sigset_t all, old;

	memcpy(addr.sun_path, a->path, sizeof(a->path));
	memset(a->client, -1, sizeof(a->client));
	a->stop = false;
	a->command_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	a->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(a->command_fd >= 0 && a->listen_fd >= 0);
	agent_make_page(a);
	assert_int_equal(bind(a->listen_fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(a->listen_fd, AGENT_CLIENTS), 0);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	assert_int_equal(pthread_create(&a->server, NULL, agent_serve, a), 0);
	assert_int_equal(pthread_create(&a->publisher, NULL, agent_publish_on, a), 0);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* It dies, without a word to anyone. Allowed when it does not run. */
static inline void agent_stop(struct fake_agent *a)
{
	if (a->listen_fd < 0)
		return;
	agent_command(a, &a->stop);
	pthread_join(a->server, NULL);
	pthread_join(a->publisher, NULL);
	unlink(a->path);
	close(a->listen_fd);
	a->listen_fd = -1;
	agent_drop_clients(a);
	agent_drop_page(a);
	close(a->command_fd);
}

#endif
