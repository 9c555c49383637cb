/* SPDX-License-Identifier: BSD-2-Clause */
/* Entries, bounds, sums and ends of reservations. See ledger.h. */
#include "core/ledger.h"

#include <errno.h>
#include <string.h>

#include "core/places.h"
#include "core/u64.h"

bool ledger_where_same(const struct ledger_where *a, const struct ledger_where *b)
{
	if (a->die == LEDGER_HOST || b->die == LEDGER_HOST)
		return a->die == b->die;
	if (die_id_is_known(&a->id) || die_id_is_known(&b->id))
		return die_id_is_same(&a->id, &b->id) &&
		       ((a->sampled && b->sampled) || a->uid == b->uid);
	return a->die == b->die && a->view == b->view;
}

static bool is_same_user(const struct ledger_entry *a, const struct ledger_entry *b)
{
	return a->uid == b->uid && (a->uid || a->group == b->group);
}

int ledger_add(struct ledger *ledger, const struct ledger_entry *entry, uint64_t room_bytes)
{
	uint32_t max = entry->uid ? LEDGER_MAX - LEDGER_ROOT_KEPT : LEDGER_MAX;
	uint32_t n_owner = 0, n_user = 0;
	struct ledger_entry *added;

	if (!entry->id || !entry->bytes)
		return -EINVAL;
	for (uint32_t i = 0; i < ledger->count; i++) {
		const struct ledger_entry *e = &ledger->entry[i];

		n_user += is_same_user(e, entry);
		if (e->owner != entry->owner)
			continue;
		n_owner++;
		if (e->id == entry->id)
			return -EEXIST;
	}
	if (n_owner >= LEDGER_OWNER_MAX || n_user >= LEDGER_USER_MAX ||
	    !places_has_one(n_user, ledger->count, max, 1))
		return -EDQUOT;
	if (entry->bytes > room_bytes)
		return -ENOSPC;
	added = &ledger->entry[ledger->count++];
	*added = *entry;
	added->serial = ++ledger->last_serial;
	return 0;
}

struct ledger_entry *ledger_find(struct ledger *ledger, const void *owner, uint64_t id)
{
	for (uint32_t i = 0; i < ledger->count; i++) {
		struct ledger_entry *e = &ledger->entry[i];

		if (e->owner == owner && e->id == id)
			return e->done_ns ? NULL : e;
	}
	return NULL;
}

void ledger_commit(struct ledger_entry *entry, uint64_t done_ns, uint64_t now_ns)
{
	entry->done_ns = u64_max(u64_min(done_ns, now_ns), entry->made_ns);
	entry->expiry_ns = now_ns + LEDGER_SETTLE_NS;
}

void ledger_remove(struct ledger *ledger, struct ledger_entry *entry)
{
	const struct ledger_entry *end = &ledger->entry[ledger->count--];

	memmove(entry, entry + 1, (size_t)((const char *)end - (const char *)(entry + 1)));
}

/* What a removal goes by. */
struct removal {
	bool (*wanted)(void *arg, const struct ledger_entry *entry);
	void *arg;
};

static uint32_t remove_wanted(struct ledger *ledger, const struct removal *removal)
{
	uint32_t kept = 0, removed;

	for (uint32_t i = 0; i < ledger->count; i++) {
		if (removal->wanted(removal->arg, &ledger->entry[i]))
			continue;
		if (kept != i)
			ledger->entry[kept] = ledger->entry[i];
		kept++;
	}
	removed = ledger->count - kept;
	ledger->count = kept;
	return removed;
}

static bool is_owned(void *owner, const struct ledger_entry *entry)
{
	return entry->owner == owner;
}

uint32_t ledger_remove_owner(struct ledger *ledger, const void *owner)
{
	return remove_wanted(ledger, &(struct removal){ is_owned, (void *)owner });
}

static bool has_expired(void *now_ns, const struct ledger_entry *entry)
{
	return entry->expiry_ns <= *(const uint64_t *)now_ns;
}

uint32_t ledger_expire(struct ledger *ledger, uint64_t now_ns)
{
	return remove_wanted(ledger, &(struct removal){ has_expired, &now_ns });
}

static bool has_settled(void *arg, const struct ledger_entry *entry)
{
	const struct removal *visible = arg;

	return entry->done_ns && visible->wanted(visible->arg, entry);
}

uint32_t ledger_settle(struct ledger *ledger,
		       bool (*visible)(void *arg, const struct ledger_entry *entry), void *arg)
{
	struct removal inner = { visible, arg };

	return remove_wanted(ledger, &(struct removal){ has_settled, &inner });
}

uint64_t ledger_next_expiry_ns(const struct ledger *ledger)
{
	uint64_t next_ns = UINT64_MAX;

	for (uint32_t i = 0; i < ledger->count; i++)
		next_ns = u64_min(next_ns, ledger->entry[i].expiry_ns);
	return next_ns;
}

uint64_t ledger_sum_bytes(const struct ledger *ledger, const struct ledger_where *where)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < ledger->count; i++)
		if (ledger_where_same(&ledger->entry[i].where, where))
			sum = u64_add(sum, ledger->entry[i].bytes);
	return sum;
}

uint64_t ledger_owner_bytes(const struct ledger *ledger, const struct ledger_where *where,
			    const void *owner)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < ledger->count; i++) {
		const struct ledger_entry *e = &ledger->entry[i];

		if (e->owner == owner && ledger_where_same(&e->where, where))
			sum = u64_add(sum, e->bytes);
	}
	return sum;
}
