/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Looks at one file, probes it, and holds the probes until the finder ends it. See
 * finder_children.h.
 *
 * The kernel reads the file's page while it attaches a uprobe, and until it has it no process on
 * this machine can fork. A file is therefore probed only if it lies on this machine, which its
 * mount says: its file system is not asked, and not even told that somebody has opened the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/gpu/child.h"
#include "agent/filter.h"
#include "agent/gpu/finder_children.h"
#include "agent/privileges.h"
#include "agent/gpu/uprobe.h"
#include "host/cuda_calls.h"
#include "host/elf_symbols.h"
#include "host/mount_type.h"

#define NAME(symbol, name, version, flags) #symbol,
static const char *const names[] = { CUDA_MEMORY_CALLS(NAME) };

#define NAME_COUNT (sizeof(names) / sizeof(names[0]))

struct parsed {
	int32_t r; /* as elf_symbols_find */
	uint64_t offset[NAME_COUNT];
};

static void say(const struct worker_said *said)
{
	if (send(CHILD_FD, said, sizeof(*said), MSG_NOSIGNAL) < 0)
		_exit(0);
}

static _Noreturn void end(uint32_t about, int err, const struct probe_mark *mark)
{
	struct worker_said said = { .about = about, .err = err, .mark = *mark };

	say(&said);
	_exit(0);
}

/* ---- opening --------------------------------------------------------------------------------- */

/*
 * Whether this process is in the agent's user namespace. Others may have made overlays of their
 * own, over anything, and no process here can enter the mounts that they see.
 */
static bool is_in_our_namespace(int pid)
{
	struct stat own, other;
	char path[32];

	snprintf(path, sizeof(path), "%d/ns/user", pid);
	return !stat("/proc/self/ns/user", &own) && !fstatat(CHILD_KEPT_FD, path, &other, 0) &&
	       own.st_ino == other.st_ino && own.st_dev == other.st_dev;
}

/* 0 or -errno. */
static int check_mount(int pid, int fd)
{
	char type[MOUNT_TYPE_BYTES];
	int r = mount_type_of(CHILD_KEPT_FD, pid, fd, type);

	/* A process that has changed its root may not see the mount that its files are on. */
	if (r == -ENOENT)
		r = mount_type_of(CHILD_KEPT_FD, 1, fd, type);
	if (r)
		return r == -ENOENT ? -EREMOTE : r;
	if (mount_type_is_local(type))
		return 0;
	return !strcmp(type, "overlay") && is_in_our_namespace(pid) ? 0 : -EREMOTE;
}

static bool is_same(const struct probe_mark *a, const struct probe_mark *b)
{
	return a->bytes == b->bytes && a->change_s == b->change_s && a->change_ns == b->change_ns;
}

/*
 * By the mapping itself, which is the file whatever its name means where the process lives. Returns
 * a descriptor for reading; ends the worker where there is none.
 */
static int open_mapped(const struct probe_file *file, struct probe_mark *mark)
{
	const struct probe_mapping *m = &file->mapping;
	struct statx st;
	char path[96];
	int handle, fd, r;

	snprintf(path, sizeof(path), "%d/map_files/%llx-%llx", m->pid, (unsigned long long)m->start,
		 (unsigned long long)m->end);
	handle = openat(CHILD_KEPT_FD, path, O_PATH | O_CLOEXEC);
	if (handle < 0)
		end(errno == ENOENT || errno == ESRCH ? WORKER_GONE : WORKER_BAD, -errno, mark);
	r = check_mount(m->pid, handle);
	if (r)
		end(WORKER_BAD, r, mark);
	if (statx(handle, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &st))
		end(WORKER_BAD, -errno, mark);
	if (!S_ISREG(st.stx_mode))
		end(WORKER_BAD, -ENOEXEC, mark);
	mark->bytes = st.stx_size;
	mark->change_s = st.stx_ctime.tv_sec;
	mark->change_ns = st.stx_ctime.tv_nsec;
	if (file->tries && is_same(mark, &file->mark))
		end(WORKER_SAME, 0, mark);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", handle);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		end(WORKER_BAD, -errno, mark);
	close(handle);
	return fd;
}

/* ---- parsing: in a child that can do nothing else -------------------------------------------- */

static _Noreturn void parse(int fd, int out)
{
	struct parsed parsed = { 0 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "pnmemd-parse");
	if (privileges_step(PRIVILEGES_NONE))
		_exit(1);
	filter_parser();
	parsed.r = elf_symbols_find(fd, names, NAME_COUNT, parsed.offset);
	_exit(write(out, &parsed, sizeof(parsed)) != sizeof(parsed));
}

/* How many of the calls are in the file, or -errno. */
static int find_calls(int fd, uint64_t ret_offset[NAME_COUNT])
{
	struct parsed parsed;
	int pair[2], r = -ENOEXEC;
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (!pid)
		parse(fd, pair[1]);
	close(pair[1]);
	if (pid < 0)
		return -EAGAIN;
	/* Less comes from one that has ended otherwise, whatever the file has led it to. */
	if (read(pair[0], &parsed, sizeof(parsed)) == sizeof(parsed)) {
		r = parsed.r;
		memcpy(ret_offset, parsed.offset, sizeof(parsed.offset));
	}
	close(pair[0]);
	waitpid(pid, NULL, 0);
	return r;
}

/* ---- probing --------------------------------------------------------------------------------- */

static bool is_known(const uint64_t offset[], size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (offset[k] == offset[i])
			return true; /* another name of the same function */
	return false;
}

/* The probes stay open. */
static void probe(int fd, const uint64_t offset[], struct worker_said *said)
{
	char path[32];
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	for (size_t i = 0; i < NAME_COUNT; i++) {
		if (!offset[i] || is_known(offset, i))
			continue;
		r = uprobe_open(FINDER_PROGRAM_FD, path, offset[i]);
		if (r < 0)
			said->err = r;
		else
			said->probes++;
		said->about = WORKER_PROBING;
		say(said);
	}
}

void finder_worker_run(const struct probe_file *file)
{
	struct worker_said said = { 0 };
	uint64_t offset[NAME_COUNT];
	char go;
	int fd, r;

	r = privileges_step(PRIVILEGES_OPEN);
	if (r)
		end(WORKER_BAD, r, &said.mark);
	fd = open_mapped(file, &said.mark);
	r = privileges_step(PRIVILEGES_PROBE);
	if (!r)
		r = find_calls(fd, offset);
	/* Another error is not the file's: the same contents may do the next time. */
	if (r < 0 && r != -ENOEXEC && r != -EIO)
		said.mark = (struct probe_mark){ 0 };
	if (r <= 0)
		end(WORKER_BAD, r ? r : -ENOEXEC, &said.mark);
	said.about = WORKER_READY;
	say(&said);
	if (recv(CHILD_FD, &go, 1, 0) != 1)
		return;
	probe(fd, offset, &said);
	close(fd);
	privileges_step(PRIVILEGES_NONE);
	said.about = WORKER_DONE;
	say(&said);
	/* The finder closes its end, or ends itself. */
	while (recv(CHILD_FD, &go, 1, 0) > 0)
		;
}
