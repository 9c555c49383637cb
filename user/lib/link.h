/* SPDX-License-Identifier: BSD-2-Clause */
/* The library's connection to the agent: one socket, one request at a time. */
#ifndef PNMEM_LIB_LINK_H
#define PNMEM_LIB_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct link {
	int sock;    /* -1: not connected */
	bool broken; /* shut down after an error; still to be closed */
	uint32_t next_id;
	uint32_t agent_pid; /* as it says, in its own pid namespace */
	int peer_pid;       /* the same here; 0: it is in one that is not seen from here */
	char agent_version[16];
	bool admin;        /* the kernel lets this process speak for the agent (send_as.h) */
	uint32_t features; /* of the agent: PROTO_TAKES_* */
};

/* A socket address's, with its end. */
#define SOCKET_PATH_BYTES 108

/* PN_SOCKET or its default; the default with -ENAMETOOLONG if that does not fit. */
int socket_path_from_env(char ret_path[static SOCKET_PATH_BYTES]);

#define LINK_CLOSED ((struct link){ .sock = -1 })

/*
 * Connects and says hello. The agent looks and publishes before it answers, so its page is
 * current. Returns 0 with the page's memfd in *ret_memfd (the caller closes it), or -errno:
 * -ENOENT, -ECONNREFUSED (no agent), -EACCES, -EAGAIN (no answer within timeout_ms), -EPROTO;
 * -EKEYREJECTED: the agent's user is neither root nor this process's, nor named by PN_AGENT_UID.
 */
int link_open(struct link *link, const char *socket_path, int timeout_ms, int *ret_memfd);

/* The same for the page of another process; also -EPERM, -ESRCH, -EOPNOTSUPP (an older agent). */
int link_open_view_of(struct link *link, const char *socket_path, int pid, int timeout_ms,
		      int *ret_memfd);

/*
 * Sends a request (its id is filled in) and waits for its reply. Returns 0; the agent's own -errno
 * for a request it refused; or -ENOTCONN when the link is broken or slower than timeout_ms. It is
 * then shut down but not closed, so that a thread which polls it sees POLLHUP.
 */
int link_request(struct link *link, void *request, size_t request_bytes, uint16_t reply_type,
		 void *reply, size_t reply_bytes, int timeout_ms);

/* Closes it; allowed on a closed one. */
void link_close(struct link *link);

#endif
