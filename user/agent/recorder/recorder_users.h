/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The users whose views the flight recorder records. Each has a share of the records, so that no
 * user can push the records of others out of memory, and an episode with files of its own.
 */
#ifndef PNMEM_AGENT_RECORDER_RECORDER_USERS_H
#define PNMEM_AGENT_RECORDER_RECORDER_USERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/recorder/recorder_files.h"
#include "core/episode.h"
#include "core/share.h"

struct recorder;

/* What clients can cause to be recorded. */
enum recorder_share {
	RECORDER_STATE = 0,    /* snapshots, dies and the ends of views */
	RECORDER_VERDICTS = 1, /* what engines report */
	RECORDER_NAMES = 2,    /* the names of views */
	RECORDER_SHARE_COUNT = 3,
};

struct recorder_user {
	struct recorder_user *next;
	uid_t uid;
	unsigned n_views;    /* that there are */
	unsigned n_critical; /* views in the episode */
	struct share share[RECORDER_SHARE_COUNT];
	struct episode episode;
	char group[RECORDER_GROUP_BYTES]; /* in the names of its files */
	char file[RECORDER_FILE_BYTES];   /* of the episode; "": none yet */
};

/* The limits follow from the sizes of the rings. recorder->host is the first user. */
void recorder_users_open(struct recorder *recorder);
void recorder_users_close(struct recorder *recorder);

/* The entry of a user, made if need be; it stays while n_views is not 0. NULL: no memory. */
struct recorder_user *recorder_users_get(struct recorder *recorder, uid_t uid, uint64_t now_ns);

/*
 * Takes bytes of the user's share; routine: half of the share is left for what is not. The host's
 * own records have no limit.
 */
bool recorder_users_take(struct recorder *recorder, struct recorder_user *user,
			 enum recorder_share of, uint64_t bytes, bool routine, uint64_t now_ns);

#endif
