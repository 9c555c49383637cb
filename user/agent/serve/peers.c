/* SPDX-License-Identifier: BSD-2-Clause */
/* Counting clients and connects by user and by cgroup. See peers.h. */
#include "agent/serve/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/places.h"

/* The user's entry or NULL. Frees those on the way that say nothing any more. */
static struct peer *find(struct peers *peers, uid_t uid, uint64_t now_ns)
{
	struct peer **at = &peers->list, *found = NULL;

	while (*at) {
		struct peer *peer = *at;

		if (peer->uid == uid) {
			found = peer;
		} else if (!peer->n_clients && budget_is_full(&peer->connects, now_ns) &&
			   budget_is_full(&peer->verdicts, now_ns) &&
			   budget_is_full(&peer->losses, now_ns)) {
			*at = peer->next;
			free(peer);
			continue;
		}
		at = &peer->next;
	}
	return found;
}

static struct peer *peer_get(struct peers *peers, uid_t uid, uint64_t now_ns)
{
	struct peer *peer = find(peers, uid, now_ns);

	if (peer)
		return peer;
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return NULL;
	peer->uid = uid;
	peer->next = peers->list;
	peers->list = peer;
	return peer;
}

static struct peer_group *group_get(struct peers *peers, const char *key)
{
	size_t bytes = strlen(key) + 1;
	struct peer_group *group;

	for (group = peers->groups; group; group = group->next)
		if (!strcmp(group->key, key))
			return group;
	group = calloc(1, sizeof(*group) + bytes);
	if (!group)
		return NULL;
	memcpy(group->key, key, bytes);
	group->next = peers->groups;
	peers->groups = group;
	return group;
}

static void group_put(struct peers *peers, struct peer_group *group)
{
	struct peer_group **at = &peers->groups;

	if (group->n_clients)
		return;
	while (*at != group)
		at = &(*at)->next;
	*at = group->next;
	free(group);
}

static bool has_place(const struct peers *peers, const struct peer *peer,
		      const struct peer_group *group)
{
	unsigned taken = peers->n_clients - peers->n_kept, max = peers->limits->places_max;
	unsigned n_user = peer->uid ? peer->n_clients : group->n_root;

	return places_has_one(n_user, taken, max, 1) &&
	       places_has_one(group->n_clients, taken, max, GROUP_TIMES) &&
	       places_has_one(peer->n_clients, taken, max, GROUP_TIMES);
}

static void take(struct peers *peers, struct peer *peer, struct peer_group *group,
		 struct peer_place *ret)
{
	peer->n_clients++;
	group->n_clients++;
	group->n_root += !peer->uid;
	peers->n_clients++;
	*ret = (struct peer_place){ peer, group };
}

int peers_connect(struct peers *peers, uid_t uid, uint64_t now_ns, struct peer **ret)
{
	*ret = peer_get(peers, uid, now_ns);
	if (!*ret)
		return -ENOMEM;
	if (budget_take(&(*ret)->connects, &peers->limits->connects, now_ns))
		return 0;
	(*ret)->refused++;
	return -EAGAIN;
}

int peers_join(struct peers *peers, struct peer *peer, const char *key, struct peer_place *ret)
{
	struct peer_group *group = group_get(peers, key);

	if (!group)
		return -ENOMEM;
	if (!has_place(peers, peer, group)) {
		peer->refused++;
		group_put(peers, group);
		return -EMFILE;
	}
	take(peers, peer, group, ret);
	return 0;
}

int peers_rejoin(struct peers *peers, uid_t uid, const char *key, uint64_t now_ns,
		 struct peer_place *ret)
{
	struct peer *peer = peer_get(peers, uid, now_ns);
	struct peer_group *group;

	if (!peer)
		return -ENOMEM;
	if (peers->n_clients - peers->n_kept >= peers->limits->places_max)
		return -EMFILE;
	group = group_get(peers, key);
	if (!group)
		return -ENOMEM;
	take(peers, peer, group, ret);
	return 0;
}

void peers_join_kept(struct peers *peers, struct peer *peer, struct peer_place *ret)
{
	peer->n_clients++;
	peers->n_clients++;
	peers->n_kept++;
	*ret = (struct peer_place){ .peer = peer };
}

void peers_leave(struct peers *peers, const struct peer_place *place)
{
	place->peer->n_clients--;
	peers->n_clients--;
	if (!place->group) {
		peers->n_kept--;
		return;
	}
	place->group->n_clients--;
	place->group->n_root -= !place->peer->uid;
	group_put(peers, place->group);
}

void peers_close(struct peers *peers)
{
	while (peers->list) {
		struct peer *peer = peers->list;

		peers->list = peer->next;
		free(peer);
	}
	while (peers->groups) {
		struct peer_group *group = peers->groups;

		peers->groups = group->next;
		free(group);
	}
}
