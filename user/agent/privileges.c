/* SPDX-License-Identifier: BSD-2-Clause */
/* Dropping privileges. See privileges.h. */
#include "agent/privileges.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/filter.h"
#include "agent/log.h"

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#define CAP_BPF     39
#endif
#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40
#endif

#define BIT(cap) (1ull << (cap))

/*
 * IPC_LOCK: with MCL_FUTURE no memory can be had above RLIMIT_MEMLOCK without it. SYS_RESOURCE: a
 * page's descriptor cannot be sent while other programs of this user have more of theirs unread in
 * sockets than our RLIMIT_NOFILE; whoever is root in a container is this user.
 */
#define ALWAYS (BIT(CAP_IPC_LOCK) | BIT(CAP_SYS_RESOURCE))

/* Every look reads counters and sets gates in maps by bpf(2), which takes it where unprivileged BPF
 * is off; and the programs for libcuda are loaded when a driver is. */
#define FOR_BPF BIT(CAP_BPF)

/* SYS_PTRACE: /proc/PID/maps of other users' processes, and their namespaces and mounts. */
#define FOR_MAPS BIT(CAP_SYS_PTRACE)

/*
 * CHECKPOINT_RESTORE: opening what is mapped there by /proc/PID/map_files. DAC_READ_SEARCH: a
 * library that only its owner may read.
 */
#define FOR_OPEN (FOR_MAPS | BIT(CAP_CHECKPOINT_RESTORE) | BIT(CAP_DAC_READ_SEARCH))

/* A uprobe is a perf event, and its program reads kernel memory. */
#define FOR_PROBE BIT(CAP_PERFMON)

/*
 * SYS_ADMIN: a uprobe, where the kernel is not content with PERFMON: measured so on 6.1.0-50, 6.12,
 * 6.18 and 7.2, and on Debian's 5.10 with its default perf_event_paranoid of 3, not with 2.
 */
#define FOR_UPROBE BIT(CAP_SYS_ADMIN)

static void complain(const char *what, int err)
{
	log_line(LOG_NOTICE, "privileges: cannot %s: %s; going on", what, strerror(err));
}

/* Sets what is permitted and effective to what is there of these; nothing is inheritable. */
static int capabilities_set(uint64_t permitted, uint64_t effective)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, sets))
		return -errno;
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		sets[i].permitted &= (uint32_t)(permitted >> (32 * i));
		sets[i].effective = sets[i].permitted & (uint32_t)(effective >> (32 * i));
		sets[i].inheritable = 0;
	}
	return syscall(SYS_capset, &header, sets) ? -errno : 0;
}

/* Asks the kernel for one that cannot be: whether it may be is what it looks at first. */
static bool uprobe_needs_admin(void)
{
	struct perf_event_attr attr = { .size = sizeof(attr) };
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	bool known = file && fscanf(file, "%u", &attr.type) == 1;
	int fd;

	if (file)
		fclose(file);
	if (!known)
		return false;
	attr.config1 = (uintptr_t) "/";
	fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd < 0 && errno == EACCES;
}

/* What a program that this process starts could get, even if it belongs to root. */
static int bounding_set_clear(void)
{
	int r = 0;

	for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) > 0 &&
		    prctl(PR_CAPBSET_DROP, cap, 0, 0, 0))
			r = -errno;
	return r;
}

/* All but the filter: each has its own. */
static void drop_to(uint64_t permitted, uint64_t effective)
{
	int r;

	umask(0077);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		complain("set no_new_privs", errno);
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
		complain("clear the ambient set", errno);
	r = geteuid() ? 0 : bounding_set_clear();
	if (r)
		complain("clear the bounding set (CAP_SETPCAP)", -r);
	r = capabilities_set(permitted, effective);
	if (r)
		complain("drop capabilities", -r);
		/* Neither a core file nor a debugger of the same user. A leak check is a debugger
		 * too. */
#ifndef __SANITIZE_ADDRESS__
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		complain("switch core files off", errno);
#endif
}

static void complain_of_filter(const char *what, int r)
{
	if (r && r != -EOPNOTSUPP)
		complain(what, -r);
}

void privileges_drop(bool bpf)
{
	uint64_t keep = ALWAYS | (bpf ? FOR_BPF : 0);
	int r;

	drop_to(keep, keep);
	r = filter_agent(bpf);
	if (r == -EOPNOTSUPP)
		log_line(LOG_NOTICE, "privileges: no system call filter: built without one");
	complain_of_filter("filter system calls", r);
	malloc_trim(0); /* of building the filter */
}

void privileges_drop_to_finder(void)
{
	drop_to(FOR_OPEN | FOR_PROBE | FOR_UPROBE, FOR_PROBE);
	capabilities_set(FOR_OPEN | FOR_PROBE | (uprobe_needs_admin() ? FOR_UPROBE : 0), 0);
	/* The agent says in the log where there is none. */
	complain_of_filter("filter system calls of the finder", filter_finder());
}

int privileges_step(enum privileges_step step)
{
	static const uint64_t now[] = {
		[PRIVILEGES_READ] = FOR_MAPS,
		[PRIVILEGES_OPEN] = FOR_OPEN,
		[PRIVILEGES_PROBE] = FOR_PROBE | FOR_UPROBE,
		[PRIVILEGES_NONE] = 0,
	};
	uint64_t later = step == PRIVILEGES_OPEN ? now[PRIVILEGES_PROBE] : 0;

	return capabilities_set(now[step] | later, now[step]);
}

void privileges_drop_all(void)
{
	drop_to(0, 0);
	complain_of_filter("filter system calls of the sampler", filter_sampler());
}
