/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decides when the flight recorder is written out for a CRITICAL level, and whether the agent
 * writes into the file of the episode or a new one. Pure: events, time and places in the ring are
 * arguments.
 *
 * An episode has one file, written at its start, since the machine may not live long, and again
 * with what followed: some seconds later, after an OOM kill, and at its end. When the ring no
 * longer holds its beginning, the agent writes the rest to a new file.
 */
#ifndef PNMEM_CORE_EPISODE_H
#define PNMEM_CORE_EPISODE_H

#include <stdbool.h>
#include <stdint.h>

/* After a write, the next one of the same episode; after a kill, since there are many in a row. */
#define EPISODE_GAP_NS      5000000000ull
#define EPISODE_KILL_GAP_NS 10000000000ull
/* A level that rises and falls repeatedly is one episode: no new one starts before this time. */
#define EPISODE_NEW_NS 60000000000ull
/* Most files of one episode, so that some are left for others. The last is overwritten. */
#define EPISODE_FILES_MAX 4u

/* All zero at first. */
struct episode {
	bool critical;
	bool killed;         /* since the newest write */
	uint64_t begin_ns;   /* 0: there was none yet */
	uint64_t written_ns; /* when the newest write was begun */
	uint64_t due_ns;     /* of the next; 0: none */
	uint64_t keep_pos;   /* what the file has and no other: not to be lost by replacing it */
	uint64_t written_pos;
	unsigned files;
	bool ended;      /* an engine of a CRITICAL view ended since the newest write */
	uint64_t end_ns; /* when the newest write of such an end was wanted at once */
};

/* Places in the ring of records, in bytes since its start. */
struct episode_ring {
	uint64_t bytes;
	uint64_t tail_pos;
	uint64_t head_pos;
};

/* A level has changed: is any CRITICAL? */
void episode_level(struct episode *episode, bool critical, const struct episode_ring *ring,
		   uint64_t now_ns);

/* One more view is CRITICAL: what follows the last write is to be written too. */
void episode_more(struct episode *episode, uint64_t now_ns);

/*
 * An engine of a CRITICAL view has ended: its story is whole, and written at once. Further ends
 * within EPISODE_NEW_NS wait for EPISODE_GAP_NS after a write. To be called after episode_level.
 */
void episode_end(struct episode *episode, uint64_t now_ns);

/* An OOM kill. */
void episode_kill(struct episode *episode, uint64_t now_ns);

/* Does it matter to what is written next? If not, one that is all zero is as good. */
bool episode_is_live(const struct episode *episode, uint64_t now_ns);

/* When episode_write is to be called; UINT64_MAX: nothing is to be written. */
uint64_t episode_due_ns(const struct episode *episode);

/*
 * It is due, and a file can be written now: true if into a new one. Not to be called while another
 * is being written: it stays due.
 */
bool episode_write(struct episode *episode, const struct episode_ring *ring, uint64_t now_ns);

#endif
