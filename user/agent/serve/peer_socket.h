/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading a socket whose other end is a client's. A client can send descriptors along, and whoever
 * drops the last reference to one waits for as long as the client chose: so does a TCP socket with
 * unsent data and SO_LINGER. The agent's loop therefore never takes a message that carries any.
 */
#ifndef PNMEM_AGENT_SERVE_PEER_SOCKET_H
#define PNMEM_AGENT_SERVE_PEER_SOCKET_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * The kernel refuses descriptors to this socket and to those that are accepted from it: a sender
 * gets EPERM. Linux 6.16 and later; before that it does nothing, and what is below has to do.
 */
void peer_socket_refuse_descriptors(int sock);

/*
 * For a socket that was just accepted and not read yet: peer_socket_receive then sees out-of-band
 * bytes of a stream too, which a plain read discards together with their descriptors.
 */
void peer_socket_accepted(int sock);

/*
 * For a listening socket: the kernel tells of each message to the sockets that are accepted from it
 * which process sent it. 0 or -errno.
 */
int peer_socket_want_sender(int sock);

/*
 * Receives, and never waits. Returns the length, for a packet its whole length even where that is
 * more than bytes; 0 at the end; -EAGAIN; -EPROTO: a descriptor comes next, and everything is left
 * in the socket. On a socket of peer_socket_want_sender *ret_sender is the process that sent the
 * message, as the kernel has checked it, or 0; NULL on any other socket.
 */
ssize_t peer_socket_receive(int sock, void *buf, size_t bytes, int *ret_sender);

/*
 * Takes nothing more from the client: its sends fail from here on, and what this end sends still
 * arrives. Returns true if the client has sent nothing that is unread, so that closing the socket
 * drops no descriptor.
 */
bool peer_socket_end(int sock);

/* The same question alone: the client can go on sending. */
bool peer_socket_is_empty(int sock);

#endif
