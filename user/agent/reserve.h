/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent's ledger of reservations: pn_reserve.h's promises over the socket, the sums in every
 * view, and the ends that nobody asks for (a process, a socket, a time to live).
 */
#ifndef PNMEM_AGENT_RESERVE_H
#define PNMEM_AGENT_RESERVE_H

#include <stdbool.h>
#include <stddef.h>
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

union reserve_reply {
	struct proto_header header;
	struct proto_reserve_reply reserve;
	struct proto_reservations_reply reservations;
};

/*
 * Answers a PROTO_RESERVE, _COMMIT, _RELEASE or _RESERVATIONS, as proto_check_request let it
 * through: the reply, of header.size_bytes, goes to *ret. What it changes has been published.
 */
void reserve_answer(struct agent *agent, const struct reserve_peer *peer,
		    const union proto_request *request, union reserve_reply *ret);

/* The client has gone, and what it held. True if it held anything: the caller is to look. */
bool reserve_forget(struct agent *agent, const void *owner);

/* At each look, when every source has been read: what has ended, and the sums. */
void reserve_look(struct agent *agent, uint64_t now_ns);

void reserve_close(struct agent *agent);

#endif
