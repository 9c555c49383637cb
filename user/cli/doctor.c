/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pnmem doctor: which parts of pnmem work on this machine. Each line is a finding: ok, degraded or
 * missing, its meaning, and a remedy.
 */
#include "cli/doctor.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/doctor_machine.h"
#include "cli/doctor_privileges.h"
#include "cli/format.h"
#include "cli/snapshot_json.h"
#include "pn_host_signals.h"
#include "pn_memwatch.h"

#define ASK_LOG "see pnmemd's log; restart it"

void doctor_finding(struct doctor *report, enum doctor_verdict verdict, const char *subject,
		    const char *fix, const char *format, ...)
{
	static const char *const names[] = { "ok", "degraded", "missing" };
	char detail[384];
	va_list ap;

	va_start(ap, format);
	vsnprintf(detail, sizeof(detail), format, ap);
	va_end(ap);
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

/* agent: the snapshot that it published; NULL: no agent answers. */
static void check_sources(struct doctor *report, const pn_mem_ext *agent)
{
	bool estimated = agent && agent->source_state[PN_SRC_PSI] == PN_SRC_ESTIMATED;
	pn_host_sample sample;
	int err;

	pn_host_signals_sample(&sample);
	if (sample.source_state[PN_SRC_MEMINFO] == PN_SRC_OK)
		doctor_finding(report, DOCTOR_OK, "meminfo", "",
			       "/proc/meminfo has MemTotal and MemAvailable");
	else
		doctor_finding(report, DOCTOR_MISSING, "meminfo", "mount /proc",
			       "/proc/meminfo cannot be used: there is no level at all");
	err = sample.source_err[PN_SRC_PSI];
	if (sample.source_state[PN_SRC_PSI] == PN_SRC_OK)
		doctor_finding(report, DOCTOR_OK, "psi", "", "/proc/pressure/memory");
	else
		doctor_finding(
			report, DOCTOR_DEGRADED, "psi",
			"boot with psi=1, on a kernel with CONFIG_PSI",
			"/proc/pressure/memory: %s; %s",
			sample.source_state[PN_SRC_PSI] == PN_SRC_UNSUPPORTED
				? "switched off"
				: strerror(err ? -err : ENOENT),
			estimated ? "the agent estimates `some` from its stall hook, `full` is "
				    "not known"
				  : "levels come from bytes alone");
}

/* The user of the process that serves the socket, -1 if none does. */
static long served_by(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct ucred agent = { 0 };
	socklen_t len = sizeof(agent);
	long uid = -1;
	int sock;

	if (strlen(path) >= sizeof(addr.sun_path))
		return -1;
	strcpy(addr.sun_path, path);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sock < 0)
		return -1;
	if (!connect(sock, (struct sockaddr *)&addr, sizeof(addr)) &&
	    !getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &agent, &len))
		uid = agent.uid;
	close(sock);
	return uid;
}

static void check_socket(struct doctor *report, bool attached)
{
	const char *path = getenv("PN_SOCKET");
	struct stat st;
	long uid = 0;

	if (!path || !*path)
		path = PN_SOCKET_DEFAULT;
	if (attached)
		doctor_finding(report, DOCTOR_OK, "socket", "", "%s", path);
	else if (stat(path, &st))
		doctor_finding(report, DOCTOR_DEGRADED, "socket",
			       "start pnmemd; in a container, bind-mount the host's socket",
			       "%s: %s", path, strerror(errno));
	else if (access(path, W_OK))
		doctor_finding(report, DOCTOR_DEGRADED, "socket", "make it writable to this user",
			       "%s: %s", path, strerror(errno));
	else if ((uid = served_by(path)) > 0 && (uid_t)uid != geteuid())
		doctor_finding(
			report, DOCTOR_DEGRADED, "socket",
			"set PN_AGENT_UID in the engines' environment if that user is right, "
			"as for an agent outside of a user namespace",
			"%s is served by user %ld, and engines believe root and their own "
			"user",
			path, uid);
	else
		doctor_finding(report, DOCTOR_DEGRADED, "socket", "start pnmemd anew",
			       "%s is there and nobody answers", path);
}

/* Locked pages of a process, KiB; -1: not known. */
static long locked_kib(int pid)
{
	char path[64], line[128];
	long kib = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f && kib < 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmLck: %ld", &kib) != 1)
			kib = -1;
	if (f)
		fclose(f);
	return kib;
}

