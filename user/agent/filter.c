/* SPDX-License-Identifier: BSD-2-Clause */
/* The system call filters. See filter.h. */
#include "agent/filter.h"

#include <errno.h>

#if defined(PNMEM_SECCOMP) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>

/*
 * By name and looked up at run time: one that this libseccomp or this architecture does not know
 * is left out. Where libc tries a newer call first, both are here: EPERM for the newer one would
 * not make it try the older.
 */
static const char *const common[] = {
	/* files and folders */
	"access",
	"chdir",
	"chmod",
	"close",
	"close_range",
	"dup",
	"dup2",
	"dup3",
	"faccessat",
	"faccessat2",
	"fadvise64",
	"fallocate",
	"fchmod",
	"fchmodat",
	"fcntl",
	"fdatasync",
	"flock",
	"fstat",
	"fstatfs",
	"fsync",
	"ftruncate",
	"getcwd",
	"getdents64",
	"ioctl",
	"lseek",
	"lstat",
	"memfd_create",
	"mkdir",
	"mkdirat",
	"newfstatat",
	"open",
	"openat",
	"openat2",
	"pread64",
	"pwrite64",
	"read",
	"readlink",
	"readlinkat",
	"readv",
	"rename",
	"renameat",
	"renameat2",
	"rmdir",
	"stat",
	"statfs",
	"statx",
	"umask",
	"unlink",
	"unlinkat",
	"write",
	"writev",
	/* sockets; socket() itself below */
	"accept",
	"accept4",
	"bind",
	"connect",
	"getpeername",
	"getsockname",
	"getsockopt",
	"listen",
	"recvfrom",
	"recvmsg",
	"sendmsg",
	"sendto",
	"setsockopt",
	"shutdown",
	"socketpair",
	/* waiting */
	"epoll_create1",
	"epoll_ctl",
	"epoll_pwait",
	"epoll_pwait2",
	"epoll_wait",
	"eventfd2",
	"pipe2",
	"poll",
	"ppoll",
	"pselect6",
	"select",
	"signalfd4",
	"timerfd_create",
	"timerfd_gettime",
	"timerfd_settime",
	/* memory; what maps it below */
	"brk",
	"madvise",
	"membarrier",
	"mlock",
	"mlock2",
	"mlockall",
	"mremap",
	"msync",
	"munlock",
	"munmap",
	/* threads, processes, signals, time */
	"clock_getres",
	"clock_gettime",
	"clock_nanosleep",
	"exit",
	"exit_group",
	"futex",
	"getegid",
	"geteuid",
	"getgid",
	"getpid",
	"getppid",
	"getrandom",
	"getrlimit",
	"getrusage",
	"gettid",
	"gettimeofday",
	"getuid",
	"kill",
	"nanosleep",
	"pidfd_open",
	"pidfd_send_signal",
	"prctl",
	"prlimit64",
	"restart_syscall",
	"rseq",
	"rt_sigaction",
	"rt_sigpending",
	"rt_sigprocmask",
	"rt_sigreturn",
	"rt_sigtimedwait",
	"sched_getaffinity",
	"sched_yield",
	"set_robust_list",
	"setrlimit",
	"sigaltstack",
	"sysinfo",
	"tgkill",
	"time",
	"timer_create",
	"timer_delete",
	"timer_settime",
	"uname",
	"wait4",
	"waitid",
};

/* The agent's alone: file handles name cgroups that outlive their paths. */
static const char *const agent_only[] = { "name_to_handle_at", "open_by_handle_at" };
static const char *const agent_bpf[] = { "bpf" };

/* A driver's library, the loader, and helpers that the library starts. */
static const char *const sampler_only[] = {
	"arch_prctl",
	"capget",
	"capset",
	"clone",
	"clone3",
	"eventfd",
	"execve",
	"execveat",

	"fork",
	"get_mempolicy",
	"get_robust_list",
	"getcpu",
	"getgroups",
	"getpgid",
	"getpgrp",
	"getpriority",

	"getsid",
	"getxattr",
	"inotify_add_watch",
	"inotify_init1",
	"inotify_rm_watch",
	"link",
	"linkat",
	"mbind",
	"mincore",
	"mknod",
	"mknodat",
	"mmap",
	"mprotect",

	"pause",
	"pipe",
	"prlimit",
	"readahead",
	"recvmmsg",
	"sched_get_priority_max",
	"sched_get_priority_min",
	"sched_getattr",
	"sched_getparam",
	"sched_getscheduler",
	"sched_setaffinity",
	"sched_setattr",
	"sched_setparam",
	"sched_setscheduler",
	"sendmmsg",
	"set_mempolicy",
	"set_tid_address",
	"setpriority",
	"setsid",
	"shmat",
	"shmctl",
	"shmdt",
	"shmget",
	"symlink",
	"symlinkat",
	"times",
	"utimensat",
	"vfork",
};

