/* SPDX-License-Identifier: BSD-2-Clause */
/* The folder of the flight recorder's files. See recorder_files.h. */
#include "agent/recorder/recorder_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PREFIX "pnmem-"
#define SUFFIX ".pntrace"
#define PART   ".part"

#define HOST_FILES_KEPT 4

int recorder_files_open(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int r = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		r = -errno;
	else if ((st.st_uid != 0 && st.st_uid != geteuid()) || st.st_mode & (S_IWGRP | S_IWOTH))
		r = -EACCES;
	if (!r)
		return fd;
	close(fd);
	return r;
}

/* ---- what there is --------------------------------------------------------------------------- */

struct entry {
	uint64_t number; /* 0: a name of before there were numbers */
	uint64_t bytes;
	char group[RECORDER_GROUP_BYTES];
	char name[RECORDER_FILE_BYTES];
};

struct listing {
	struct entry *entry; /* the oldest first */
	size_t n, room;
};

static bool ends_with(const char *text, const char *end)
{
	size_t bytes = strlen(text), end_bytes = strlen(end);

	return bytes > end_bytes && !strcmp(text + bytes - end_bytes, end);
}

/* Names that others made up, or an older agent, count as dumps that are older than all others. */
static void parse_name(struct entry *entry)
{
	unsigned long long number = 0;
	char group[RECORDER_GROUP_BYTES], dash = 0;

	if (sscanf(entry->name, PREFIX "%10llu-%15[a-z0-9]%c", &number, group, &dash) == 3 &&
	    dash == '-') {
		entry->number = number;
		memcpy(entry->group, group, sizeof(entry->group));
		return;
	}
	entry->number = 0;
	snprintf(entry->group, sizeof(entry->group), RECORDER_GROUP_DUMP);
}

static bool is_own_file(int dir_fd, const char *name, struct stat *st)
{
	return !fstatat(dir_fd, name, st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st->st_mode) &&
	       st->st_uid == geteuid();
}

static int listing_add(struct listing *listing, const char *name, uint64_t bytes)
{
	struct entry *entry;

	if (listing->n == listing->room) {
		size_t room = listing->room ? 2 * listing->room : 64;
		struct entry *more = realloc(listing->entry, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		listing->entry = more;
		listing->room = room;
	}
	entry = &listing->entry[listing->n++];
	*entry = (struct entry){ .bytes = bytes };
	snprintf(entry->name, sizeof(entry->name), "%s", name);
	parse_name(entry);
	return 0;
}

static int by_number(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return strcmp(x->name, y->name);
}

static DIR *open_again(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir && fd >= 0)
		close(fd);
	return dir;
}

/* Our regular files with the suffix, whole or parts. The entries are the caller's to free. */
static int list(int dir_fd, const char *suffix, struct listing *ret)
{
	DIR *dir = open_again(dir_fd);
	struct dirent *dirent;
	int r = 0;

	*ret = (struct listing){ 0 };
	if (!dir)
		return -errno;
	while (!r && (dirent = readdir(dir))) {
		struct stat st;

		if (!strncmp(dirent->d_name, PREFIX, strlen(PREFIX)) &&
		    strlen(dirent->d_name) < RECORDER_FILE_BYTES &&
		    ends_with(dirent->d_name, suffix) && is_own_file(dir_fd, dirent->d_name, &st))
			r = listing_add(ret, dirent->d_name, (uint64_t)st.st_size);
	}
	closedir(dir);
	if (ret->n)
		qsort(ret->entry, ret->n, sizeof(*ret->entry), by_number);
	return r;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int make_name(int dir_fd, const char *group, char name[static RECORDER_FILE_BYTES])
{
	struct listing listing;
	struct timespec now;
	struct tm tm;
	char text[32];
	uint64_t number = 1;
	int r = list(dir_fd, SUFFIX, &listing);

	if (listing.n)
		number = listing.entry[listing.n - 1].number + 1;
	free(listing.entry);
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &tm);
	snprintf(name, RECORDER_FILE_BYTES, PREFIX "%08llu-%s-%s" SUFFIX,
		 (unsigned long long)number, group, text);
	return r;
}

static void part_name(const char *name, char ret[static RECORDER_FILE_BYTES + 8])
{
	snprintf(ret, RECORDER_FILE_BYTES + 8, "%s" PART, name);
}

