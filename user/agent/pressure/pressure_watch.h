/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The $MEMORY_PRESSURE_WATCH protocol (systemd.io/PRESSURE) on a stream socket beside the agent's
 * own: whoever connects is sent a byte when its cgroup's level is high. Any program on sd-event
 * (sd_event_add_memory_pressure) speaks it as it is; what it may write is in
 * core/pressure_request.h.
 */
#ifndef PNMEM_AGENT_PRESSURE_PRESSURE_WATCH_H
#define PNMEM_AGENT_PRESSURE_PRESSURE_WATCH_H

#include <stdint.h>

struct agent;

/* Added to the path of the agent's own socket, as ".lock" is. */
#define PRESSURE_WATCH_SUFFIX ".pressure"

/*
 * After server_open, whose lock guards this path too. Where the socket cannot be had, one line in
 * the log, and the agent goes on without.
 */
void pressure_watch_open(struct agent *agent);
void pressure_watch_close(struct agent *agent);

/* At the end of each look: tells those whose level is high. Never waits for one. */
void pressure_watch_look(struct agent *agent, uint64_t now_ns);

#endif
