/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The type of the file system that an open file lies on, as the kernel's tables of mounts say it.
 * Unlike statfs this does not ask the file system, which may never answer.
 */
#ifndef PNMEM_HOST_MOUNT_TYPE_H
#define PNMEM_HOST_MOUNT_TYPE_H

#include <stdbool.h>
#include <stddef.h>

#define MOUNT_TYPE_BYTES 32

/*
 * fd: opened with O_PATH or otherwise. pid: a process that has it mapped; its mounts are searched,
 * by procfs_fd. 0; -ENOENT: it is on no mount of that process; -ESRCH and others of open and read.
 */
int mount_type_of(int procfs_fd, int pid, int fd, char ret[MOUNT_TYPE_BYTES]);

/*
 * The files of this type are read from this machine's own disks or memory, so that reading them
 * ends. overlay is not among them: it lies on others, which it does not name.
 */
bool mount_type_is_local(const char *type);

#endif
