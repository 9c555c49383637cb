/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ledger of reservations: who has been promised which bytes of the host or of a die, until
 * when. A reservation that is committed (its memory has been allocated) stays until the figures of
 * that memory are newer than the allocation, so that the bytes are neither counted twice nor missed
 * in between. Pure: time is an argument, an owner is a name. What fits is ledger_view.h's.
 */
#ifndef PNMEM_CORE_LEDGER_H
#define PNMEM_CORE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dies.h"

/*
 * Bounds that no client can pass: of all, of one owner (each die and the host, twice), of a user. A
 * user has no more places than it leaves for others, and some are kept for uid 0.
 */
#define LEDGER_MAX       512
#define LEDGER_OWNER_MAX 64
#define LEDGER_USER_MAX  128
#define LEDGER_ROOT_KEPT 32

/* A committed one goes after this even if no newer figure ever comes: the die is then stale. */
#define LEDGER_SETTLE_NS 10000000000ull

/* ledger_where.die of host memory. */
#define LEDGER_HOST (-1)

struct ledger_where {
	int32_t die;      /* LEDGER_HOST, or the place in the die table of who asked */
	struct die_id id; /* of the die; all zero: it has no name but its place ... */
	const void *view; /* ... in this view, and is no other view's */
	/*
	 * The agent samples the die of this id itself, so it is every user's. Otherwise it is what
	 * one user's engines say of it, and no other user's.
	 */
	bool sampled;
	uint32_t uid; /* of that user */
};

struct ledger_entry {
	uint64_t serial;   /* rises from entry to entry, never used again */
	const void *owner; /* who alone may change it: a name, never followed */
	uint64_t id;       /* the owner's own name for it, not 0 */
	uint64_t bytes;
	uint64_t made_ns;   /* CLOCK_MONOTONIC, like the next two */
	uint64_t expiry_ns; /* not counted from here on */
	uint64_t done_ns;   /* committed: its memory was allocated at this time; 0: not yet */
	struct ledger_where where;
	uint32_t uid;      /* of the owner */
	const void *group; /* of the owner, as a name: in each, uid 0 is another user */
	int32_t pid;       /* 0: not known */
	bool told;         /* in a process's own ledger: the agent has it too */
};

/* All zero is the empty ledger. Entries are in the order of their serials. */
struct ledger {
	uint64_t last_serial;
	uint32_t count;
	struct ledger_entry entry[LEDGER_MAX];
};

/* The same memory: the host, one die by its id as far as users share it, or one nameless die of a
 * view. */
bool ledger_where_same(const struct ledger_where *a, const struct ledger_where *b);

/*
 * Adds a copy of *entry, with its serial filled in; room_bytes is what is free for it. Returns 0;
 * -EINVAL (id or bytes 0), -EEXIST (the owner has one of this id), -EDQUOT (a bound above),
 * -ENOSPC (more than room_bytes). Expired entries count until ledger_expire has removed them.
 */
int ledger_add(struct ledger *ledger, const struct ledger_entry *entry, uint64_t room_bytes);

/* The owner's entry of this id that is not committed yet, or NULL. */
struct ledger_entry *ledger_find(struct ledger *ledger, const void *owner, uint64_t id);

/*
 * The memory of an entry was allocated at done_ns, which is taken to be within made_ns..now_ns. It
 * stays until ledger_settle finds it visible, LEDGER_SETTLE_NS at most.
 */
void ledger_commit(struct ledger_entry *entry, uint64_t done_ns, uint64_t now_ns);

/* Removes one. The entries behind it move. */
void ledger_remove(struct ledger *ledger, struct ledger_entry *entry);

/* Removes all of an owner. Returns how many. */
uint32_t ledger_remove_owner(struct ledger *ledger, const void *owner);

/* Removes what has expired. Returns how many. */
uint32_t ledger_expire(struct ledger *ledger, uint64_t now_ns);

/* Removes the committed ones of which visible(arg, entry) is true. Returns how many. */
uint32_t ledger_settle(struct ledger *ledger,
		       bool (*visible)(void *arg, const struct ledger_entry *entry), void *arg);

/* When the next one expires; UINT64_MAX with none. */
uint64_t ledger_next_expiry_ns(const struct ledger *ledger);

/* Sum over all entries of this memory, committed ones too; saturates. */
uint64_t ledger_sum_bytes(const struct ledger *ledger, const struct ledger_where *where);

/* Of those, an owner's. */
uint64_t ledger_owner_bytes(const struct ledger *ledger, const struct ledger_where *where,
			    const void *owner);

#endif
