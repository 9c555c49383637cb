/* SPDX-License-Identifier: BSD-2-Clause */
/* A socket path that one agent serves at a time, and that another can take over. */
#ifndef PNMEM_AGENT_SERVE_SOCKET_H
#define PNMEM_AGENT_SERVE_SOCKET_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

#define SOCKET_PATH_BYTES sizeof(((struct sockaddr_un *)0)->sun_path)

struct served_socket {
	char path[SOCKET_PATH_BYTES]; /* with the symbolic links of its folders resolved */
	int lock_fd;                  /* held while the agent lives; -1: not opened */
	int fd;                       /* bound, -1: none */
	int old_pidfd;                /* the agent that is to be replaced, -1: none */
	bool bound;                   /* bound_path is our socket, to be removed */
	dev_t bound_device;           /* or another agent's, which has taken the path over */
	ino_t bound_inode;
	char bound_path[SOCKET_PATH_BYTES]; /* path, or a name beside it until that is taken over */
};

#define SERVED_SOCKET_NONE ((struct served_socket){ .lock_fd = -1, .fd = -1, .old_pidfd = -1 })

struct agent;

/*
 * A socket of this type (SOCK_SEQPACKET, SOCK_STREAM) at the path, for clients of any user: its
 * file has the mode 0666 from the start, so that nothing has to be changed at the path. The kernel
 * lets no descriptors in where it can be told so. It does not listen yet. Returns it or -errno.
 */
int socket_bind(int type, const char *path);

/*
 * Takes the path: its lock file first, then the socket, which replaces one that a killed agent
 * left. The path's folders may not be open to other users (folder.h). replace: a path that is being
 * served is left alone for now (socket_take_over). Logs what went wrong. Returns 0 or -errno,
 * -EADDRINUSE for a path that is being served; close it in any case. *served is SERVED_SOCKET_NONE
 * before.
 */
int socket_take(struct served_socket *served, const char *path, bool replace);

/* Asks the agent that serves the path to end, if there is one, and takes its place. As above. */
int socket_take_over(struct agent *agent, struct served_socket *served);

/* From here on clients of any user can connect. Logs. 0 or -errno. */
int socket_listen(struct served_socket *served);

/* Removes the socket file if it is ours. Allowed on SERVED_SOCKET_NONE. */
void socket_close(struct agent *agent, struct served_socket *served);

#endif
