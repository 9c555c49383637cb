/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The users that clients belong to, and what each of them may take up: so that one user's engines,
 * or what passes for them, cannot keep out another's.
 */
#ifndef PNMEM_AGENT_SERVE_PEERS_H
#define PNMEM_AGENT_SERVE_PEERS_H

#include <stdint.h>
#include <sys/types.h>

#include "core/budget.h"

/* In all, and of one user: half, so that there is always room for another. */
#define CLIENTS_MAX     4096
#define UID_CLIENTS_MAX 2048

struct peer {
	struct peer *next;
	uid_t uid;
	unsigned n_clients;
	uint64_t refused;
	struct budget connects;
	struct budget verdicts; /* for the flight recorder */
};

/* All zero is the empty list. */
struct peers {
	struct peer *list; /* with clients, or with connects that still count */
	unsigned n_clients;
};

/*
 * A client of this user more: 0 with its user, to be given to peers_leave. -EMFILE: too many
 * clients, in all or of the user; -EAGAIN: the user connects too often; -ENOMEM.
 */
int peers_join(struct peers *peers, uid_t uid, uint64_t now_ns, struct peer **ret);

void peers_leave(struct peers *peers, struct peer *peer);

/* Forgets all; there are no clients any more. */
void peers_close(struct peers *peers);

#endif
