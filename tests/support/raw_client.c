/* SPDX-License-Identifier: BSD-2-Clause */
/* See raw_client.h. */
#include "support/raw_client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/proto.h"
#include "host/send_as.h"

#define FDS_MAX  253 /* the kernel's own limit for one message */
#define LIMIT_MS 10000

int raw_connect_with(int sock, const char *socket_path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	strncpy(addr.sun_path, socket_path, sizeof(addr.sun_path) - 1);
	return connect(sock, (struct sockaddr *)&addr, sizeof(addr)) ? -errno : 0;
}

int raw_connect(const char *socket_path)
{
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), r;

	if (sock < 0)
		return -errno;
	r = raw_connect_with(sock, socket_path);
	if (!r)
		return sock;
	close(sock);
	return r;
}

int raw_send(int sock, const void *packet, size_t bytes, const int *fds, unsigned n_fds)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (void *)packet, bytes };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n_fds > FDS_MAX)
		return -EINVAL;
	if (n_fds) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, n_fds * sizeof(int));
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

int raw_send_as_admin(int sock, const void *packet, size_t bytes)
{
	return send_as(sock, send_as_listener(sock), packet, bytes);
}

ssize_t raw_receive(int sock, void *packet, size_t bytes, int *ret_fd, int limit_ms)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { packet, bytes };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct pollfd ready = { .fd = sock, .events = POLLIN };
	struct cmsghdr *cmsg;
	ssize_t n;

	if (ret_fd) {
		*ret_fd = -1;
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_LEN(sizeof(int));
	}
	if (poll(&ready, 1, limit_ms) != 1)
		return -ETIMEDOUT;
	n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT | MSG_TRUNC);
	if (n < 0)
		return -errno;
	cmsg = ret_fd ? CMSG_FIRSTHDR(&msg) : NULL;
	if (cmsg && cmsg->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(cmsg), sizeof(int));
	return n;
}

ssize_t raw_ask(int sock, uint16_t type, void *reply, size_t reply_bytes)
{
	static uint32_t id;
	struct proto_header ask = proto_header_make(type, sizeof(ask), ++id);
	struct proto_header *header = reply;
	ssize_t n = raw_send(sock, &ask, sizeof(ask), NULL, 0);

	if (!n)
		n = raw_receive(sock, reply, reply_bytes, NULL, LIMIT_MS);
	if (n == 0)
		return -ECONNRESET;
	if (n > 0 && (n < (ssize_t)sizeof(*header) || header->id != id))
		return -EBADMSG;
	return n;
}

int raw_status(int sock, uint16_t type)
{
	struct proto_header reply;
	ssize_t n = raw_ask(sock, type, &reply, sizeof(reply));

	return n < 0 ? (int)n : reply.status;
}

int raw_hello(int sock)
{
	return raw_status(sock, PROTO_HELLO);
}

/* The page's memfd, or -errno. */
static int take_page(int sock, struct proto_welcome *ret_welcome)
{
	struct proto_header hello = proto_header_make(PROTO_HELLO, sizeof(hello), 1);
	int memfd, r = raw_send(sock, &hello, sizeof(hello), NULL, 0);
	ssize_t n = r ? r : raw_receive(sock, ret_welcome, sizeof(*ret_welcome), &memfd, LIMIT_MS);

	if (n < (ssize_t)sizeof(ret_welcome->header))
		return n < 0 ? (int)n : -EBADMSG;
	if (ret_welcome->header.status)
		return ret_welcome->header.status;
	return memfd < 0 ? -EPROTO : memfd;
}

int raw_page(int sock)
{
	struct proto_welcome welcome;

	return take_page(sock, &welcome);
}

int raw_client_open(struct raw_client *ret_client, const char *socket_path)
{
	struct proto_welcome welcome;
	int sock = raw_connect(socket_path), memfd;

	if (sock < 0)
		return sock;
	memfd = take_page(sock, &welcome);
	if (memfd < 0) {
		close(sock);
		return memfd;
	}
	*ret_client = (struct raw_client){ sock, memfd, welcome.agent_pid };
	return 0;
}

void raw_client_close(struct raw_client *client)
{
	close(client->memfd);
	close(client->sock);
}
