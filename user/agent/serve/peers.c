/* SPDX-License-Identifier: BSD-2-Clause */
/* Counting clients and connects by user. See peers.h. */
#include "agent/serve/peers.h"

#include <errno.h>
#include <stdlib.h>

/* At once as many as a user may have: all of its engines come back together when an agent does. */
static const struct budget_limit connect_limit = { .burst = UID_CLIENTS_MAX, .per_s = 1000 };

/* The user's entry or NULL. Frees those on the way that say nothing any more. */
static struct peer *find(struct peers *peers, uid_t uid, uint64_t now_ns)
{
	struct peer **at = &peers->list, *found = NULL;

	while (*at) {
		struct peer *peer = *at;

		if (peer->uid == uid) {
			found = peer;
		} else if (!peer->n_clients && budget_is_full(&peer->connects, now_ns) &&
			   budget_is_full(&peer->verdicts, now_ns)) {
			*at = peer->next;
			free(peer);
			continue;
		}
		at = &peer->next;
	}
	return found;
}

int peers_join(struct peers *peers, uid_t uid, uint64_t now_ns, struct peer **ret)
{
	struct peer *peer = find(peers, uid, now_ns);
	int r = 0;

	if (!peer) {
		peer = calloc(1, sizeof(*peer));
		if (!peer)
			return -ENOMEM;
		peer->uid = uid;
		peer->next = peers->list;
		peers->list = peer;
	}
	if (!budget_take(&peer->connects, &connect_limit, now_ns))
		r = -EAGAIN;
	else if (peers->n_clients >= CLIENTS_MAX || peer->n_clients >= UID_CLIENTS_MAX)
		r = -EMFILE;
	if (r) {
		peer->refused++;
		return r;
	}
	peer->n_clients++;
	peers->n_clients++;
	*ret = peer;
	return 0;
}

void peers_leave(struct peers *peers, struct peer *peer)
{
	peer->n_clients--;
	peers->n_clients--;
}

void peers_close(struct peers *peers)
{
	while (peers->list) {
		struct peer *peer = peers->list;

		peers->list = peer->next;
		free(peer);
	}
}
