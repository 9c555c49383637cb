/* SPDX-License-Identifier: BSD-2-Clause */
/* A packet and, with it, a descriptor. */
#ifndef PNMEM_AGENT_SERVE_SEND_FD_H
#define PNMEM_AGENT_SERVE_SEND_FD_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

/*
 * Over a connected socket, or to an address of to_bytes where to is not NULL; fd -1: no descriptor.
 * Never waits. 0 or -errno, -EAGAIN: there is no room for it now.
 */
int send_fd(int sock, const struct sockaddr_un *to, socklen_t to_bytes, const void *packet,
	    size_t bytes, int fd);

#endif
