/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who is at the other end of a socket: a process, whose number (SO_PEERCRED, as of the connect)
 * may be another one's once it has ended.
 */
#ifndef PNMEM_AGENT_SERVE_PEER_PROCESS_H
#define PNMEM_AGENT_SERVE_PEER_PROCESS_H

#include <stdbool.h>

/*
 * A pidfd of the process that connected: itself, where the kernel can say (Linux 6.5), else of who
 * has its number, pid, now. The descriptor, readable once it ends, or -errno: -ESRCH (it has
 * ended); others: not to be had from this kernel, or for a process outside our pid namespace.
 */
int peer_process_open(int sock, int pid);

/* pidfd is from peer_process_open, as it returned it; false where that cannot be told. */
bool peer_process_ended(int pidfd);

#endif
