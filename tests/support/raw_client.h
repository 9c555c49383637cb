/* SPDX-License-Identifier: BSD-2-Clause */
/* A client of the agent without the library: what it sends is the test's, good or bad. */
#ifndef PNMEM_SUPPORT_RAW_CLIENT_H
#define PNMEM_SUPPORT_RAW_CLIENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A connected socket (close-on-exec, blocking), or -errno. */
int raw_connect(const char *socket_path);

/* The same with a socket (SOCK_SEQPACKET) that is there already: 0 or -errno. */
int raw_connect_with(int sock, const char *socket_path);

/* Sends one packet with n_fds descriptors; 0 or -errno. Never waits. */
int raw_send(int sock, const void *packet, size_t bytes, const int *fds, unsigned n_fds);

/*
 * Sends one packet as the administrator does (agent/admin.h): 0 or -errno, -EPERM for others. Every
 * request on this socket is the administrator's from then on.
 */
int raw_send_as_admin(int sock, const void *packet, size_t bytes);

/*
 * Receives one packet within limit_ms, and its descriptor if ret_fd is not NULL (-1: none came).
 * Returns its whole length, 0 at the end of the connection, or -errno; -ETIMEDOUT.
 */
ssize_t raw_receive(int sock, void *packet, size_t bytes, int *ret_fd, int limit_ms);

/*
 * One exchange with a header alone of this type: the reply's length, at least a header, at reply.
 * Its status is in the header. Or -errno, also for a reply that is not to this request.
 */
ssize_t raw_ask(int sock, uint16_t type, void *reply, size_t reply_bytes);

/* The status of the answer to a header alone of this type, or -errno. */
int raw_status(int sock, uint16_t type);

/* Says hello and keeps nothing of the answer. 0 or -errno. */
int raw_hello(int sock);

/* Says hello: the page's memfd, or -errno. */
int raw_page(int sock);

/* One that has said hello. */
struct raw_client {
	int sock;
	int memfd; /* the page of this process's view, as the agent handed it out */
	uint32_t agent_pid;
};

/* Connects and says hello. 0 or -errno; nothing is left open on an error. */
int raw_client_open(struct raw_client *ret_client, const char *socket_path);
void raw_client_close(struct raw_client *client);

#endif
