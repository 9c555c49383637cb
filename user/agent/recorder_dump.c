/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When the flight recorder is written out: on SIGUSR1, on request, and for a level that is CRITICAL
 * when core/episode.h says so.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/log.h"
#include "agent/recorder_memory.h"
#include "agent/views.h"
#include "core/proto.h"
#include "host/clock.h"

#define DIR_DEFAULT "/var/lib/pnmem"

void recorder_path(char path[static RECORDER_PATH_BYTES], const char *dir)
{
	struct timespec now;
	struct tm tm;
	char text[32];

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(text, sizeof(text), "%Y%m%dT%H%M%S", &tm);
	snprintf(path, RECORDER_PATH_BYTES, "%s/pnmem-%s.%06dZ.pntrace", dir, text,
		 (int)(now.tv_nsec / 1000));
}

static void episode_go_on(struct recorder *recorder, uint64_t now_ns);

/* ---- asking, and the answer ---------------------------------------------------------------------
 */

static void reply(struct recorder *recorder, int status)
{
	struct proto_trace_dumped message = {
		.header =
			proto_header_make(PROTO_TRACE_DUMPED, sizeof(message), recorder->reply_id),
	};

	if (recorder->reply_sock < 0)
		return;
	message.header.status = status;
	snprintf(message.path, sizeof(message.path), "%s", recorder->path);
	send(recorder->reply_sock, &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL);
	close(recorder->reply_sock);
	recorder->reply_sock = -1;
}

static void child_gone(struct recorder *recorder)
{
	log_line(LOG_WARNING, "the flight recorder's writer has ended: no more files");
	if (recorder->busy)
		reply(recorder, -EPIPE);
	recorder->busy = false;
	recorder->child_io = sd_event_source_disable_unref(recorder->child_io);
	close(recorder->child_sock);
	recorder->child_sock = -1;
	waitpid(recorder->child_pid, NULL, WNOHANG);
}

static int on_answer(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct recorder *recorder = ((struct agent *)userdata)->recorder;
	struct recorder_answer answer;
	ssize_t n = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n != sizeof(answer)) {
		child_gone(recorder);
		return 0;
	}
	recorder->busy = false;
	if (answer.status)
		log_line(LOG_WARNING, "cannot write the trace %s: %s", recorder->path,
			 strerror(-answer.status));
	else
		log_line(LOG_NOTICE, "trace written: %s (%s), %llu records, %llu KiB",
			 recorder->path, recorder->why, (unsigned long long)answer.record_count,
			 (unsigned long long)answer.file_bytes >> 10);
	reply(recorder, answer.status);
	episode_go_on(recorder, clock_now_ns());
	return 0;
}

