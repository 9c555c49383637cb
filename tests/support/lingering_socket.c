/* SPDX-License-Identifier: BSD-2-Clause */
/* See lingering_socket.h. */
#include "support/lingering_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>

#define FULL_SEND 65536

int lingering_socket(int linger_s)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	const struct linger linger = { 1, linger_s };
	socklen_t len = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM, 0), sock = socket(AF_INET, SOCK_STREAM, 0);
	static char data[FULL_SEND];

	if (bind(listener, (struct sockaddr *)&addr, sizeof(addr)) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&addr, &len) ||
	    connect(sock, (struct sockaddr *)&addr, sizeof(addr)) ||
	    setsockopt(sock, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)))
		return -1;
	/* The listener stays, and with it the connection that nobody accepts. */
	while (send(sock, data, sizeof(data), MSG_DONTWAIT) > 0)
		;
	return sock;
}
