/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent's side of the finder, and what calls lead to. See cuda_watch.h. */
#include "agent/gpu/cuda_watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/agent.h"
#include "agent/gpu/child.h"
#include "agent/gpu/cuda_hooks.h"
#include "agent/gpu/finder.h"
#include "agent/log.h"
#include "agent/privileges.h"
#include "agent/recorder/recorder.h"
#include "agent/gpu/sampler.h"
#include "agent/serve/send_fd.h"
#include "host/clock.h"

#define S_NS 1000000000ull

/* What the finder said, for each wake-up. */
#define REPORTS_MAX 16

struct cuda_watch {
	struct agent *agent;
	struct cuda_watch_calls calls;
	struct cuda_hooks *hooks;
	sd_event_source *ring;
	struct child finder;
	bool has_begun;
	bool finder_gone;
	struct finder_report last; /* its numbers */
	pid_t sampler_pid;
	uint64_t calls_marked;
};

static void on_event(void *arg, const struct pn_event *event)
{
	struct cuda_watch *watch = arg;

	recorder_event(watch->agent, event);
	if (event->kind == PN_EVENT_CUDA_CALL)
		watch->calls.call(watch->calls.arg);
	else if (event->kind == PN_EVENT_CUDA_EXIT)
		watch->calls.exit(watch->calls.arg);
}

static int on_ring(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct cuda_watch *watch = userdata;

	cuda_hooks_consume(watch->hooks);
	return 0;
}

/* ---- the finder ------------------------------------------------------------------------------ */

static void log_report(const struct finder_report *report)
{
	if (report->about == FINDER_BAD)
		log_limited(LOG_KIND_LIBRARIES, LOG_NOTICE,
			    "a libcuda that process %d uses cannot be probed: %s", report->pid,
			    report->err == -EREMOTE   ? "it is not on a file system of this machine"
			    : report->err == -ENOEXEC ? "it has none of the memory calls"
						      : strerror(-report->err));
	else if (report->about == FINDER_SLOW)
		log_limited(LOG_KIND_LIBRARIES, LOG_WARNING,
			    "looking for libcuda in process %d took too long: it is left out for a "
			    "while",
			    report->pid);
	else if (report->about == FINDER_NO_ROOM)
		log_limited(LOG_KIND_LIBRARIES, LOG_WARNING,
			    "a libcuda that process %d uses is not probed: others have the places",
			    report->pid);
}

static void on_report(struct cuda_watch *watch, const struct finder_report *report)
{
	watch->last = *report;
	if (report->about == FINDER_USES && report->pid != watch->sampler_pid)
		cuda_hooks_know(watch->hooks, report->pid);
	else if (report->about >= FINDER_BAD && report->about <= FINDER_NO_ROOM)
		log_report(report);
}

static void lost(struct cuda_watch *watch)
{
	if (watch->finder_gone)
		return;
	watch->finder_gone = true;
	sd_event_source_set_enabled(watch->finder.io, SD_EVENT_OFF);
	if (watch->hooks)
		log_line(LOG_ERR,
			 "libcuda calls are not seen any more: the process that finds libcuda has "
			 "ended (killed?); dies are sampled every %llu s; restart pnmemd",
			 SAMPLER_SLOW_NS / S_NS);
}

static int on_finder(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct cuda_watch *watch = userdata;
	struct finder_report report;

	for (int i = 0; i < REPORTS_MAX; i++) {
		ssize_t n = recv(fd, &report, sizeof(report), MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n != sizeof(report)) {
			lost(watch);
			return 0;
		}
		on_report(watch, &report);
	}
	return 0;
}

static int on_exit_of_finder(sd_event_source *source, const siginfo_t *info, void *userdata)
{
	struct cuda_watch *watch = userdata;

	watch->finder.pid = 0;
	lost(watch);
	return 0;
}

static int ask(struct cuda_watch *watch, enum finder_kind kind, int pid, int fd)
{
	const struct finder_request request = { .kind = kind, .pid = pid };

	return send_fd(watch->finder.sock, NULL, 0, &request, sizeof(request), fd);
}

