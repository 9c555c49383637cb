/* SPDX-License-Identifier: BSD-2-Clause */
/* The users of the flight recorder. See recorder_users.h. */
#include "agent/recorder/recorder_users.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/recorder/recorder_memory.h"

/*
 * What all users together may fill of a ring. Users that come one after another each find their
 * share full, so n users take up to 1 + 1/2 + ... + 1/n bursts (2.1 for 4, 2.9 for 10) in their
 * first minute. With these divisors that is 77 % of the records' ring for 4 users, and 92 % for 10.
 */
static void set_limits(struct recorder *recorder)
{
	uint64_t records = recorder->memory->records.bytes, names = recorder->memory->names.bytes;
	struct share_limit *limit = recorder->limit;

	limit[RECORDER_STATE] = (struct share_limit){ records / 8, records / 4 };
	limit[RECORDER_VERDICTS] = (struct share_limit){ records / 16, records / 8 };
	limit[RECORDER_NAMES] = (struct share_limit){ names / 2, names / 2 };
}

void recorder_users_open(struct recorder *recorder)
{
	set_limits(recorder);
	snprintf(recorder->host.group, sizeof(recorder->host.group), RECORDER_GROUP_HOST);
}

void recorder_users_close(struct recorder *recorder)
{
	while (recorder->host.next) {
		struct recorder_user *user = recorder->host.next;

		recorder->host.next = user->next;
		free(user);
	}
	recorder->n_users = 0;
}

/* It says nothing any more: a new entry would be the same. */
static bool is_idle(struct recorder *recorder, struct recorder_user *user, uint64_t now_ns)
{
	if (user->n_views || user == recorder->writing || episode_is_live(&user->episode, now_ns))
		return false;
	for (unsigned i = 0; i < RECORDER_SHARE_COUNT; i++)
		if (!share_is_full(&user->share[i], &recorder->limit[i], recorder->n_users, now_ns))
			return false;
	return true;
}

struct recorder_user *recorder_users_get(struct recorder *recorder, uid_t uid, uint64_t now_ns)
{
	struct recorder_user **at = &recorder->host.next, *found = NULL;

	while (*at) {
		struct recorder_user *user = *at;

		if (user->uid == uid) {
			found = user;
		} else if (is_idle(recorder, user, now_ns)) {
			*at = user->next;
			recorder->n_users--;
			free(user);
			continue;
		}
		at = &user->next;
	}
	if (found)
		return found;
	found = calloc(1, sizeof(*found));
	if (!found)
		return NULL;
	found->uid = uid;
	snprintf(found->group, sizeof(found->group), "u%u", (unsigned)uid);
	found->next = recorder->host.next;
	recorder->host.next = found;
	recorder->n_users++;
	return found;
}

bool recorder_users_take(struct recorder *recorder, struct recorder_user *user,
			 enum recorder_share of, uint64_t bytes, bool routine, uint64_t now_ns)
{
	return user == &recorder->host || share_take(&user->share[of], &recorder->limit[of],
						     recorder->n_users, bytes, routine, now_ns);
}