static void check_agent(struct doctor *report, const pn_mem_ext *ext, const pn_agent_info *agent)
{
	bool slow = ext->mode >= PN_MODE_PSI_TRIGGER;
	long kib;

	doctor_finding(report, slow ? DOCTOR_DEGRADED : DOCTOR_OK, "agent",
		       slow ? "see the hooks below" : "", "pnmemd %s; stalls are seen by: %s",
		       agent->version, format_mode(ext->mode));
	if (strcmp(agent->version, PNMEM_VERSION))
		doctor_finding(report, DOCTOR_DEGRADED, "version", "restart pnmemd after an update",
			       "the agent is %s, this is %s: what only one knows is not used",
			       agent->version, PNMEM_VERSION);
	kib = locked_kib(agent->pid);
	if (kib > 0)
		doctor_finding(report, DOCTOR_OK, "memlock", "", "the agent has locked %ld KiB",
			       kib);
	else
		doctor_finding(
			report, DOCTOR_DEGRADED, "memlock",
			"run it as root, or with LimitMEMLOCK=infinity",
			kib ? "the agent is in another pid namespace: not known"
			    : "the agent's memory is not locked: it can stall with the rest");
	doctor_privileges(report, (int)agent->pid);
	if (ext->event_drops)
		doctor_finding(report, DOCTOR_OK, "ring", "",
			       "%ju of %ju records dropped; levels are not affected",
			       (uintmax_t)ext->event_drops, (uintmax_t)ext->events);
}

/*
 * Reported only where there are dies to sample. The sampler joins no MPS server, wherever it
 * listens.
 */
static void check_mps(struct doctor *report)
{
	const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
	char path[512];

	if (!folder || !*folder)
		folder = "/tmp/nvidia-mps";
	snprintf(path, sizeof(path), "%s/control", folder);
	if (access(path, F_OK))
		doctor_finding(report, DOCTOR_OK, "mps", "",
			       "no MPS server in %s; none is ever joined by the sampler", folder);
	else
		doctor_finding(report, DOCTOR_OK, "mps", "",
			       "an MPS server in %s: not joined, dies are sampled beside it, those "
			       "in an exclusive compute mode not at all; engines can push them",
			       folder);
}

/* The sampler, its uprobes and each die, as the agent reports them. */
static void check_dies(struct doctor *report)
{
	pn_hook_status lines[64];
	int n = pn_memwatch_dies(lines, 64);

	for (int i = 0; i < n; i++) {
		const pn_hook_status *line = &lines[i];

		doctor_finding(report, line->state == PN_HOOK_REFUSED ? DOCTOR_DEGRADED : DOCTOR_OK,
			       line->subject, "", "%s%s%s", line->hook,
			       *line->hook && *line->why ? ": " : "", line->why);
	}
	if (n > 0 && lines[0].state != PN_HOOK_UNTRIED)
		check_mps(report);
	if (n < 0)
		doctor_finding(report, DOCTOR_DEGRADED, "dies", ASK_LOG,
			       "the agent does not say: %s", strerror(-n));
}

/* A refused hook alone is no finding: another hook for the same subject may be in use. */
static void check_hooks(struct doctor *report, json_t *hooks_json)
{
	static const char *const names[] = { "in use", "refused", "not needed" };
	pn_hook_status hooks[64];
	int n = pn_memwatch_hooks(hooks, 64);

	if (n < 0) {
		doctor_finding(report, DOCTOR_DEGRADED, "hooks", ASK_LOG,
			       "nobody says which are in use: %s", strerror(-n));
		return;
	}
	for (int i = 0; i < n; i++) {
		const pn_hook_status *hook = &hooks[i];
		const char *state = (unsigned)hook->state < 3 ? names[hook->state] : "?";

		if (hooks_json) {
			json_array_append_new(hooks_json,
					      json_pack("{s:s, s:s, s:s, s:i, s:s}", "subject",
							hook->subject, "hook", hook->hook, "state",
							state, "errno", -hook->err, "why",
							hook->why));
			continue;
		}
		printf("%-9s %-9s %s: %s", "hook", hook->subject, hook->hook, state);
		if (hook->state == PN_HOOK_REFUSED)
			printf(" (%s: %s)", strerror(-hook->err), hook->why);
		putchar('\n');
	}
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
	struct doctor report = { 0 };
	json_t *hooks = NULL;
	pn_agent_info agent;
	pn_mem_ext ext;
	bool attached;
	int r;

	cli_parse(&argp, argc, argv, &common);
	r = cli_start();
	if (r)
		return r;
	if (common.json) {
		report.findings = json_array();
		hooks = json_array();
	}
	attached = !pn_memwatch_read_ext(NULL, &ext) && !pn_memwatch_agent(&agent);
	report.hooks_work = attached && ext.mode < PN_MODE_PSI_TRIGGER;
	doctor_kernel(&report);
	check_sources(&report, attached ? &ext : NULL);
	doctor_cgroup(&report);
	doctor_swap(&report);
	check_socket(&report, attached);
	if (attached) {
		check_agent(&report, &ext, &agent);
		check_dies(&report);
	} else {
		doctor_finding(&report, DOCTOR_DEGRADED, "agent", "start pnmemd as root",
			       "no agent answers: engines poll every %d ms in their own process",
			       PN_MEMWATCH_POLL_MS);
	}
	check_hooks(&report, hooks);
	pn_memwatch_stop();
	if (common.json)
		json_print(json_pack("{s:o, s:o}", "findings", report.findings, "hooks", hooks),
			   true);
	return (int)report.worst;
}
