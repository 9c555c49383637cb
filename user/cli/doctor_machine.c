/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The machine: the kernel and its support for hooks, the cgroup layout, swap. If the agent's hooks
 * work, it is no fault that the kernel lacks something that better hooks need.
 */
#include "cli/doctor_machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "cli/format.h"
#include "pn_host_signals.h"

/* The first line of a file without its newline; false if it cannot be read. */
static bool first_line(const char *path, char *buf, size_t buf_bytes)
{
	FILE *f = fopen(path, "re");
	bool got = f && fgets(buf, (int)buf_bytes, f);

	if (f)
		fclose(f);
	if (got)
		buf[strcspn(buf, "\n")] = 0;
	return got;
}

static enum doctor_verdict unless_hooks_work(const struct doctor *report)
{
	return report->hooks_work ? DOCTOR_OK : DOCTOR_DEGRADED;
}

static void check_lockdown(struct doctor *report)
{
	char line[128], *mode;

	if (!first_line("/sys/kernel/security/lockdown", line, sizeof(line))) {
		doctor_finding(report, DOCTOR_OK, "lockdown", "",
			       "not known: no /sys/kernel/security/lockdown (mount securityfs)");
		return;
	}
	mode = strchr(line, '[');
	mode = mode ? strtok(mode + 1, "]") : NULL;
	if (!mode || !strcmp(mode, "none"))
		doctor_finding(report, DOCTOR_OK, "lockdown", "", "none");
	else if (!strcmp(mode, "integrity"))
		doctor_finding(report, unless_hooks_work(report), "lockdown",
			       "the agent takes tracepoints by itself",
			       "integrity: fentry hooks may be refused");
	else
		doctor_finding(
			report, unless_hooks_work(report), "lockdown",
			"boot without lockdown= to have hooks",
			"%s: BPF may not read kernel memory, so that hooks may be refused and "
			"a PSI trigger or poll serves",
			mode);
}

/* An unprivileged user reads every address as 0. It is enough that the function is listed. */
static bool kallsyms_has(const char *name)
{
	char line[256], symbol[128];
	bool found = false;
	FILE *f = fopen("/proc/kallsyms", "re");

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%*s %*s %127s", symbol) == 1 && !strcmp(symbol, name);
	if (f)
		fclose(f);
	return found;
}

void doctor_kernel(struct doctor *report)
{
	struct utsname name;

	uname(&name);
	doctor_finding(report, DOCTOR_OK, "kernel", "", "%s %s %s", name.sysname, name.release,
		       name.machine);
	check_lockdown(report);
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		doctor_finding(
			report, unless_hooks_work(report), "btf",
			"a kernel with CONFIG_DEBUG_INFO_BTF, or PNMEM_BTF=FILE for the agent",
			"no /sys/kernel/btf/vmlinux: BPF hooks that need it are not used");
	else
		doctor_finding(report, DOCTOR_OK, "btf", "", "/sys/kernel/btf/vmlinux");
	if (kallsyms_has("psi_memstall_enter"))
		doctor_finding(report, DOCTOR_OK, "kallsyms", "", "has psi_memstall_enter");
	else
		doctor_finding(report, unless_hooks_work(report), "kallsyms",
			       "a kernel with CONFIG_KALLSYMS and CONFIG_PSI",
			       "no psi_memstall_enter: neither fentry nor kprobe can sit on it");
	if (access("/sys/bus/event_source/devices/kprobe", F_OK))
		doctor_finding(report, unless_hooks_work(report), "kprobes",
			       "a kernel with CONFIG_KPROBES",
			       "none: where fentry is refused, tracepoints are next");
	else
		doctor_finding(report, DOCTOR_OK, "kprobes", "", "available");
}

void doctor_cgroup(struct doctor *report)
{
	char line[256], bytes[FORMAT_BYTES];
	pn_host_sample sample;

	if (first_line("/sys/fs/cgroup/cgroup.controllers", line, sizeof(line)))
		doctor_finding(report, strstr(line, "memory") ? DOCTOR_OK : DOCTOR_DEGRADED,
			       "layout",
			       strstr(line, "memory") ? "" : "boot with cgroup_enable=memory",
			       strstr(line, "memory") ? "unified: cgroup v2 with memory"
						      : "cgroup v2 without the memory controller: "
							"no limit is seen");
	else if (!access("/sys/fs/cgroup/memory", F_OK))
		doctor_finding(report, DOCTOR_OK, "layout", "",
			       "%s: memory.high and a group's own PSI are v2's alone",
			       access("/sys/fs/cgroup/unified", F_OK)
				       ? "cgroup v1"
				       : "hybrid, memory on cgroup v1");
	else
		doctor_finding(report, DOCTOR_DEGRADED, "layout", "mount cgroup2 on /sys/fs/cgroup",
			       "no memory cgroups: a container's limit is not seen");
	pn_host_signals_sample(&sample);
	if (sample.source_state[PN_SRC_CGROUP] == PN_SRC_OK)
		doctor_finding(report, DOCTOR_OK, "cgroup", "",
			       "this process's group: current %s, %s",
			       format_bytes(bytes, sample.cgroup_current_bytes),
			       sample.cgroup_limit_bytes ? "limited" : "no limit on it or above");
	else
		doctor_finding(report, DOCTOR_OK, "cgroup", "",
			       "this process is in no memory cgroup of its own");
}

void doctor_swap(struct doctor *report)
{
	char line[256], name[128];
	int n = 0, n_zram = 0;
	FILE *f = fopen("/proc/swaps", "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (line[0] != '/' || sscanf(line, "%127s", name) != 1)
			continue;
		n++;
		n_zram += strstr(name, "/zram") != NULL;
	}
	if (f)
		fclose(f);
	if (!n)
		doctor_finding(report, DOCTOR_OK, "swap", "",
			       "none: short memory stalls late and kills soon");
	else if (n_zram == n)
		doctor_finding(report, DOCTOR_OK, "swap", "",
			       "zram: swapped pages stay in memory, compressed, and count as used");
	else
		doctor_finding(report, DOCTOR_OK, "swap", "", "%d areas, %d of them zram", n,
			       n_zram);
}
