/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the service manager is told over $NOTIFY_SOCKET: that the agent is ready, that it lives, and
 * which descriptors to keep. sd_notify(3) waits while the manager's queue is full, and with it
 * would everyone who waits for the agent; nothing here does.
 */
#ifndef PNMEM_AGENT_NOTIFY_H
#define PNMEM_AGENT_NOTIFY_H

struct agent;

/*
 * One message, with a descriptor if fd >= 0. Returns 0, also where there is no manager, or -errno;
 * -EAGAIN: there is no room for it now.
 */
int notify_send(const char *message, int fd);

/* READY=1, again until it has been taken, and WATCHDOG=1 as often as is wanted. 0 or -errno. */
int notify_ready(struct agent *agent);

void notify_close(struct agent *agent);

#endif
