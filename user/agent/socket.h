/* SPDX-License-Identifier: BSD-2-Clause */
/* A socket path that one agent serves at a time. */
#ifndef PNMEM_AGENT_SOCKET_H
#define PNMEM_AGENT_SOCKET_H

#include <stdbool.h>
#include <sys/un.h>

struct served_socket {
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int lock_fd; /* held for as long as the agent lives; -1: not ours */
	int fd;      /* bound, -1: none */
	bool bound;  /* the socket file is ours to remove */
};

#define SERVED_SOCKET_NONE ((struct served_socket){ .lock_fd = -1, .fd = -1 })

/*
 * Takes the path: its lock file first, then the socket, which replaces one that a killed agent
 * left. Logs what went wrong. Returns 0 or -errno, -EADDRINUSE for a path that is being served;
 * close it in any case. *served is SERVED_SOCKET_NONE before.
 */
int socket_take(struct served_socket *served, const char *path);

/* From here on clients of any user can connect. Logs. 0 or -errno. */
int socket_listen(struct served_socket *served);

/* Removes the socket file if it is ours. Allowed on SERVED_SOCKET_NONE. */
void socket_close(struct served_socket *served);

#endif
