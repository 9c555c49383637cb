/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A FUSE file system of one file, whose server can stop answering. The server is a process of
 * another user, and so is whoever uses the file.
 */
#ifndef PNMEM_SUPPORT_FUSE_FILE_H
#define PNMEM_SUPPORT_FUSE_FILE_H

#include <stdint.h>
#include <sys/types.h>

struct fuse_file {
	char dir[80];   /* where it is mounted */
	char path[112]; /* of the file */
	pid_t server;
	volatile struct fuse_file_shared *shared;
};

/*
 * Makes this folder, mounts there for all users, and serves a file of this name, of 64 KiB of
 * zeroes, as user uid. 0 or -errno: where there is no FUSE, -ENOENT, -ENODEV or -EPERM.
 */
int fuse_file_mount(struct fuse_file *fuse, const char *dir, const char *name, uid_t uid);

/* From here on no request is answered. */
void fuse_file_stop(struct fuse_file *fuse);

/* Requests since then. */
unsigned fuse_file_unanswered(const struct fuse_file *fuse);

/* Ends the server, which fails all requests that wait, unmounts and removes the folder. */
void fuse_file_unmount(struct fuse_file *fuse);

#endif
