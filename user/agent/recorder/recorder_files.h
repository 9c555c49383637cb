/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files of the flight recorder in their folder: names, parts and which files are kept. A name
 * is pnmem-NUMBER-GROUP-TIME.pntrace. Files are ordered by the number, not by any clock. The group
 * says whom the file is about, and each group has its own share of the files.
 */
#ifndef PNMEM_AGENT_RECORDER_RECORDER_FILES_H
#define PNMEM_AGENT_RECORDER_RECORDER_FILES_H

#include <stdbool.h>
#include <stdint.h>

#define RECORDER_FILE_BYTES  64
#define RECORDER_GROUP_BYTES 16

#define RECORDER_GROUP_DUMP "dump" /* the administrator asked for it */
#define RECORDER_GROUP_END  "end"  /* the agent ended without saying so */
#define RECORDER_GROUP_HOST "host" /* the host's level was CRITICAL */
/* u and the uid: the level of a view of this user was CRITICAL. */

/* Kept of one user, and of each other group. */
#define RECORDER_USER_FILES  4
#define RECORDER_GROUP_FILES 8
/* Kept in all, and with how many bytes, or eight rings if those are more. */
#define RECORDER_FILES       32
#define RECORDER_FILES_BYTES (256ull << 20)
#define RECORDER_FILES_RINGS 8

/*
 * The folder, opened: -EACCES if it does not belong to root or to our user, or if others may write
 * there; -ENOTDIR or -ELOOP if it is no folder but, say, a symbolic link; another -errno.
 */
int recorder_files_open(const char *dir);

struct recorder_part {
	int fd;
	bool is_new; /* the name may not be there yet */
	char name[RECORDER_FILE_BYTES];
};

/*
 * Makes NAME.part, locked for as long as it is open: of the file name, which it will replace; if
 * that is empty, of a new one of this group. 0 or -errno.
 */
int recorder_files_begin(int dir_fd, const char *group, const char *name,
			 struct recorder_part *ret);

/* Closes it. If status is 0 it becomes the file, else it is removed. Returns status, or -errno. */
int recorder_files_finish(int dir_fd, struct recorder_part *part, int status);

/* Removes files that are too many. The file just_written stays. */
void recorder_files_rotate(int dir_fd, const char *just_written, uint64_t bytes_max);

/* Removes parts that nobody writes any more, whose writer was killed. */
void recorder_files_clean(int dir_fd);

#endif
