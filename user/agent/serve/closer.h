/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Closing sockets of clients. Descriptors that a client has sent and that nobody has received are
 * dropped by whoever closes the socket, and closing such a one can wait for as long as the client
 * chose (peer_socket.h). So a socket with anything unread is closed by a thread, which a timer
 * interrupts in each wait. One that still does not return (a large memfd being freed) holds up that
 * thread alone. Where the kernel lets no descriptors in, only sockets with unread requests get
 * here.
 */
#ifndef PNMEM_AGENT_SERVE_CLOSER_H
#define PNMEM_AGENT_SERVE_CLOSER_H

#include <stdbool.h>

#include "agent/agent.h"

int closer_open(struct agent *agent);

/*
 * The agent has no more use for this socket, to which a client could have sent: it takes nothing
 * more from the client and is closed, now or by a thread. closed(arg), if not NULL, is called once
 * its descriptor is free, which may be before this returns: until then it counts as the client's.
 */
void closer_drop(struct agent *agent, int sock, void (*closed)(void *arg), void *arg);

/*
 * The agent has no more use for this duplicate (dup) of a client's socket. The client may go on:
 * where the agent has not dropped the client's own descriptor, nothing is taken from it.
 */
void closer_drop_duplicate(struct agent *agent, int sock);

/* A socket that listens, with those that nobody has accepted yet. */
void closer_drop_listener(struct agent *agent, int sock);

/* True while so many wait to be closed that no more are to be accepted. */
bool closer_is_full(struct agent *agent);

/*
 * The agent ends: whatever waits, and whatever is dropped from here on with anything unread, is
 * left to the end of the process, where the kernel does not wait; closed is called at once.
 */
void closer_end(struct agent *agent);
void closer_close(struct agent *agent);

#endif