/* openat() and what makes processes below. */
static const char *const finder_only[] = {
	"brk",
	"capget",
	"capset",
	"clock_gettime",
	"clock_nanosleep",
	"close",
	"close_range",
	"dup2",
	"dup3",
	"exit",
	"exit_group",
	"fcntl",
	"fork",
	"fstat",
	"futex",
	"getdents64",
	"getpid",
	"getppid",
	"getrandom",
	"gettid",
	"ioctl",
	"kill",
	"lseek",
	"madvise",
	"mremap",
	"munmap",
	"nanosleep",
	"newfstatat",
	"perf_event_open",
	"pipe2",
	"poll",
	"ppoll",
	"prctl",
	"pread64",
	"read",
	"readlink",
	"readlinkat",
	"recvfrom",
	"recvmsg",
	"restart_syscall",
	"rseq",
	"rt_sigaction",
	"rt_sigprocmask",
	"rt_sigreturn",
	"seccomp",
	"sendto",
	"set_robust_list",
	"set_tid_address",
	"socketpair",
	"statx",
	"wait4",
	"write",
};

static const char *const parser_only[] = {
	"brk",    "exit",   "exit_group", "futex",        "madvise",
	"mremap", "munmap", "pread64",    "rt_sigreturn", "write",
};

#define ALLOW(filter, list) allow(filter, list, sizeof(list) / sizeof((list)[0]))

static int allow(scmp_filter_ctx filter, const char *const names[], size_t count)
{
	int r = 0;

	for (size_t i = 0; i < count && !r; i++) {
		int number = seccomp_syscall_resolve_name(names[i]);

		/* Negative: a call that this architecture does not have as such. */
		if (number >= 0)
			r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
	}
	return r;
}

static int allow_family(scmp_filter_ctx filter, int family)
{
	return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
				SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)family));
}

/* Threads, no processes. clone3() keeps its flags where no filter sees them: libc then uses clone;
 * the audit log shows it all the same.
 */
static int allow_threads(scmp_filter_ctx filter)
{
	int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				 SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));

	return r ? r : seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

static int allow_data_memory(scmp_filter_ctx filter)
{
	int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
				 SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));

	return r ? r
		 : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
				    SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
}

/* Whatever the flags of reading, nothing is written or made. */
static int allow_reading(scmp_filter_ctx filter)
{
	return seccomp_rule_add(
		filter, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
		SCMP_A2(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY));
}

#define NAMESPACES                                                                                 \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |             \
	 CLONE_NEWPID | CLONE_NEWNET)

/* clone3() as above. */
static int allow_processes(scmp_filter_ctx filter)
{
	int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				 SCMP_A0(SCMP_CMP_MASKED_EQ, NAMESPACES, 0));

	return r ? r : seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

/*
 * Installs. LOG: what is refused can be found. SSB: without it kernels before 5.16 slow a filtered
 * process down against attacks by code that it runs, and it runs none but its own. OPTIMIZE 2: a
 * search tree instead of a list.
 */
static int install(scmp_filter_ctx filter)
{
	int r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_LOG, 1);

	if (r == -EOPNOTSUPP) /* a kernel of before 4.14 */
		r = 0;
	if (!r)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
	if (r == -EOPNOTSUPP)
		r = 0;
	if (!r)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (!r)
		r = seccomp_attr_set(filter, SCMP_FLTATR_API_SYSRAWRC, 1);
	return r ? r : seccomp_load(filter);
}

/* Installs the list unless making it failed with r, and frees it. 0 or -errno. */
static int finish(scmp_filter_ctx filter, int r)
{
	if (!r)
		r = install(filter);
	seccomp_release(filter);
	return r;
}

int filter_agent(bool bpf)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r;

	if (!filter)
		return -ENOMEM;
	r = ALLOW(filter, common);
	if (!r)
		r = ALLOW(filter, agent_only);
	if (!r && bpf)
		r = ALLOW(filter, agent_bpf);
	if (!r)
		r = allow_family(filter, AF_UNIX);
	if (!r)
		r = allow_threads(filter);
	if (!r)
		r = allow_data_memory(filter);
	return finish(filter, r);
}

int filter_sampler(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r;

	if (!filter)
		return -ENOMEM;
	r = ALLOW(filter, common);
	if (!r)
		r = ALLOW(filter, sampler_only);
	if (!r)
		r = allow_family(filter, AF_UNIX);
	if (!r)
		r = allow_family(filter, AF_NETLINK);
	return finish(filter, r);
}

int filter_finder(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r;

	if (!filter)
		return -ENOMEM;
	r = ALLOW(filter, finder_only);
	if (!r)
		r = allow_reading(filter);
	if (!r)
		r = allow_processes(filter);
	if (!r)
		r = allow_data_memory(filter);
	return finish(filter, r);
}

int filter_parser(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r;

	if (!filter)
		return -ENOMEM;
	r = ALLOW(filter, parser_only);
	if (!r)
		r = allow_data_memory(filter);
	return finish(filter, r);
}

#else

int filter_agent(bool bpf)
{
	return -EOPNOTSUPP;
}

int filter_sampler(void)
{
	return -EOPNOTSUPP;
}

int filter_finder(void)
{
	return -EOPNOTSUPP;
}

int filter_parser(void)
{
	return -EOPNOTSUPP;
}

#endif
