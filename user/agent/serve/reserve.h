/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent's ledger of reservations: pn_reserve.h's promises over the socket, the sums in every
 * view, and the ends that nobody asks for (a process, a socket, a time to live).
 */
#ifndef PNMEM_AGENT_SERVE_RESERVE_H
#define PNMEM_AGENT_SERVE_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/proto.h"

struct agent;
struct agent_view;

/* Who asks. */
struct reserve_peer {
	const void *owner;       /* its client, as a name only */
	struct agent_view *view; /* stays the owner's until reserve_forget */
	int sock;
	int pid; /* as client.pid */
	uint32_t uid;
};

/*
 * Holds what is asked for if it fits by the look that has just been published for the peer's view;
 * the caller then looks again, for all to see. Returns 0 with all of *ret but its header filled in,
 * or -errno for a refusal of the request itself.
 */
int reserve_add(struct agent *agent, const struct reserve_peer *peer,
		const struct proto_reserve *ask, struct proto_reserve_reply *ret);

/* Ends one of the owner's, or lets its memory be seen first; the caller then looks. 0, -ESTALE. */
int reserve_release(struct agent *agent, const void *owner, const struct proto_reservation *ask);
int reserve_commit(struct agent *agent, const void *owner, const struct proto_reservation *ask);

/* all: the reservations of all users, else those of the peer's user. */
void reserve_list(const struct agent *agent, const struct reserve_peer *peer, bool all,
		  const struct proto_reservations *ask, struct proto_reservations_reply *ret);

/* The client has gone, and what it held. True if it held anything: the caller is to look. */
bool reserve_forget(struct agent *agent, const void *owner);

/*
 * At each look, when every source has been read: what has ended. all: this look publishes every
 * view in any case. Returns whether it is to, because the sums moved and somebody waits for that.
 */
bool reserve_look(struct agent *agent, bool all, uint64_t now_ns);

/*
 * A resum: the looks after which every page shows what is reserved by now, for all who wait for
 * one. reserve_due_ns says when the next may be made because this peer asks (NULL: because
 * something has ended), in the past: now; so that no user makes them more often than its part of
 * the agent's time allows. reserve_charge is told after _end of each peer that waited for it.
 */
uint64_t reserve_due_ns(const struct agent *agent, const struct reserve_peer *peer);
void reserve_resum_begin(struct agent *agent);
void reserve_resum_end(struct agent *agent, uint64_t took_ns);
void reserve_charge(struct agent *agent, const struct reserve_peer *peer, uint64_t took_ns);

/* Before a view is published: its sums. */
void reserve_figures(const struct agent *agent, struct agent_view *av);

void reserve_close(struct agent *agent);

#endif
