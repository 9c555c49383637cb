/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of a trace: an open hash table. See names.h. */
#include "cli/trace/names.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS      8192 /* a power of two */
#define NAMES_MAX  4096
#define NAME_BYTES 512

struct trace_names {
	unsigned count;
	struct {
		uint64_t id;
		uint32_t of; /* 0: free */
		char *text;
	} slot[SLOTS];
};

struct trace_names *trace_names_new(void)
{
	return calloc(1, sizeof(struct trace_names));
}

void trace_names_free(struct trace_names *names)
{
	for (unsigned i = 0; names && i < SLOTS; i++)
		free(names->slot[i].text);
	free(names);
}

/* The slot of this id, or the free slot for it. The table is never full. */
static unsigned slot_of(const struct trace_names *names, uint32_t of, uint64_t id)
{
	unsigned i = ((id ^ (uint64_t)of << 60) * 0x9e3779b97f4a7c15ull >> 32) % SLOTS;

	while (names->slot[i].of && (names->slot[i].of != of || names->slot[i].id != id))
		i = (i + 1) % SLOTS;
	return i;
}

void trace_names_add(struct trace_names *names, const struct trace_item *item)
{
	const struct trace_name *name = &item->name;
	char text[NAME_BYTES];
	unsigned i;
	char *copy;

	if (item->kind != TRACE_NAME || name->of == TRACE_NAME_VIEW)
		return;
	i = slot_of(names, name->of, name->id);
	if (!names->slot[i].of && names->count == NAMES_MAX)
		return;
	copy = strdup(trace_printable(text, sizeof(text), item->text));
	if (!copy)
		return;
	names->count += !names->slot[i].of;
	free(names->slot[i].text);
	names->slot[i].of = name->of;
	names->slot[i].id = name->id;
	names->slot[i].text = copy;
}

const char *trace_names_get(const struct trace_names *names, uint32_t of, uint64_t id)
{
	return names->slot[slot_of(names, of, id)].text;
}

char *trace_printable(char *ret, size_t bytes, const char *text)
{
	size_t n = 0;

	for (; n + 1 < bytes && text[n]; n++) {
		unsigned char c = (unsigned char)text[n];

		/* A byte above 0x7e may not be UTF-8, and JSON must be UTF-8. */
		ret[n] = c < 0x20 || c >= 0x7f ? '?' : (char)c;
	}
	ret[n] = 0;
	return ret;
}