int recorder_files_begin(int dir_fd, const char *group, const char *name, struct recorder_part *ret)
{
	char part[RECORDER_FILE_BYTES + 8];
	int r = 0;

	ret->is_new = !name[0];
	snprintf(ret->name, sizeof(ret->name), "%s", name);
	if (ret->is_new)
		r = make_name(dir_fd, group, ret->name);
	if (r)
		return r;
	part_name(ret->name, part);
	ret->fd = openat(dir_fd, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (ret->fd < 0)
		return -errno;
	flock(ret->fd, LOCK_EX | LOCK_NB);
	return 0;
}

/* A new file takes no name that is there; where the file system cannot say, there is none. */
static int rename_part(int dir_fd, const char *part, const struct recorder_part *to)
{
	if (!renameat2(dir_fd, part, dir_fd, to->name, to->is_new ? RENAME_NOREPLACE : 0))
		return 0;
	if (errno == EINVAL && to->is_new && faccessat(dir_fd, to->name, F_OK, 0) &&
	    !renameat(dir_fd, part, dir_fd, to->name))
		return 0;
	return -errno;
}

int recorder_files_finish(int dir_fd, struct recorder_part *part, int status)
{
	char name[RECORDER_FILE_BYTES + 8];

	part_name(part->name, name);
	if (!status)
		status = rename_part(dir_fd, name, part);
	if (status)
		unlinkat(dir_fd, name, 0);
	close(part->fd);
	return status;
}

/* ---- which are kept -------------------------------------------------------------------------- */

static size_t count_of_group(const struct listing *listing, const char *group)
{
	size_t count = 0;

	for (size_t i = 0; i < listing->n; i++)
		count += !strcmp(listing->entry[i].group, group);
	return count;
}

static size_t most_of_group(const char *group)
{
	return group[0] == 'u' ? RECORDER_USER_FILES : RECORDER_GROUP_FILES;
}

static void drop(int dir_fd, struct listing *listing, size_t i)
{
	unlinkat(dir_fd, listing->entry[i].name, 0);
	listing->n--;
	memmove(&listing->entry[i], &listing->entry[i + 1],
		(listing->n - i) * sizeof(*listing->entry));
}

/*
 * The oldest file of the group with most files; of several such groups, the oldest file. One person
 * can have thousands of user numbers, so some of the host's stay in any case.
 */
static size_t find_least_wanted(const struct listing *listing, const char *just_written)
{
	size_t found = listing->n, most = 0;

	for (size_t i = 0; i < listing->n; i++) {
		size_t count = count_of_group(listing, listing->entry[i].group);

		if (count <= HOST_FILES_KEPT &&
		    !strcmp(listing->entry[i].group, RECORDER_GROUP_HOST))
			continue;
		if (count > most && strcmp(listing->entry[i].name, just_written)) {
			found = i;
			most = count;
		}
	}
	return found;
}

static uint64_t total_bytes(const struct listing *listing)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < listing->n; i++)
		bytes += listing->entry[i].bytes;
	return bytes;
}

void recorder_files_rotate(int dir_fd, const char *just_written, uint64_t bytes_max)
{
	struct listing listing;

	if (list(dir_fd, SUFFIX, &listing)) {
		free(listing.entry);
		return;
	}
	for (size_t i = 0; i < listing.n;) {
		const struct entry *entry = &listing.entry[i];

		if (count_of_group(&listing, entry->group) > most_of_group(entry->group) &&
		    strcmp(entry->name, just_written))
			drop(dir_fd, &listing, i);
		else
			i++;
	}
	while (listing.n > RECORDER_FILES || total_bytes(&listing) > bytes_max) {
		size_t i = find_least_wanted(&listing, just_written);

		if (i == listing.n)
			break;
		drop(dir_fd, &listing, i);
	}
	free(listing.entry);
}

void recorder_files_clean(int dir_fd)
{
	struct listing listing;

	list(dir_fd, SUFFIX PART, &listing);
	for (size_t i = 0; i < listing.n; i++) {
		const char *name = listing.entry[i].name;
		int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

		/* Who writes it holds the lock. */
		if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))
			unlinkat(dir_fd, name, 0);
		if (fd >= 0)
			close(fd);
	}
	free(listing.entry);
}
