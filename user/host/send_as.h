/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending a message in another process's name, which the kernel allows to few. */
#ifndef PNMEM_HOST_SEND_AS_H
#define PNMEM_HOST_SEND_AS_H

#include <stddef.h>

/*
 * Sends one packet on an AF_UNIX socket, and says that process pid (as its number is here) has sent
 * it. Never waits. Returns 0 or -errno: -EPERM for a caller without CAP_SYS_ADMIN in the user
 * namespace that owns its pid namespace; -ESRCH: no such process.
 */
int send_as(int sock, int pid, const void *packet, size_t bytes);

/* The process that listens on the other end, 0: it is in a pid namespace that is not seen here. */
int send_as_listener(int sock);

#endif
