/* SPDX-License-Identifier: BSD-2-Clause */
/* Folders in which the agent makes and removes files. */
#ifndef PNMEM_AGENT_FOLDER_H
#define PNMEM_AGENT_FOLDER_H

#include <stddef.h>

/*
 * Whether this path, which has no symbolic link in it, can be trusted: another user who may write
 * to one of its folders can put another file in the place of the agent's between any two calls.
 * Each must belong to root or to the agent's user, and be writable by nobody else; where it has the
 * sticky bit others may write, since they cannot rename or remove what is not theirs. Logs which
 * one it is. Returns 0, -EPERM or -errno.
 */
int folder_check(const char *path);

/*
 * The path of the file with the symbolic links of its folders resolved, once folder_check has
 * passed. The file need not be there. Logs. Returns 0 or -errno: -ENAMETOOLONG.
 */
int folder_resolve(const char *path, char *ret, size_t ret_bytes);

/* Makes a path absolute, for use after chdir. Returns it, or a new string; NULL: no memory. */
const char *folder_absolute(const char *path);

#endif
