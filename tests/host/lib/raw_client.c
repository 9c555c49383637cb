/* SPDX-License-Identifier: BSD-2-Clause */
/* See raw_client.h. */
#include "lib/raw_client.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/proto.h"

int raw_client_use(int sock, const char *socket_path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	strcpy(addr.sun_path, socket_path);
	return connect(sock, (struct sockaddr *)&addr, sizeof(addr)) ? -errno : 0;
}

int raw_client_connect(const char *socket_path)
{
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), r;

	if (sock < 0)
		return -errno;
	r = raw_client_use(sock, socket_path);
	if (!r)
		return sock;
	close(sock);
	return r;
}

int raw_client_hello(int sock)
{
	struct proto_header hello = proto_header_make(PROTO_HELLO, sizeof(hello), 1);
	struct proto_welcome welcome = { 0 };
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { &welcome, sizeof(welcome) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	int memfd;

	if (send(sock, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello) ||
	    recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) < (ssize_t)sizeof(welcome.header))
		return -errno;
	if (welcome.header.status || !CMSG_FIRSTHDR(&msg))
		return welcome.header.status ? welcome.header.status : -EPROTO;
	memcpy(&memfd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(memfd));
	return memfd;
}

int raw_client_ask(int sock, uint16_t type)
{
	struct proto_header request = proto_header_make(type, sizeof(request), 2), ack;

	if (send(sock, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request) ||
	    recv(sock, &ack, sizeof(ack), 0) != sizeof(ack))
		return -errno;
	return ack.status;
}
