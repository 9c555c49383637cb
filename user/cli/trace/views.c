/* SPDX-License-Identifier: BSD-2-Clause */
/* Views of a trace. See views.h. */
#include "cli/trace/views.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace/names.h"

#define SLOTS      (2 * TRACE_VIEWS_MAX) /* a power of two, filled by half at most */
#define NAMES_MAX  (2 * TRACE_VIEWS_MAX)
#define NAME_BYTES 512

/* A name of a number from this time on. The names of one number form a list, the newest first. */
struct known_name {
	struct known_name *before;
	uint64_t ts_ns;
	char text[];
};

/* A number, and the view that has it. */
struct slot {
	bool used;
	uint32_t id;
	uint32_t place; /* TRACE_VIEW_NONE: no view had it so far */
	struct known_name *names;
};

struct place {
	uint32_t id;
	uint32_t first; /* of the same path */
	bool ended;
	const struct known_name *name; /* NULL: not known */
};

struct trace_views {
	uint32_t count;
	unsigned slot_count, name_count;
	uint64_t left_out;
	struct known_name *ended; /* names that are known only from the mark of a view's end */
	struct place place[TRACE_VIEWS_MAX];
	struct slot slot[SLOTS];
};

struct trace_views *trace_views_new(void)
{
	struct trace_views *views = calloc(1, sizeof(*views));

	if (views)
		views->count = 1;
	return views;
}

static void free_names(struct known_name *name)
{
	struct known_name *before;

	for (; name; name = before) {
		before = name->before;
		free(name);
	}
}

void trace_views_free(struct trace_views *views)
{
	if (!views)
		return;
	for (unsigned i = 0; i < SLOTS; i++)
		free_names(views->slot[i].names);
	free_names(views->ended);
	free(views);
}

/* NULL where there are too many, or no memory. */
static struct known_name *name_new(struct trace_views *views, struct known_name **list,
				   const char *text, uint64_t ts_ns)
{
	struct known_name *known =
		views->name_count == NAMES_MAX ? NULL : malloc(sizeof(*known) + strlen(text) + 1);

	if (!known)
		return NULL;
	strcpy(known->text, text);
	known->ts_ns = ts_ns;
	known->before = *list;
	*list = known;
	views->name_count++;
	return known;
}

/* The slot of this number, or the free slot for it. The table is never full. */
static unsigned slot_at(const struct trace_views *views, uint32_t id)
{
	unsigned i = (unsigned)(id * 0x9e3779b97f4a7c15ull >> 32) % SLOTS;

	while (views->slot[i].used && views->slot[i].id != id)
		i = (i + 1) % SLOTS;
	return i;
}

/* NULL without room. */
static struct slot *slot_get(struct trace_views *views, uint32_t id)
{
	struct slot *slot = &views->slot[slot_at(views, id)];

	if (slot->used)
		return slot;
	if (views->slot_count == SLOTS / 2)
		return NULL;
	views->slot_count++;
	*slot = (struct slot){ .used = true, .id = id, .place = TRACE_VIEW_NONE };
	return slot;
}

static void set_name(struct trace_views *views, uint32_t place, const struct known_name *name)
{
	struct place *view = &views->place[place];

	view->name = name;
	view->first = place;
	for (uint32_t i = 1; name && i < place; i++) {
		const struct place *other = &views->place[i];

		if (other->first == i && other->name && !strcmp(other->name->text, name->text)) {
			view->first = i;
			return;
		}
	}
}

/*
 * The name that the number had at this time. A flight recorder's file begins with all names that
 * the recorder still has, with their times. If the name of this time is not among them, the next
 * one is taken, since it may repeat it.
 */
static const struct known_name *name_at(const struct slot *slot, uint64_t ts_ns)
{
	const struct known_name *later = NULL;

	for (const struct known_name *name = slot->names; name; name = name->before) {
		if (name->ts_ns <= ts_ns)
			return name;
		later = name;
	}
	return later;
}

/* Takes a record of this view. Opens a place for the view if its number has none. */
static void seen(struct trace_views *views, uint32_t id, uint64_t ts_ns, bool alive)
{
	struct slot *slot;

	if (!id)
		return;
	slot = slot_get(views, id);
	/* A verdict may come after its view has ended. A look shows that its view has not ended. */
	if (slot && slot->place != TRACE_VIEW_NONE && !(alive && views->place[slot->place].ended))
		return;
	if (!slot || views->count == TRACE_VIEWS_MAX) {
		views->left_out++;
		if (slot)
			slot->place = TRACE_VIEW_NONE;
		return;
	}
	slot->place = views->count++;
	views->place[slot->place] = (struct place){ .id = id };
	set_name(views, slot->place, name_at(slot, ts_ns));
}

