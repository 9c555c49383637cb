/* SPDX-License-Identifier: BSD-2-Clause */
/* See peer_socket.h. */
#include "agent/serve/peer_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

void peer_socket_refuse_descriptors(int sock)
{
	const int off = 0;

	setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
}

void peer_socket_accepted(int sock)
{
	const int on = 1;

	setsockopt(sock, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
}

int peer_socket_want_sender(int sock)
{
	const int on = 1;

	return setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) ? -errno : 0;
}

static int sender_of(struct msghdr *msg)
{
	const struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);
	struct ucred cred = { 0 };

	if (cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_CREDENTIALS &&
	    cmsg->cmsg_len == CMSG_LEN(sizeof(cred)))
		memcpy(&cred, CMSG_DATA(cmsg), sizeof(cred));
	return cred.pid;
}

ssize_t peer_socket_receive(int sock, void *buf, size_t bytes, int *ret_sender)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(struct ucred))];
	} control = { 0 };
	struct iovec iov = { .iov_base = buf, .iov_len = bytes };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (ret_sender) {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
	}
	/* With no room for descriptors the kernel says that there are some, and keeps them. */
	n = recvmsg(sock, &msg, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
	if (n < 0)
		return -errno;
	if (msg.msg_flags & MSG_CTRUNC)
		return -EPROTO;
	if (ret_sender)
		*ret_sender = sender_of(&msg);
	/* Of a stream no byte more: it could be the first that has a descriptor. */
	if (n > 0 && recv(sock, buf, (size_t)n < bytes ? (size_t)n : bytes, MSG_DONTWAIT) < 0)
		return -errno;
	return n;
}

static bool has_packets(int sock)
{
	socklen_t len = sizeof(int);
	int type = 0;

	getsockopt(sock, SOL_SOCKET, SO_TYPE, &type, &len);
	return type == SOCK_SEQPACKET;
}

bool peer_socket_is_empty(int sock)
{
	const int on = 1;
	struct msghdr msg = { 0 };
	struct iovec iov = { .iov_base = &(char){ 0 }, .iov_len = 1 };
	ssize_t n;

	/*
	 * An empty packet reads like the end. With this option each packet comes with its sender's
	 * credentials, for which there is no room here, and the kernel says so; the end has none.
	 */
	if (has_packets(sock) && setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)))
		return false;
	msg.msg_iov = &iov;
	msg.msg_iovlen = 1;
	do
		n = recvmsg(sock, &msg, MSG_PEEK | MSG_DONTWAIT);
	while (n < 0 && (errno == ECONNRESET || errno == EINTR)); /* told once, before the queue */
	return n < 0 ? errno == EAGAIN : n == 0 && !(msg.msg_flags & MSG_CTRUNC);
}

bool peer_socket_end(int sock)
{
	return !shutdown(sock, SHUT_RD) && peer_socket_is_empty(sock);
}