static int ask(struct recorder *recorder, const char *path, const char *why)
{
	struct recorder_request request = { 0 };

	if (recorder->child_sock < 0)
		return -EPIPE;
	if (recorder->busy)
		return -EBUSY;
	snprintf(request.path, sizeof(request.path), "%s", path);
	snprintf(request.why, sizeof(request.why), "%s", why);
	if (send(recorder->child_sock, &request, sizeof(request), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return -errno;
	memcpy(recorder->path, request.path, sizeof(recorder->path));
	memcpy(recorder->why, request.why, sizeof(recorder->why));
	recorder->busy = true;
	return 0;
}

int recorder_dump(struct agent *agent, const char *why, int reply_sock, uint32_t id)
{
	struct recorder *recorder = agent->recorder;
	char path[RECORDER_PATH_BYTES];
	int r;

	if (!recorder)
		return -EOPNOTSUPP;
	recorder_path(path, recorder->dir);
	r = ask(recorder, path, why);
	if (r)
		return r;
	recorder->reply_sock = reply_sock;
	recorder->reply_id = id;
	return 0;
}

static int on_usr1(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	int r = recorder_dump(userdata, "SIGUSR1", -1, 0);

	if (r)
		log_line(LOG_WARNING, "SIGUSR1: no trace is written: %s", strerror(-r));
	return 0;
}

/* ---- CRITICAL -----------------------------------------------------------------------------------
 */

static struct episode_ring ring_of(const struct recorder *recorder)
{
	const struct trace_ring *ring = &recorder->memory->records;

	return (struct episode_ring){ ring->bytes, ring->tail_pos, ring->head_pos };
}

static const char *why_written(const struct episode *episode)
{
	if (!episode->files)
		return "the level is CRITICAL";
	if (!episode->critical)
		return "the level was CRITICAL; with what followed";
	return episode->killed ? "the level is CRITICAL; with an OOM kill"
			       : "the level is CRITICAL; with what followed";
}

/* What is due, or when it will be. While another file is written, that one's end brings us back. */
static void episode_go_on(struct recorder *recorder, uint64_t now_ns)
{
	struct episode *episode = &recorder->episode;
	struct episode_ring ring = ring_of(recorder);

	if (recorder->busy || recorder->child_sock < 0)
		return;
	if (episode_due_ns(episode) <= now_ns) {
		const char *why = why_written(episode);
		int r;

		if (episode_write(episode, &ring, now_ns))
			recorder_path(recorder->episode_path, recorder->dir);
		r = ask(recorder, recorder->episode_path, why);
		if (r)
			log_line(LOG_WARNING, "cannot have a trace written (%s): %s", why,
				 strerror(-r));
	}
	if (episode_due_ns(episode) == UINT64_MAX)
		return;
	sd_event_source_set_time(recorder->episode_timer, episode_due_ns(episode) / 1000 + 1);
	sd_event_source_set_enabled(recorder->episode_timer, SD_EVENT_ONESHOT);
}

static int on_episode(sd_event_source *source, uint64_t usec, void *userdata)
{
	episode_go_on(((struct agent *)userdata)->recorder, clock_now_ns());
	return 0;
}

static bool any_critical(const struct agent *agent)
{
	for (const struct agent_view *av = agent->views; av; av = av->next)
		if (av->trace.level == PN_MEM_LEVEL_CRITICAL)
			return true;
	return false;
}

void recorder_level(struct agent *agent, uint64_t now_ns)
{
	struct recorder *recorder = agent->recorder;
	struct episode_ring ring = ring_of(recorder);

	episode_level(&recorder->episode, any_critical(agent), &ring, now_ns);
	episode_go_on(recorder, now_ns);
}

void recorder_kill(struct agent *agent)
{
	struct recorder *recorder = agent->recorder;
	uint64_t now_ns = clock_now_ns();

	episode_kill(&recorder->episode, now_ns);
	episode_go_on(recorder, now_ns);
}

/* ---- start and end ------------------------------------------------------------------------------
 */

/* The child keeps its end of the socket and nothing else, and no signal but SIGKILL ends it. */
static void child_main(const struct recorder *recorder, int sock)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	for (int fd = 0; null >= 0 && fd < 3; fd++)
		dup2(null, fd);
	dup2(sock, 3);
	close_range(4, ~0u, 0);
	recorder_child_run(recorder->memory, 3, recorder->dir);
	_exit(0);
}

static int child_start(struct agent *agent)
{
	struct recorder *recorder = agent->recorder;
	int socks[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks))
		return -errno;
	recorder->child_pid = fork();
	if (recorder->child_pid < 0) {
		r = -errno;
		close(socks[0]);
		close(socks[1]);
		return r;
	}
	if (!recorder->child_pid)
		child_main(recorder, socks[1]);
	close(socks[1]);
	recorder->child_sock = socks[0];
	r = sd_event_add_io(agent->event, &recorder->child_io, recorder->child_sock, EPOLLIN,
			    on_answer, agent);
	if (r < 0)
		return r;
	return sd_event_source_set_priority(recorder->child_io, SD_EVENT_PRIORITY_IDLE);
}

void recorder_dump_open(struct agent *agent)
{
	struct recorder *recorder = agent->recorder;
	const char *dir = getenv("PN_TRACE_DIR");
	sigset_t mask;
	int r;

	recorder->child_sock = recorder->reply_sock = recorder->stream_sock = -1;
	snprintf(recorder->dir, sizeof(recorder->dir), "%s", dir && *dir ? dir : DIR_DEFAULT);
	mkdir(recorder->dir, 0700); /* where it fails, writing there says why */
	r = child_start(agent);
	if (r < 0)
		log_line(LOG_WARNING, "no flight recorder files: %s", strerror(-r));
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	r = sd_event_add_signal(agent->event, NULL, SIGUSR1, on_usr1, agent);
	if (r >= 0)
		r = sd_event_add_time(agent->event, &recorder->episode_timer, CLOCK_MONOTONIC, 0, 0,
				      on_episode, agent);
	if (r >= 0)
		r = sd_event_source_set_enabled(recorder->episode_timer, SD_EVENT_OFF);
	if (r < 0)
		log_line(LOG_WARNING, "the flight recorder cannot be asked for: %s", strerror(-r));
}

void recorder_dump_close(struct agent *agent)
{
	struct recorder *recorder = agent->recorder;
	static const struct recorder_request end = { 0 };

	sd_event_source_disable_unref(recorder->episode_timer);
	sd_event_source_disable_unref(recorder->child_io);
	if (recorder->reply_sock >= 0)
		close(recorder->reply_sock);
	recorder_stream_close(recorder);
	if (recorder->child_sock < 0)
		return;
	send(recorder->child_sock, &end, sizeof(end), MSG_DONTWAIT | MSG_NOSIGNAL);
	close(recorder->child_sock);
	/* If it is writing it may take its time, and somebody else will have to wait for it. */
	waitpid(recorder->child_pid, NULL, recorder->busy ? WNOHANG : 0);
}
