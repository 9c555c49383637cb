/* SPDX-License-Identifier: BSD-2-Clause */
/* Talking to the agent. See link.h and core/proto.h. */
#include "lib/link.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/proto.h"
#include "host/clock.h"
#include "host/send_as.h"

#define NS_PER_MS      1000000ull
#define ADMIN_ATTEMPTS 8

_Static_assert(sizeof(((struct sockaddr_un *)0)->sun_path) == SOCKET_PATH_BYTES, "its length");

int socket_path_from_env(char ret_path[static SOCKET_PATH_BYTES])
{
	const char *path = secure_getenv("PN_SOCKET");
	int r = path && strlen(path) >= SOCKET_PATH_BYTES ? -ENAMETOOLONG : 0;

	strcpy(ret_path, path && *path && !r ? path : PN_SOCKET_DEFAULT);
	return r;
}

static uint64_t deadline_after(int timeout_ms)
{
	return clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
}

/* A full backlog makes connect wait: not for ever. */
static int limit_connect(int sock, int timeout_ms)
{
	struct timeval tv = {
		.tv_sec = timeout_ms / 1000,
		.tv_usec = timeout_ms % 1000 * 1000,
	};

	return setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) ? -errno : 0;
}

/* By a deadline, not SO_RCVTIMEO: an engine's profiling signals would start that anew each time. */
static int wait_readable(int sock, uint64_t deadline_ns)
{
	struct pollfd fd = { .fd = sock, .events = POLLIN };
	int n;

	do {
		uint64_t now_ns = clock_now_ns();

		n = poll(&fd, 1,
			 deadline_ns > now_ns ? (int)((deadline_ns - now_ns) / NS_PER_MS) + 1 : 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return n ? 0 : -EAGAIN;
}

/*
 * Receives one packet and at most one descriptor with it (-1 if there is none). Returns the whole
 * packet's length: of a longer one, as a newer agent may send, buf has the beginning.
 */
static ssize_t receive(int sock, void *buf, size_t bytes, int *ret_fd)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec iov = { .iov_base = buf, .iov_len = bytes };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		/* CMSG_SPACE has padding that a second descriptor would fit in. */
		.msg_controllen = CMSG_LEN(sizeof(int)),
	};
	struct cmsghdr *cmsg;
	ssize_t n;

	*ret_fd = -1;
	n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT | MSG_TRUNC);
	if (n < 0)
		return -errno;
	cmsg = CMSG_FIRSTHDR(&msg);
	if (cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS &&
	    cmsg->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(ret_fd, CMSG_DATA(cmsg), sizeof(int));
	return n;
}

/*
 * The first request of the administrator says that the agent itself has sent it, which the kernel
 * allows to nobody else: so the agent knows (pnmem-protocol(7)). Returns 0 if it is sent.
 */
static int send_first(struct link *link, const void *request, size_t request_bytes)
{
	int pid = link->next_id == 1 ? send_as_listener(link->sock) : 0;
	int r = pid ? send_as(link->sock, pid, request, request_bytes) : -EPERM;

	link->admin |= !r || r == -EPIPE || r == -ECONNRESET;
	return r;
}

/* One exchange. *ret_answered tells an agent's refusal from a broken link. */
static int exchange(struct link *link, void *request, size_t request_bytes, uint16_t reply_type,
		    void *reply, size_t reply_bytes, uint64_t deadline_ns, int *ret_fd,
		    int *ret_answered)
{
	struct proto_header *header = request;
	ssize_t n;
	int r;

	*ret_fd = -1;
	*ret_answered = 0;
	header->id = ++link->next_id;
	/* With one request at a time there is always room. */
	if (send_first(link, request, request_bytes)) {
		n = send(link->sock, request, request_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0)
			return -errno;
	}
	r = wait_readable(link->sock, deadline_ns);
	if (r)
		return r;
	n = receive(link->sock, reply, reply_bytes, ret_fd);
	if (n == 0)
		return -ECONNRESET;
	if (n < 0)
		return (int)n;
	r = proto_check_reply(reply, (size_t)n, reply_type, reply_bytes, header->id);
	*ret_answered = r != -EBADMSG;
	return r;
}