void cuda_watch_process(struct cuda_watch *watch, pid_t pid)
{
	/* Where the finder has too much to do, its next round finds the process. */
	if (watch->has_begun && !watch->finder_gone)
		ask(watch, FINDER_PROCESS, pid, -1);
}

/* ---- calls ----------------------------------------------------------------------------------- */

void cuda_watch_sampler(struct cuda_watch *watch, pid_t pid)
{
	watch->sampler_pid = pid;
	cuda_hooks_ignore(watch->hooks, pid);
}

void cuda_watch_mark(struct cuda_watch *watch)
{
	watch->calls_marked = cuda_hooks_calls(watch->hooks);
	cuda_hooks_arm(watch->hooks, false);
}

bool cuda_watch_rearm(struct cuda_watch *watch)
{
	cuda_hooks_arm(watch->hooks, true);
	/* After arming: a call in between is in the count, or gives a record, or both. */
	if (cuda_hooks_calls(watch->hooks) == watch->calls_marked)
		return true;
	cuda_hooks_arm(watch->hooks, false);
	return false;
}

bool cuda_watch_describe(const struct cuda_watch *watch, char *ret, size_t bytes)
{
	const struct finder_report *last = &watch->last;
	int n;

	if (watch->finder_gone) {
		snprintf(ret, bytes,
			 "calls are not seen: the process that finds libcuda has ended: restart "
			 "pnmemd");
		return false;
	}
	n = snprintf(ret, bytes, "%u files in use, %u probes, %llu calls seen", last->files,
		     last->probes, (unsigned long long)cuda_hooks_calls(watch->hooks));
	if (last->bad && n < (int)bytes)
		n += snprintf(ret + n, bytes - (size_t)n, "; %u files cannot be probed", last->bad);
	if ((last->stuck || last->left_out) && n < (int)bytes)
		snprintf(ret + n, bytes - (size_t)n, "; hung: %u processes left out, %u of its own",
			 last->left_out, last->stuck);
	return true;
}

/* ---- start and end --------------------------------------------------------------------------- */

int cuda_watch_open(struct cuda_watch **ret, struct agent *agent,
		    const struct cuda_watch_calls *calls)
{
	const struct child_role role = {
		.name = "pnmemd-find",
		.kept_fd = agent->procfs_fd,
		.drop = privileges_drop_to_finder,
		.run = finder_run,
	};
	struct cuda_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (!watch)
		return -ENOMEM;
	watch->agent = agent;
	watch->calls = *calls;
	r = child_open(&watch->finder, &role, agent->event, on_finder, on_exit_of_finder, watch);
	if (r) {
		free(watch);
		return r;
	}
	/* Behind everything else: what it finds is late by nature. */
	sd_event_source_set_priority(watch->finder.io, SD_EVENT_PRIORITY_IDLE + 1);
	sd_event_source_set_priority(watch->finder.exit_source, SD_EVENT_PRIORITY_IDLE + 2);
	*ret = watch;
	return 0;
}

int cuda_watch_load(struct cuda_watch *watch)
{
	int r = cuda_hooks_open(&watch->hooks, getenv("PNMEM_BTF"), on_event, watch);

	if (!r)
		r = sd_event_add_io(watch->agent->event, &watch->ring, cuda_hooks_fd(watch->hooks),
				    EPOLLIN, on_ring, watch);
	return r < 0 ? r : 0;
}

int cuda_watch_begin(struct cuda_watch *watch)
{
	int r = cuda_hooks_follow_ends(watch->hooks);

	if (!r && !watch->finder_gone)
		r = ask(watch, FINDER_BEGIN, 0, cuda_hooks_program_fd(watch->hooks));
	watch->has_begun = !r;
	return r;
}

void cuda_watch_close(struct cuda_watch *watch)
{
	if (!watch)
		return;
	sd_event_source_disable_unref(watch->ring);
	child_close(&watch->finder);
	cuda_hooks_close(watch->hooks);
	free(watch);
}
