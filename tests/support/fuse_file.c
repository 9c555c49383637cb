/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel's FUSE protocol, as little of it as one file takes. See fuse_file.h. */
#include "support/fuse_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILE_NODE    2
#define FILE_BYTES   65536u
#define BUFFER_BYTES (FILE_BYTES + 65536u)

struct fuse_file_shared {
	bool stopped;
	unsigned unanswered;
};

static void reply(int fd, const struct fuse_in_header *in, int error, const void *data,
		  size_t bytes)
{
	struct fuse_out_header out = { .len = (uint32_t)(sizeof(out) + bytes),
				       .error = error,
				       .unique = in->unique };
	struct iovec iov[] = { { &out, sizeof(out) }, { (void *)data, bytes } };

	if (writev(fd, iov, 2) < 0) {
	}
}

static void set_attr(struct fuse_attr *attr, uint64_t node)
{
	memset(attr, 0, sizeof(*attr));
	attr->ino = node;
	attr->nlink = 1;
	attr->mode = node == FILE_NODE ? S_IFREG | 0755 : S_IFDIR | 0755;
	attr->size = node == FILE_NODE ? FILE_BYTES : 0;
}

static void answer(int fd, const struct fuse_in_header *in, const void *body)
{
	static const char zeroes[FILE_BYTES];
	const struct fuse_init_in *init = body;
	const struct fuse_read_in *part = body;
	struct fuse_init_out init_out = { .major = FUSE_KERNEL_VERSION,
					  .minor = 31,
					  .max_write = 4096 };
	struct fuse_entry_out entry = { .nodeid = FILE_NODE };
	struct fuse_attr_out attr = { 0 };
	struct fuse_open_out opened = { 0 };

	switch (in->opcode) {
	case FUSE_INIT:
		init_out.max_readahead = init->max_readahead;
		reply(fd, in, 0, &init_out, sizeof(init_out));
		break;
	case FUSE_LOOKUP:
		set_attr(&entry.attr, FILE_NODE);
		reply(fd, in, 0, &entry, sizeof(entry));
		break;
	case FUSE_GETATTR:
		set_attr(&attr.attr, in->nodeid);
		reply(fd, in, 0, &attr, sizeof(attr));
		break;
	case FUSE_OPEN:
		reply(fd, in, 0, &opened, sizeof(opened));
		break;
	case FUSE_READ:
		reply(fd, in, 0, zeroes, part->size < FILE_BYTES ? part->size : FILE_BYTES);
		break;
	case FUSE_FLUSH:
	case FUSE_RELEASE:
		reply(fd, in, 0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		reply(fd, in, -ENOSYS, NULL, 0);
		break;
	}
}

static _Noreturn void serve(int fd, volatile struct fuse_file_shared *shared, uid_t uid)
{
	static char buf[BUFFER_BYTES];

	if (setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		const struct fuse_in_header *in = (const void *)buf;
		ssize_t n = read(fd, buf, sizeof(buf));

		if (n < (ssize_t)sizeof(*in)) {
			if (n < 0 && (errno == EINTR || errno == ENOENT))
				continue;
			_exit(0); /* unmounted */
		}
		if (!shared->stopped)
			answer(fd, in, in + 1);
		else if (in->opcode != FUSE_FORGET && in->opcode != FUSE_BATCH_FORGET &&
			 in->opcode != FUSE_INTERRUPT)
			shared->unanswered++;
	}
}

int fuse_file_mount(struct fuse_file *fuse, const char *dir, const char *name, uid_t uid)
{
	char options[128];
	int fd, r = 0;

	memset(fuse, 0, sizeof(*fuse));
	snprintf(fuse->dir, sizeof(fuse->dir), "%s", dir);
	snprintf(fuse->path, sizeof(fuse->path), "%s/%s", fuse->dir, name);
	fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	fuse->shared = mmap(NULL, sizeof(*fuse->shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40000,user_id=%u,group_id=%u,allow_other", fd, uid, uid);
	if (fuse->shared == MAP_FAILED || (mkdir(dir, 0755) && errno != EEXIST) ||
	    mount("pnmem-test", dir, "fuse", MS_NOSUID | MS_NODEV, options))
		r = -errno;
	if (!r) {
		fuse->server = fork();
		if (!fuse->server)
			serve(fd, fuse->shared, uid);
		r = fuse->server < 0 ? -errno : 0;
	}
	/* The server alone has it, so that its end is the file system's. */
	close(fd);
	if (r)
		fuse_file_unmount(fuse);
	return r;
}

void fuse_file_stop(struct fuse_file *fuse)
{
	fuse->shared->stopped = true;
}

unsigned fuse_file_unanswered(const struct fuse_file *fuse)
{
	return fuse->shared->unanswered;
}

void fuse_file_unmount(struct fuse_file *fuse)
{
	if (fuse->server > 0) {
		kill(fuse->server, SIGKILL);
		waitpid(fuse->server, NULL, 0);
	}
	fuse->server = 0;
	if (!fuse->dir[0])
		return;
	umount2(fuse->dir, MNT_DETACH);
	rmdir(fuse->dir);
	fuse->dir[0] = 0;
}
