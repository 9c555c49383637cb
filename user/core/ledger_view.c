/* SPDX-License-Identifier: BSD-2-Clause */
/* One view's side of the ledger. See ledger_view.h. */
#include "core/ledger_view.h"

#include <errno.h>
#include <string.h>

#include "core/u64.h"

static const struct ledger_where host = { .die = LEDGER_HOST };

/* Where this view has the die meant by *where, or -ENODEV. */
static int where_place(const struct ledger_view *view, const struct ledger_where *where)
{
	int place = where->view == view->name ? where->die : -ENODEV;

	if (die_id_is_known(&where->id))
		place = where->sampled || where->uid == view->uid
				? die_table_find(view->dies, &where->id)
				: -ENODEV;
	return place >= 0 && view->dies->die[place].budget_bytes ? place : -ENODEV;
}

int ledger_where_find(const struct ledger_view *view, int die, const struct die_id *id,
		      struct ledger_where *ret)
{
	struct ledger_where where = { .die = die, .id = *id, .view = view->name, .uid = view->uid };

	if (die == LEDGER_HOST && !die_id_is_known(id)) {
		*ret = host;
		return 0;
	}
	if (!die_id_is_known(id) && (die < 0 || die >= DIE_TABLE_MAX))
		return -EINVAL;
	where.die = where_place(view, &where);
	if (where.die < 0)
		return -ENODEV;
	where.id = view->dies->die[where.die].id;
	where.sampled = view->dies->die[where.die].total_bytes;
	*ret = where;
	return 0;
}

uint64_t ledger_room_bytes(const struct ledger *ledger, const struct ledger_where *where,
			   const struct admission_config *config, const struct ledger_view *view,
			   const pn_mem_state *state, const pn_mem_ext *ext)
{
	if (where->die == LEDGER_HOST)
		return admission_host_room_bytes(config, state, ext);
	return u64_sub(view->dies->die[where->die].free_bytes, ledger_sum_bytes(ledger, where));
}

/* What every user has of a die. */
static uint64_t shared_bytes(const struct ledger *ledger, const struct die_id *id)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < ledger->count; i++) {
		const struct ledger_entry *e = &ledger->entry[i];

		if (e->where.sampled && die_id_is_same(&e->where.id, id))
			sum = u64_add(sum, e->bytes);
	}
	return sum;
}

bool ledger_share(struct ledger *ledger, const struct die_table *sampled)
{
	bool any = false;

	for (uint32_t i = 0; i < ledger->count; i++) {
		struct ledger_entry *e = &ledger->entry[i];
		int place;

		if (e->where.die == LEDGER_HOST || e->where.sampled ||
		    !die_id_is_known(&e->where.id))
			continue;
		place = die_table_find(sampled, &e->where.id);
		if (place < 0 || u64_add(e->bytes, shared_bytes(ledger, &e->where.id)) >
					 sampled->die[place].total_bytes)
			continue;
		e->where.sampled = any = true;
	}
	return any;
}

void ledger_figures(const struct ledger *ledger, const struct ledger_view *view,
		    uint64_t group_bytes, pn_mem_ext *ext)
{
	ext->host_reserved_bytes = ledger_sum_bytes(ledger, &host);
	ext->cgroup_reserved_bytes = group_bytes;
	memset(ext->die_reserved_bytes, 0, sizeof(ext->die_reserved_bytes));
	for (uint32_t i = 0; i < ledger->count; i++) {
		const struct ledger_entry *e = &ledger->entry[i];
		int place = e->where.die == LEDGER_HOST ? -ENODEV : where_place(view, &e->where);
		uint64_t *sum_bytes;

		if (place < 0 || place >= PN_MEM_MAX_DIES)
			continue;
		sum_bytes = &ext->die_reserved_bytes[place];
		*sum_bytes = u64_add(*sum_bytes, e->bytes);
	}
}

bool ledger_visible(const struct ledger_entry *entry, const struct ledger_view *view,
		    uint64_t meminfo_ns)
{
	int place;

	if (entry->where.die == LEDGER_HOST)
		return meminfo_ns >= entry->done_ns;
	place = where_place(view, &entry->where);
	return place < 0 || view->dies->die[place].sample_ns >= entry->done_ns;
}
