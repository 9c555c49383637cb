/* SPDX-License-Identifier: BSD-2-Clause */
/* Which files are tried, and which are probed. See probe_files.h. */
#include "core/probe_files.h"

#include <string.h>

#define RETRY_ROUNDS_MAX 32

#define FOR_EACH(f, files)                                                                         \
	for (struct probe_file *f = (files)->file; f < (files)->file + PROBE_FILES_MAX; f++)

size_t probe_files_count(const struct probe_files *files, enum probe_state state)
{
	size_t n = 0;

	for (size_t i = 0; i < PROBE_FILES_MAX; i++)
		n += files->file[i].state == state;
	return n;
}

static size_t count_of(struct probe_files *files, uint32_t uid, bool used_only)
{
	size_t n = 0;

	FOR_EACH(f, files)
	n += f->state != PROBE_NONE && f->mapping.uid == uid &&
	     (!used_only || f->state == PROBE_USED);
	return n;
}

static bool may_replace(const struct probe_files *files, const struct probe_file *f, bool asked)
{
	return f->state == PROBE_BAD && (asked || f->tried_round != files->round);
}

/* Where another one can be remembered. */
static struct probe_file *room(struct probe_files *files, uint32_t uid, bool asked)
{
	size_t mine = count_of(files, uid, false), most = 0;
	struct probe_file *found = NULL;

	FOR_EACH(f, files)
	if (f->state == PROBE_NONE)
		return f;
	/* The oldest of the user with the most. What was tried in this round gives way only to
	 * users who have less, so that one user cannot have more tried in a round than there is
	 * room for.
	 */
	FOR_EACH(f, files)
	{
		size_t n = count_of(files, f->mapping.uid, false);

		if (f->state != PROBE_BAD || (!may_replace(files, f, asked) && n <= mine + 1))
			continue;
		if (!found || n > most || (n == most && f->order < found->order)) {
			found = f;
			most = n;
		}
	}
	return found;
}

static uint32_t retry_rounds(uint32_t tries)
{
	return tries > 5 ? RETRY_ROUNDS_MAX : 1u << tries;
}

struct probe_file *probe_files_see(struct probe_files *files, const struct probe_key *key,
				   const struct probe_mapping *mapping, bool asked)
{
	struct probe_file *file = NULL;

	FOR_EACH(f, files)
	if (f->state != PROBE_NONE && f->key.inode == key->inode &&
	    f->key.dev_major == key->dev_major && f->key.dev_minor == key->dev_minor)
		file = f;
	if (!file) {
		file = room(files, mapping->uid, asked);
		if (!file)
			return NULL;
		memset(file, 0, sizeof(*file));
		file->key = *key;
		file->state = PROBE_WAITING;
		file->mapping = *mapping;
		file->order = files->order++;
	}
	file->shared = file->shared || file->mapping.uid != mapping->uid;
	file->seen_round = files->round;
	if (file->state == PROBE_BAD &&
	    files->round - file->tried_round >= retry_rounds(file->tries)) {
		file->state = PROBE_WAITING;
		file->mapping = *mapping;
	}
	return file;
}

static bool is_tried(struct probe_files *files, uint32_t uid)
{
	FOR_EACH(f, files)
	if (f->state == PROBE_TRYING && f->mapping.uid == uid)
		return true;
	return false;
}

struct probe_file *probe_files_next(struct probe_files *files)
{
	struct probe_file *next = NULL;

	if (probe_files_count(files, PROBE_TRYING) >= PROBE_TRIES_MAX)
		return NULL;
	FOR_EACH(f, files)
	if (f->state == PROBE_WAITING && (!next || f->order < next->order) &&
	    !is_tried(files, f->mapping.uid))
		next = f;
	if (next) {
		next->state = PROBE_TRYING;
		next->tried_round = files->round;
	}
	return next;
}

/* Whether a leaves before b, both of the same user. */
static bool leaves_before(const struct probe_file *a, const struct probe_file *b)
{
	if (a->shared != b->shared)
		return b->shared;
	if (a->seen_round != b->seen_round)
		return a->seen_round < b->seen_round;
	return a->order < b->order;
}

bool probe_files_has_place(struct probe_files *files, const struct probe_file *file,
			   struct probe_file **ret_leaves)
{
	size_t mine = count_of(files, file->mapping.uid, true), most = mine + 1;
	struct probe_file *found = NULL;

	*ret_leaves = NULL;
	if (probe_files_count(files, PROBE_USED) < PROBE_USED_MAX)
		return true;
	FOR_EACH(f, files)
	{
		size_t n = count_of(files, f->mapping.uid, true);
		/* One that the last whole round has not met leaves, whoever has it. */
		bool is_old = files->round - f->seen_round > 1;

		if (f->state != PROBE_USED || (n <= mine + 1 && !is_old))
			continue;
		if (!found || n > most || (n == most && leaves_before(f, found))) {
			found = f;
			most = n;
		}
	}
	*ret_leaves = found;
	return found;
}

void probe_files_use(struct probe_file *file)
{
	file->state = PROBE_USED;
	file->tries = 0;
}

void probe_files_bad(struct probe_files *files, struct probe_file *file,
		     const struct probe_mark *mark)
{
	file->state = PROBE_BAD;
	file->tries++;
	file->tried_round = files->round;
	memset(&file->mark, 0, sizeof(file->mark));
	if (mark)
		file->mark = *mark;
}

void probe_files_forget(struct probe_file *file)
{
	memset(file, 0, sizeof(*file));
}

struct probe_file *probe_files_unused(struct probe_files *files)
{
	FOR_EACH(f, files)
	if (f->state != PROBE_NONE && f->state != PROBE_TRYING && f->seen_round != files->round)
		return f;
	return NULL;
}
