/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The users and cgroups that clients belong to, and how many places each of them may take: so that
 * nobody's engines, or processes that pretend to be engines, keep out another's. Each socket of the
 * agent counts its own clients.
 */
#ifndef PNMEM_AGENT_SERVE_PEERS_H
#define PNMEM_AGENT_SERVE_PEERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/budget.h"

/*
 * A user may have as many places as it leaves for others, which is half. A cgroup, whatever users
 * are in it, may have three times as many as it leaves, so that its users leave something for
 * others too. Root is in many containers: in each cgroup it counts as another user, and all of them
 * together count as a cgroup does.
 */
#define GROUP_TIMES 3

struct peers_limits {
	unsigned places_max;          /* in all */
	struct budget_limit connects; /* of one user */
};

/* The places on the main socket (serve.c). */
#define CLIENTS_MAX     4096
#define UID_CLIENTS_MAX 2048

/*
 * More places, which the administrator gets where those are used up. The agent cannot tell at once
 * who that is: a client has so much time to prove it (admin.h).
 */
#define CLIENTS_KEPT  64
#define KEPT_PROOF_NS 2000000000ull

struct peer {
	struct peer *next;
	uid_t uid;
	unsigned n_clients;
	uint64_t refused;
	struct budget connects;
	struct budget verdicts; /* for the flight recorder */
	struct budget losses;   /* verdicts that its clients say they have lost */
};

struct peer_group {
	struct peer_group *next;
	unsigned n_clients;
	unsigned n_root; /* user 0 among them */
	char key[];
};

/* The owner sets limits; all else is zero in the empty list. */
struct peers {
	const struct peers_limits *limits;
	struct peer *list; /* with clients, or with connects that still count */
	struct peer_group *groups;
	unsigned n_clients;
	unsigned n_kept; /* among them, in the administrator's places */
};

/* What a client takes. */
struct peer_place {
	struct peer *peer;
	struct peer_group *group; /* NULL: one of the administrator's places */
};

/*
 * A process of this user connects: 0; -EAGAIN: the user connects too often; -ENOMEM, without a
 * peer.
 */
int peers_connect(struct peers *peers, uid_t uid, uint64_t now_ns, struct peer **ret);

/*
 * Then one more client of the user and of a cgroup: 0 with its place, which is to be given to
 * peers_leave. group is the cgroup's name, "" where it is not known. -EMFILE: too many clients;
 * -ENOMEM.
 */
int peers_join(struct peers *peers, struct peer *peer, const char *group, struct peer_place *ret);

/* Or one in one of the administrator's places, which the caller counts. */
void peers_join_kept(struct peers *peers, struct peer *peer, struct peer_place *ret);

/*
 * Or a client that an agent before this one let in: nothing is refused to it but a place where all
 * are taken, since its user may have had more than a share of what is left now. As peers_connect
 * and peers_join in one; the connect is not counted.
 */
int peers_rejoin(struct peers *peers, uid_t uid, const char *group, uint64_t now_ns,
		 struct peer_place *ret);

void peers_leave(struct peers *peers, const struct peer_place *place);

/* Forgets all; there are no clients any more. */
void peers_close(struct peers *peers);

#endif