/*
 * Is the agent one that this process may believe? A socket in a folder that anybody may write can
 * be anybody's. PN_AGENT_UID names another user, or any; a set-user-id program ignores it.
 */
static int check_agent_user(int sock)
{
	const char *text = secure_getenv("PN_AGENT_UID");
	struct ucred agent = { 0 };
	socklen_t len = sizeof(agent);
	char *end = NULL;
	unsigned long uid;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &agent, &len))
		return -errno;
	if (agent.uid == 0 || agent.uid == geteuid())
		return 0;
	if (!text || !*text)
		return -EKEYREJECTED;
	if (!strcmp(text, "any"))
		return 0;
	uid = strtoul(text, &end, 10);
	return *end || uid != agent.uid ? -EKEYREJECTED : 0;
}

static int open_once(struct link *link, const char *socket_path, void *request,
		     size_t request_bytes, int timeout_ms, int *ret_memfd, bool *ret_admin)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	uint64_t deadline_ns = deadline_after(timeout_ms);
	struct proto_welcome welcome;
	int memfd = -1, answered, r;

	if (strlen(socket_path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, socket_path);
	*link = LINK_CLOSED;
	link->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (link->sock < 0)
		return -errno;
	r = limit_connect(link->sock, timeout_ms);
	if (r)
		goto fail;
	if (connect(link->sock, (struct sockaddr *)&addr, sizeof(addr))) {
		r = -errno;
		goto fail;
	}
	r = check_agent_user(link->sock);
	if (r)
		goto fail;
	r = exchange(link, request, request_bytes, PROTO_WELCOME, &welcome, sizeof(welcome),
		     deadline_ns, &memfd, &answered);
	*ret_admin = link->admin;
	if (!r && memfd < 0)
		r = -EPROTO;
	if (r)
		goto fail;
	link->agent_pid = welcome.agent_pid;
	link->peer_pid = send_as_listener(link->sock);
	link->features = welcome.header.reserved;
	memcpy(link->agent_version, welcome.agent_version, sizeof(link->agent_version));
	link->agent_version[sizeof(link->agent_version) - 1] = 0;
	*ret_memfd = memfd;
	return 0;
fail:
	if (memfd >= 0)
		close(memfd);
	link_close(link);
	return r;
}

/*
 * Where others take all places that they can get, the agent may hang up on the administrator before
 * the first request has arrived. The next attempt most likely succeeds.
 */
static int open_for(struct link *link, const char *socket_path, void *request, size_t request_bytes,
		    int timeout_ms, int *ret_memfd)
{
	bool admin = false;
	int r = -EPIPE;

	for (int i = 0; i < ADMIN_ATTEMPTS && (r == -EPIPE || r == -ECONNRESET); i++) {
		r = open_once(link, socket_path, request, request_bytes, timeout_ms, ret_memfd,
			      &admin);
		if (!admin)
			break;
	}
	return r;
}

int link_open(struct link *link, const char *socket_path, int timeout_ms, int *ret_memfd)
{
	struct proto_header hello = proto_header_make(PROTO_HELLO, sizeof(hello), 0);

	return open_for(link, socket_path, &hello, sizeof(hello), timeout_ms, ret_memfd);
}

int link_open_view_of(struct link *link, const char *socket_path, int pid, int timeout_ms,
		      int *ret_memfd)
{
	struct proto_view_of ask = {
		.header = proto_header_make(PROTO_VIEW_OF, sizeof(ask), 0),
		.pid = pid,
	};

	return open_for(link, socket_path, &ask, sizeof(ask), timeout_ms, ret_memfd);
}

int link_request(struct link *link, void *request, size_t request_bytes, uint16_t reply_type,
		 void *reply, size_t reply_bytes, int timeout_ms)
{
	int fd, answered, r;

	if (link->sock < 0 || link->broken)
		return -ENOTCONN;
	r = exchange(link, request, request_bytes, reply_type, reply, reply_bytes,
		     deadline_after(timeout_ms), &fd, &answered);
	if (fd >= 0)
		close(fd); /* none was asked for */
	if (r && !answered) {
		link->broken = true;
		shutdown(link->sock, SHUT_RDWR);
		return -ENOTCONN;
	}
	return r;
}

void link_close(struct link *link)
{
	if (link->sock >= 0)
		close(link->sock);
	*link = LINK_CLOSED;
}
