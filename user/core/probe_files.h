/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files that processes use as libcuda, and which of them may be probed. Anyone can map files of
 * that name, so that a place is given only to a file in which the calls were found, and users with
 * the most files give way to others. Files that cannot be probed are remembered, and tried again
 * ever less often. Pure; all zero is empty.
 */
#ifndef PNMEM_CORE_PROBE_FILES_H
#define PNMEM_CORE_PROBE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROBE_FILES_MAX 64 /* remembered */
#define PROBE_USED_MAX  16 /* probed at a time */
#define PROBE_TRIES_MAX 8  /* tried at a time, and one of each user */

struct probe_key {
	uint32_t dev_major, dev_minor;
	uint64_t inode;
};

/* Where a process has mapped it. */
struct probe_mapping {
	int pid;
	uint32_t uid; /* the user of that process */
	uint64_t start, end;
};

/* What changes with the file's contents. */
struct probe_mark {
	uint64_t bytes;
	int64_t change_s;
	uint32_t change_ns;
};

enum probe_state {
	PROBE_NONE, /* no file here */
	PROBE_WAITING,
	PROBE_TRYING,
	PROBE_USED,
	PROBE_BAD, /* cannot be probed */
};

struct probe_file {
	struct probe_key key;
	enum probe_state state;
	struct probe_mapping mapping; /* the file counts as one of this mapping's user */
	bool shared;                  /* another user has it mapped too */
	uint32_t seen_round;          /* the last one */
	uint32_t tried_round;         /* likewise */
	uint32_t tries;               /* in a row that failed */
	uint32_t order;               /* the lower, the earlier it came */
	struct probe_mark mark;       /* as of the last try that failed; all zero: not known */
};

struct probe_files {
	struct probe_file file[PROBE_FILES_MAX];
	uint32_t round; /* the caller counts it up at the end of each */
	uint32_t order;
};

/*
 * A process has this file mapped. asked: the process has come to the agent, and was not only met in
 * a round. Returns the file, or NULL where its user has too many of them to remember another.
 */
struct probe_file *probe_files_see(struct probe_files *files, const struct probe_key *key,
				   const struct probe_mapping *mapping, bool asked);

/* The next one to be tried, which is PROBE_TRYING from now on; NULL if there is none now. */
struct probe_file *probe_files_next(struct probe_files *files);

/*
 * The calls were found in this one, which is being tried. Returns whether there is a place for it.
 * *ret_leaves, if not NULL, has to leave for it: the caller then ends its probes and forgets it.
 */
bool probe_files_has_place(struct probe_files *files, const struct probe_file *file,
			   struct probe_file **ret_leaves);

/* It is probed from now on. */
void probe_files_use(struct probe_file *file);

/* It cannot be probed, now or any more. mark: NULL where nothing is known of its contents. */
void probe_files_bad(struct probe_files *files, struct probe_file *file,
		     const struct probe_mark *mark);

/* As if it had never been seen. */
void probe_files_forget(struct probe_file *file);

/*
 * At the end of a round that has left out no process: one that was not seen in it, and is not being
 * tried, or NULL. The caller forgets it and asks again.
 */
struct probe_file *probe_files_unused(struct probe_files *files);

size_t probe_files_count(const struct probe_files *files, enum probe_state state);

#endif