static void add_name(struct trace_views *views, const struct trace_item *item)
{
	const struct trace_name *name = &item->name;
	struct known_name *known;
	struct place *place;
	struct slot *slot;
	char text[NAME_BYTES];

	if (name->of != TRACE_NAME_VIEW || !name->id || name->id > UINT32_MAX)
		return;
	slot = slot_get(views, (uint32_t)name->id);
	if (!slot)
		return;
	trace_printable(text, sizeof(text), item->text);
	if (slot->names && !strcmp(slot->names->text, text))
		return;
	known = name_new(views, &slot->names, text, item->ts_ns);
	if (!known || slot->place == TRACE_VIEW_NONE)
		return;
	place = &views->place[slot->place];
	if (!place->name && !place->ended)
		set_name(views, slot->place, known);
	else
		place->ended =
			true; /* a cgroup's path never changes, so this is another view's name */
}

static void end(struct trace_views *views, const struct trace_item *item)
{
	const struct known_name *name;
	char text[NAME_BYTES];
	uint32_t place;

	place = item->mark.of == TRACE_MARK_VIEW_END ? trace_views_place(views, item->mark.value)
						     : TRACE_VIEW_NONE;
	if (place == TRACE_VIEW_NONE || !place)
		return;
	views->place[place].ended = true;
	name = views->place[place].name;
	trace_printable(text, sizeof(text), item->text);
	/* Older files have no text here. A name with a later time then belongs to the next view. */
	if (*text && (!name || strcmp(name->text, text)))
		set_name(views, place, name_new(views, &views->ended, text, item->ts_ns));
	else if (!*text && name && name->ts_ns > item->ts_ns)
		set_name(views, place, NULL);
}

void trace_views_add(struct trace_views *views, const struct trace_item *item)
{
	switch (item->kind) {
	case TRACE_NAME:
		add_name(views, item);
		break;
	case TRACE_LOOK:
		seen(views, item->look.view, item->ts_ns, true);
		break;
	case TRACE_DIE:
		seen(views, item->die.view, item->ts_ns, true);
		break;
	case TRACE_VERDICT:
		seen(views, item->verdict.view, item->ts_ns, false);
		break;
	case TRACE_MARK:
		end(views, item);
		break;
	default:
		break;
	}
}

uint32_t trace_views_place(const struct trace_views *views, uint64_t id)
{
	const struct slot *slot;

	if (!id)
		return 0;
	if (id > UINT32_MAX)
		return TRACE_VIEW_NONE;
	slot = &views->slot[slot_at(views, (uint32_t)id)];
	return slot->used ? slot->place : TRACE_VIEW_NONE;
}

uint32_t trace_views_count(const struct trace_views *views)
{
	return views->count;
}

uint32_t trace_views_id(const struct trace_views *views, uint32_t place)
{
	return views->place[place].id;
}

const char *trace_views_name(const struct trace_views *views, uint32_t place)
{
	const struct known_name *name = views->place[place].name;

	return name ? name->text : NULL;
}

const char *trace_views_label(const struct trace_views *views, uint32_t place,
			      char buf[static TRACE_VIEWS_LABEL])
{
	const char *name;

	if (!place)
		return "the host";
	if (place == TRACE_VIEW_NONE)
		return "a view";
	name = trace_views_name(views, place);
	if (!name)
		snprintf(buf, TRACE_VIEWS_LABEL, "view %u", trace_views_id(views, place));
	return name ? name : buf;
}

bool trace_views_ended(const struct trace_views *views, uint32_t place)
{
	return views->place[place].ended;
}

uint32_t trace_views_first(const struct trace_views *views, uint32_t place)
{
	return views->place[place].first;
}

uint64_t trace_views_left_out(const struct trace_views *views)
{
	return views->left_out;
}

void trace_views_complain(const struct trace_views *views)
{
	if (views->left_out)
		fprintf(stderr, "pnmem: %llu records of views beyond the first %u are left out\n",
			(unsigned long long)views->left_out, TRACE_VIEWS_MAX);
}
