/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections that outlive the agent, in systemd's file descriptor store. A program on sd-event
 * runs its handler without pause once the other end of its socket is gone (so does libsystemd 254),
 * and it does not connect again: a restarted agent has to have the same connections. Without
 * systemd there is no store, and nothing happens here.
 */
#ifndef PNMEM_AGENT_PRESSURE_PRESSURE_STORE_H
#define PNMEM_AGENT_PRESSURE_PRESSURE_STORE_H

#include <stdbool.h>

#include "pn_mem_state.h"

/*
 * A copy of the connection is kept until its client hangs up; level is what it asked for. Returns
 * false where the manager has no room for it now: to be asked again.
 */
bool pressure_store_keep(int sock, pn_mem_level level);

/* One that an agent before this one had kept; the callee owns sock. */
typedef void (*pressure_store_fn)(void *arg, int sock, pn_mem_level level);

/* Hands over all of them; once, and closes whatever else systemd may have passed. */
void pressure_store_take(pressure_store_fn fn, void *arg);

#endif
