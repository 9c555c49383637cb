/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The privileges that the agent still has, as the kernel shows them to every user in the same pid
 * namespace. pnmemd(8) says why the agent keeps them.
 */
#include "cli/doctor_privileges.h"

#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>

#include "cli/doctor.h"

struct kept {
	uint64_t effective;
	uint64_t permitted;
	unsigned no_new_privs;
	unsigned seccomp; /* 2: a filter */
};

static bool read_kept(int pid, struct kept *ret)
{
	char path[64], line[128];
	int n = 0;
	FILE *f;

	memset(ret, 0, sizeof(*ret));
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		n += sscanf(line, "CapPrm: %" SCNx64, &ret->permitted) == 1;
		n += sscanf(line, "CapEff: %" SCNx64, &ret->effective) == 1;
		n += sscanf(line, "NoNewPrivs: %u", &ret->no_new_privs) == 1;
		n += sscanf(line, "Seccomp: %u", &ret->seccomp) == 1;
	}
	if (f)
		fclose(f);
	return n >= 3; /* a kernel without seccomp shows no such line */
}

/* The names of those that an agent can keep. Others are printed as numbers. */
static void add_names(uint64_t caps, char *text, size_t bytes)
{
	static const char *const names[64] = {
		[CAP_DAC_READ_SEARCH] = "dac_read_search",
		[CAP_IPC_LOCK] = "ipc_lock",
		[CAP_SYS_PTRACE] = "sys_ptrace",
		[CAP_SYS_ADMIN] = "sys_admin",
		[CAP_SYS_RESOURCE] = "sys_resource",
		[38] = "perfmon",
		[39] = "bpf",
		[40] = "checkpoint_restore",
	};
	size_t n = strlen(text);

	for (int cap = 0; cap < 64 && n < bytes; cap++) {
		if (!(caps & 1ull << cap))
			continue;
		if (names[cap])
			n += (size_t)snprintf(text + n, bytes - n, " %s", names[cap]);
		else
			n += (size_t)snprintf(text + n, bytes - n, " %d", cap);
	}
}

void doctor_privileges(struct doctor *report, int pid)
{
	char text[256] = "";
	struct kept kept;
	bool locked_in;

	if (!read_kept(pid, &kept)) {
		doctor_finding(report, DOCTOR_OK, "rights", "",
			       "the agent is in another pid namespace: not known");
		return;
	}
	if (__builtin_popcountll(kept.effective) > 16)
		strcpy(text, " all of root's");
	else
		add_names(kept.effective, text, sizeof(text));
	if (kept.permitted & ~kept.effective && strlen(text) + 32 < sizeof(text)) {
		strcat(text, ", for each uprobe");
		add_names(kept.permitted & ~kept.effective, text, sizeof(text));
	}
	locked_in = kept.no_new_privs && kept.seccomp == 2;
	doctor_finding(report, locked_in ? DOCTOR_OK : DOCTOR_DEGRADED, "rights",
		       locked_in ? "" : "build pnmemd with libseccomp, on a kernel with seccomp",
		       "the agent keeps:%s; %s", *text ? text : " no capability",
		       locked_in ? "its system calls are filtered" : "it may make any system call");
}
