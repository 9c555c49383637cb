/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pnmem doctor: what of pnmem works on this machine. One finding a line: ok, degraded or missing,
 * what that means, and what to do about it.
 */
#include <errno.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/cli.h"
#include "pn_host_signals.h"

enum verdict { FINE, DEGRADED, MISSING };

/* Either printed at once or gathered for --json. */
struct report {
	json_t *findings; /* NULL: print */
	enum verdict worst;
};

static void finding(struct report *report, enum verdict verdict, const char *subject,
		    const char *detail, const char *fix)
{
	static const char *const names[] = { "ok", "degraded", "missing" };

	if (verdict > report->worst)
		report->worst = verdict;
	if (report->findings) {
		json_array_append_new(report->findings,
				      json_pack("{s:s, s:s, s:s, s:s}", "verdict", names[verdict],
						"subject", subject, "detail", detail, "fix", fix));
		return;
	}
	printf("%-9s %-9s %s\n", names[verdict], subject, detail);
	if (*fix)
		printf("%-19s fix: %s\n", "", fix);
}

static void check_kernel(struct report *report)
{
	struct utsname name;
	char detail[256];

	uname(&name);
	snprintf(detail, sizeof(detail), "%s %s %s", name.sysname, name.release, name.machine);
	finding(report, FINE, "kernel", detail, "");
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		finding(report, DEGRADED, "btf",
			"/sys/kernel/btf/vmlinux is not there: BPF hooks that need it are not used",
			"a kernel with CONFIG_DEBUG_INFO_BTF, or PNMEM_BTF=FILE for the agent");
	else
		finding(report, FINE, "btf", "/sys/kernel/btf/vmlinux", "");
}

static void check_sources(struct report *report)
{
	pn_host_sample sample;
	char detail[192], bytes[FORMAT_BYTES];

	pn_host_signals_sample(&sample);
	if (sample.source_state[PN_SRC_MEMINFO] == PN_SRC_OK)
		finding(report, FINE, "meminfo", "/proc/meminfo has MemTotal and MemAvailable", "");
	else
		finding(report, MISSING, "meminfo",
			"/proc/meminfo cannot be used: no level from bytes", "mount /proc");
	if (sample.source_state[PN_SRC_PSI] == PN_SRC_OK) {
		finding(report, FINE, "psi", "/proc/pressure/memory", "");
	} else {
		snprintf(detail, sizeof(detail),
			 "/proc/pressure/memory: %s; levels come from bytes alone",
			 sample.source_state[PN_SRC_PSI] == PN_SRC_UNSUPPORTED
				 ? "switched off"
				 : strerror(sample.source_err[PN_SRC_PSI]
						    ? -sample.source_err[PN_SRC_PSI]
						    : ENOENT));
		finding(report, DEGRADED, "psi", detail,
			"boot with psi=1, on a kernel with CONFIG_PSI");
	}
	if (sample.source_state[PN_SRC_CGROUP] == PN_SRC_OK) {
		snprintf(detail, sizeof(detail), "this process's group: current %s, %s",
			 format_bytes(bytes, sample.cgroup_current_bytes),
			 sample.cgroup_limit_bytes ? "limited" : "no limit on it or above");
		finding(report, FINE, "cgroup", detail, "");
	} else {
		finding(report, FINE, "cgroup", "this process is in no memory cgroup of its own", "");
	}
}

static void check_agent(struct report *report, const pn_mem_ext *ext)
{
	char detail[192];

	if (pn_memwatch_source() != PN_SOURCE_AGENT) {
		snprintf(detail, sizeof(detail),
			 "no agent answers: engines poll every %d ms in their own process",
			 PN_MEMWATCH_POLL_MS);
		finding(report, DEGRADED, "agent", detail, "start pnmemd as root");
		return;
	}
	snprintf(detail, sizeof(detail), "attached; stalls are seen by: %s",
		 format_mode(ext->mode));
	finding(report, ext->mode >= PN_MODE_PSI_TRIGGER ? DEGRADED : FINE, "agent", detail,
		ext->mode >= PN_MODE_PSI_TRIGGER ? "see the hooks below" : "");
	if (ext->event_drops) {
		snprintf(detail, sizeof(detail),
			 "%llu of %llu records dropped; levels are not affected",
			 (unsigned long long)ext->event_drops, (unsigned long long)ext->events);
		finding(report, DEGRADED, "ring", detail, "");
	}
}

/* A refused hook is a finding only in what it means: another one of its subject may be in use. */
static void check_hooks(struct report *report, json_t *hooks_json)
{
	static const char *const names[] = { "in use", "refused", "not needed" };
	pn_hook_status hooks[64];
	int n = pn_memwatch_hooks(hooks, 64);

	if (n < 0) {
		finding(report, DEGRADED, "hooks", strerror(-n), "");
		return;
	}
	for (int i = 0; i < n; i++) {
		const pn_hook_status *hook = &hooks[i];
		const char *state = (unsigned)hook->state < 3 ? names[hook->state] : "?";

		if (hooks_json) {
			json_array_append_new(
				hooks_json,
				json_pack("{s:s, s:s, s:s, s:i, s:s}", "subject", hook->subject,
					  "hook", hook->hook, "state", state, "errno", -hook->err,
					  "why", hook->why));
			continue;
		}
		printf("%-9s %-9s %s: %s", "hook", hook->subject, hook->hook, state);
		if (hook->state == PN_HOOK_REFUSED)
			printf(" (%s: %s)", strerror(-hook->err), hook->why);
		putchar('\n');
	}
}

static void check_dies(struct report *report)
{
	pn_hook_status lines[64];
	char detail[sizeof(lines->hook) + sizeof(lines->why) + 4];
	int n = pn_memwatch_dies(lines, 64);

	for (int i = 0; i < n; i++) {
		const pn_hook_status *line = &lines[i];

		snprintf(detail, sizeof(detail), "%s%s%s", line->hook,
			 *line->hook && *line->why ? ": " : "", line->why);
		finding(report, line->state == PN_HOOK_REFUSED ? DEGRADED : FINE, line->subject,
			detail, "");
	}
	if (n < 0)
		finding(report, DEGRADED, "dies", strerror(-n), "");
}

int cmd_doctor(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, 0, 0 }, { 0 } };
	static const struct argp argp = {
		.children = children,
		.doc = "Tells what works here, what does not, why, and what to do."
		       "\vExit status: 0 all well, 1 degraded, 2 cannot work.",
	};
	struct cli_common common = { 0 };
	struct report report = { 0 };
	json_t *hooks = NULL;
	pn_mem_ext ext;
	int r;

	cli_parse(&argp, argc, argv, &common);
	r = cli_start();
	if (r)
		return r;
	if (common.json) {
		report.findings = json_array();
		hooks = json_array();
	}
	r = pn_memwatch_read_ext(NULL, &ext);
	check_kernel(&report);
	check_sources(&report);
	if (!r)
		check_agent(&report, &ext);
	check_dies(&report);
	check_hooks(&report, hooks);
	pn_memwatch_stop();
	if (common.json)
		json_print(json_pack("{s:o, s:o}", "findings", report.findings, "hooks", hooks),
			   true);
	return (int)report.worst;
}
