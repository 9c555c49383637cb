/* SPDX-License-Identifier: BSD-2-Clause */
/* See folder.h. */
#include "agent/folder.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/log.h"

static bool is_trusted(const struct stat *st)
{
	mode_t others = S_IWOTH;

	if (st->st_uid != 0 && st->st_uid != geteuid())
		return false;
	if (st->st_gid != 0 && st->st_gid != getegid())
		others |= S_IWGRP;
	return !(st->st_mode & others) || (st->st_mode & S_ISVTX);
}

int folder_check(const char *path)
{
	char part[PATH_MAX];
	struct stat st;
	size_t bytes = strlen(path);

	if (bytes >= sizeof(part) || path[0] != '/')
		return -ENAMETOOLONG;
	memcpy(part, path, bytes + 1);
	for (;;) {
		int r = lstat(part, &st) ? -errno : S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
		char *slash;

		if (r) {
			log_line(LOG_ERR, "%s: %s", part, strerror(-r));
			return r;
		}
		if (!is_trusted(&st)) {
			log_line(LOG_ERR,
				 "other users can write to the folder %s: the agent makes no file "
				 "in it or below it",
				 part);
			return -EPERM;
		}
		slash = strrchr(part, '/');
		if (!slash[1])
			return 0;
		slash[slash == part] = 0; /* the root is left */
	}
}

int folder_resolve(const char *path, char *ret, size_t ret_bytes)
{
	const char *name = strrchr(path, '/');
	char folder[PATH_MAX], real[PATH_MAX];
	int r;

	name = name ? name + 1 : path;
	if ((size_t)(name - path) >= sizeof(folder))
		return -ENAMETOOLONG;
	snprintf(folder, sizeof(folder), "%.*s", (int)(name - path), path);
	if (!realpath(*folder ? folder : ".", real)) {
		r = -errno;
		log_line(LOG_ERR, "%s: %s", folder, strerror(-r));
		return r;
	}
	r = folder_check(real);
	if (r)
		return r;
	r = snprintf(ret, ret_bytes, "%s/%s", real[1] ? real : "", name);
	return r < (int)ret_bytes ? 0 : -ENAMETOOLONG;
}

const char *folder_absolute(const char *path)
{
	char *absolute, *here;
	int n;

	if (path[0] == '/')
		return path;
	here = getcwd(NULL, 0);
	if (!here)
		return NULL;
	n = asprintf(&absolute, "%s/%s", here, path);
	free(here);
	return n < 0 ? NULL : absolute;
}
