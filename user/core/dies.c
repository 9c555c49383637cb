/* SPDX-License-Identifier: BSD-2-Clause */
/* The die table and the pushes laid over it. See dies.h. */
#include "core/dies.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/u64.h"

static uint64_t add_u64(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static bool uuid_is_known(const struct die_id *id)
{
	static const uint8_t none[sizeof(id->uuid)];

	return memcmp(id->uuid, none, sizeof(none)) != 0;
}

bool die_id_is_known(const struct die_id *id)
{
	return uuid_is_known(id) || id->pci[0];
}

bool die_id_is_same(const struct die_id *a, const struct die_id *b)
{
	if (uuid_is_known(a) && uuid_is_known(b))
		return !memcmp(a->uuid, b->uuid, sizeof(a->uuid));
	return a->pci[0] && !strncmp(a->pci, b->pci, sizeof(a->pci));
}

/* Up to max_digits of hex, then the end character. Returns what follows it, or NULL. */
static const char *read_hex(const char *text, int max_digits, char end, unsigned *ret)
{
	unsigned value = 0;
	int n = 0;

	for (;; text++, n++) {
		char c = *text >= 'A' && *text <= 'F' ? (char)(*text - 'A' + 'a') : *text;

		if (c >= '0' && c <= '9')
			value = value * 16 + (unsigned)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value * 16 + (unsigned)(c - 'a' + 10);
		else
			break;
		if (n == max_digits)
			return NULL;
	}
	if (!n || *text != end)
		return NULL;
	*ret = value;
	return text + 1;
}

int die_pci_parse(const char *text, char ret_pci[static DIE_PCI_BYTES])
{
	unsigned domain = 0, bus, device, function;
	const char *first = strchr(text, ':');

	if (first && strchr(first + 1, ':')) {
		text = read_hex(text, 8, ':', &domain);
		if (!text)
			return -EINVAL;
	}
	text = read_hex(text, 2, ':', &bus);
	if (text)
		text = read_hex(text, 2, '.', &device);
	if (text)
		text = read_hex(text, 1, '\0', &function);
	if (!text || domain > 0xfffffff || device > 0x1f || function > 7)
		return -EINVAL;
	memset(ret_pci, 0, DIE_PCI_BYTES);
	snprintf(ret_pci, DIE_PCI_BYTES, "%04x:%02x:%02x.%x", domain & 0xfffffff, bus & 0xff,
		 device & 0x1f, function & 7);
	return 0;
}

static bool same_die(const struct die_push *a, const struct die_push *b)
{
	if (a->index >= 0 || b->index >= 0)
		return a->index == b->index;
	return die_id_is_same(&a->id, &b->id);
}

int die_pushes_set(struct die_pushes *pushes, struct die_push *push, uint64_t reserve_bytes)
{
	uint64_t total_bytes = add_u64(push->budget_bytes, reserve_bytes);
	int i = 0;

	if (push->index < 0 ? !die_id_is_known(&push->id) : push->index >= PN_MEM_MAX_DIES)
		return -EINVAL;
	while (i < pushes->count && !same_die(&pushes->push[i], push))
		i++;
	if (!push->budget_bytes) {
		if (i < pushes->count)
			pushes->push[i] = pushes->push[--pushes->count];
		return 0;
	}
	if (i == PN_MEM_MAX_DIES)
		return -ENOSPC;
	if (i == pushes->count)
		pushes->count++;
	push->free_bytes = u64_min(push->free_bytes, total_bytes);
	push->used_bytes = u64_min(push->used_bytes, total_bytes);
	pushes->push[i] = *push;
	return 0;
}

static bool place_is_taken(const struct die *die)
{
	return die->budget_bytes || die->closed || die_id_is_known(&die->id);
}

int die_table_find(const struct die_table *table, const struct die_id *id)
{
	for (int i = 0; i < DIE_TABLE_MAX; i++)
		if (die_id_is_same(&table->die[i].id, id))
			return i;
	return -ENOENT;
}

int die_table_place(const struct die_table *table, int wanted)
{
	if (wanted >= 0 && wanted < DIE_TABLE_MAX && !place_is_taken(&table->die[wanted]))
		return wanted;
	for (int i = 0; i < DIE_TABLE_MAX; i++)
		if (!place_is_taken(&table->die[i]))
			return i;
	return -ENOSPC;
}

int die_table_push(struct die_table *table, const struct die_push *push)
{
	int place = push->index;
	struct die *die;

	if (place < 0)
		place = die_table_find(table, &push->id);
	if (place < 0)
		place = die_table_place(table, -1);
	if (place < 0)
		return place;
	die = &table->die[place];
	if (!die_id_is_known(&die->id))
		die->id = push->id;
	if (!die->sample_ns || push->push_ns >= die->sample_ns) {
		die->free_bytes = push->free_bytes;
		die->sample_ns = push->push_ns;
	}
	if (push->push_ns >= die->push_ns) {
		if (!die->total_bytes)
			die->budget_bytes = push->budget_bytes;
		die->push_ns = push->push_ns;
	}
	die->used_bytes = add_u64(die->used_bytes, push->used_bytes);
	/* Whatever an engine says: others read it too. */
	if (die->total_bytes) {
		die->free_bytes = u64_min(die->free_bytes, die->total_bytes);
		die->used_bytes = u64_min(die->used_bytes, die->total_bytes);
	}
	die->n_pushes++;
	return place;
}

uint32_t die_table_shared(const struct die_table *table)
{
	uint32_t mask = 0;

	for (int i = 0; i < DIE_TABLE_MAX; i++)
		if (table->die[i].n_pushes > 1)
			mask |= 1u << i;
	return mask;
}

uint32_t die_table_declared(const struct die_table *table)
{
	uint32_t mask = 0;

	for (int i = 0; i < DIE_TABLE_MAX; i++)
		if (table->die[i].n_pushes && !table->die[i].total_bytes &&
		    !die_id_is_known(&table->die[i].id))
			mask |= 1u << i;
	return mask;
}

int die_table_count(const struct die_table *table)
{
	int n = DIE_TABLE_MAX;

	while (n && !place_is_taken(&table->die[n - 1]))
		n--;
	return n;
}

uint8_t die_source_state(const struct die *die, uint64_t now_ns)
{
	if (!die->budget_bytes && die->closed)
		return PN_SRC_UNSUPPORTED;
	if (!die->budget_bytes)
		return die_id_is_known(&die->id) ? PN_SRC_STALE : PN_SRC_ABSENT;
	if (die->limit_ns && now_ns > die->sample_ns && now_ns - die->sample_ns > die->limit_ns)
		return PN_SRC_STALE;
	return PN_SRC_OK;
}

uint64_t die_budget_bytes(uint64_t total_bytes, uint64_t reserve_bytes)
{
	return total_bytes > reserve_bytes ? total_bytes - reserve_bytes : 0;
}
