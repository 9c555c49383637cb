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
#include <unistd.h>

#include "agent/agent.h"
#include "agent/folder.h"
#include "agent/log.h"
#include "agent/recorder/recorder_memory.h"
#include "agent/serve/closer.h"
#include "agent/views/views.h"
#include "core/proto.h"
#include "core/u64.h"
#include "host/clock.h"

#define DIR_DEFAULT "/var/lib/pnmem"

static void episodes_go_on(struct recorder *recorder, uint64_t now_ns);

/* ---- asking, and the answer ------------------------------------------------------------------ */

static void reply(struct recorder *recorder, const char *path, int status)
{
	struct proto_trace_dumped message = {
		.header =
			proto_header_make(PROTO_TRACE_DUMPED, sizeof(message), recorder->reply_id),
	};

	if (recorder->reply_sock < 0)
		return;
	message.header.status = status;
	snprintf(message.path, sizeof(message.path), "%s", path);
	send(recorder->reply_sock, &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL);
	closer_drop_duplicate(recorder->agent, recorder->reply_sock);
	recorder->reply_sock = -1;
}

static void child_gone(struct recorder *recorder)
{
	log_line(LOG_WARNING, "the flight recorder's writer has ended: no more files");
	if (recorder->busy)
		reply(recorder, "", -EPIPE);
	recorder->busy = false;
	recorder->writing = NULL;
	recorder->child_io = sd_event_source_disable_unref(recorder->child_io);
	close(recorder->child_sock);
	recorder->child_sock = -1;
	waitpid(recorder->child_pid, NULL, WNOHANG);
}

/*
 * A file that cannot be written is told once, until one can be written or the reason changes. Any
 * user can have files of its own episodes written.
 */
static void tell_written(struct recorder *recorder, const char *path,
			 const struct recorder_answer *answer)
{
	bool of_a_user = recorder->writing && recorder->writing != &recorder->host;
	char text[RECORDER_PATH_BYTES + RECORDER_FILE_BYTES + sizeof(recorder->why) + 96];

	snprintf(text, sizeof(text), "trace written: %s (%s), %llu records, %llu KiB", path,
		 recorder->why, (unsigned long long)answer->record_count,
		 (unsigned long long)answer->file_bytes >> 10);
	if (answer->status && answer->status != recorder->failed_status)
		log_line(LOG_WARNING, "cannot write the trace (%s) in %s: %s", recorder->why,
			 recorder->dir, strerror(-answer->status));
	else if (!answer->status && of_a_user)
		log_limited(LOG_KIND_TRACES, LOG_NOTICE, "%s", text);
	else if (!answer->status)
		log_line(LOG_NOTICE, "%s", text);
	recorder->failed_status = answer->status;
}

static int on_answer(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct recorder *recorder = ((struct agent *)userdata)->recorder;
	struct recorder_answer answer;
	char path[RECORDER_PATH_BYTES + RECORDER_FILE_BYTES];
	ssize_t n = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n != sizeof(answer)) {
		child_gone(recorder);
		return 0;
	}
	/* A writer that was killed may have answered this one before. */
	if (!recorder->busy || answer.number != recorder->request_number)
		return 0;
	recorder->busy = false;
	answer.name[sizeof(answer.name) - 1] = 0;
	snprintf(path, sizeof(path), "%s/%s", recorder->dir, answer.name);
	tell_written(recorder, path, &answer);
	if (recorder->writing && !answer.status)
		memcpy(recorder->writing->file, answer.name, sizeof(answer.name));
	recorder->writing = NULL;
	reply(recorder, path, answer.status);
	episodes_go_on(recorder, clock_now_ns());
	return 0;
}

/* user: whose episode it is of, NULL: of none; name: the file to replace, "" for a new one. */
static int ask(struct recorder *recorder, struct recorder_user *user, const char *name,
	       const char *why)
{
	struct recorder_request request = { .number = recorder->request_number + 1 };

	if (recorder->child_sock < 0)
		return -EPIPE;
	if (recorder->busy)
		return -EBUSY;
	snprintf(request.group, sizeof(request.group), "%s",
		 user ? user->group : RECORDER_GROUP_DUMP);
	snprintf(request.name, sizeof(request.name), "%s", name);
	snprintf(request.why, sizeof(request.why), "%s", why);
	if (send(recorder->child_sock, &request, sizeof(request), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return -errno;
	memcpy(recorder->why, request.why, sizeof(recorder->why));
	recorder->request_number = request.number;
	recorder->writing = user;
	recorder->busy = true;
	return 0;
}

int recorder_dump(struct agent *agent, const char *why, int reply_sock, uint32_t id)
{
	struct recorder *recorder = agent->recorder;
	int r;

	if (!recorder)
		return -EOPNOTSUPP;
	r = ask(recorder, NULL, "", why);
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

/* ---- CRITICAL -------------------------------------------------------------------------------- */

static struct episode_ring ring_of(const struct recorder *recorder)
{
	const struct trace_ring *ring = &recorder->memory->records;

	return (struct episode_ring){ ring->bytes, ring->tail_pos, ring->head_pos };
}

static const char *why_written(const struct episode *episode)
{
	if (!episode->files)
		return "the level is CRITICAL";
	if (episode->ended)
		return "the level was CRITICAL; to the end of an engine";
	if (!episode->critical)
		return "the level was CRITICAL; with what followed";
	return episode->killed ? "the level is CRITICAL; with an OOM kill"
			       : "the level is CRITICAL; with what followed";
}

/*
 * Whose file is to be written next: the host's, else that of the user for whom nothing was written
 * for longest, so that no user can hold up the others.
 */
static struct recorder_user *find_due(struct recorder *recorder, uint64_t now_ns)
{
	struct recorder_user *found = NULL;

	if (episode_due_ns(&recorder->host.episode) <= now_ns)
		return &recorder->host;
	for (struct recorder_user *user = recorder->host.next; user; user = user->next)
		if (episode_due_ns(&user->episode) <= now_ns &&
		    (!found || user->episode.written_ns < found->episode.written_ns))
			found = user;
	return found;
}

static void write_episode(struct recorder *recorder, struct recorder_user *user, uint64_t now_ns)
{
	const char *why = why_written(&user->episode);
	struct episode_ring ring = ring_of(recorder);
	int r;

	if (episode_write(&user->episode, &ring, now_ns))
		user->file[0] = 0;
	r = ask(recorder, user, user->file, why);
	if (r)
		log_limited(LOG_KIND_TRACES, LOG_WARNING, "cannot have a trace written (%s): %s",
			    why, strerror(-r));
}

static uint64_t next_due_ns(const struct recorder *recorder)
{
	uint64_t due_ns = UINT64_MAX;

	for (const struct recorder_user *user = &recorder->host; user; user = user->next)
		due_ns = u64_min(due_ns, episode_due_ns(&user->episode));
	return due_ns;
}

/* What is due, or when it will be. While another file is written, that one's end brings us back. */
static void episodes_go_on(struct recorder *recorder, uint64_t now_ns)
{
	struct recorder_user *user;
	uint64_t due_ns;

	if (recorder->busy || recorder->child_sock < 0)
		return;
	user = find_due(recorder, now_ns);
	if (user)
		write_episode(recorder, user, now_ns);
	due_ns = next_due_ns(recorder);
	if (due_ns == UINT64_MAX)
		return;
	sd_event_source_set_time(recorder->episode_timer, due_ns / 1000 + 1);
	sd_event_source_set_enabled(recorder->episode_timer, SD_EVENT_ONESHOT);
}

static int on_episode(sd_event_source *source, uint64_t usec, void *userdata)
{
	episodes_go_on(((struct agent *)userdata)->recorder, clock_now_ns());
	return 0;
}

/*
 * While the host's level is CRITICAL, the host's file tells of everybody: a view has a story of its
 * own only if it is CRITICAL by itself. Once it is part of an episode it stays so until its level
 * has fallen. A view without clients concerns nobody.
 */
static bool belongs(const struct agent *agent, const struct agent_view *av)
{
	const struct recorder_user *host = &agent->recorder->host;

	if (av->view.state.level != PN_MEM_LEVEL_CRITICAL)
		return false;
	if (av == agent->views || av->trace.in_episode)
		return true;
	return av->n_users && !host->n_critical && !(av->view.ext.reasons & PN_REASON_HELD);
}

static void set_critical(struct recorder *recorder, struct recorder_view *seen, bool critical,
			 uint64_t now_ns)
{
	struct episode *episode = &seen->user->episode;
	struct episode_ring ring = ring_of(recorder);

	seen->in_episode = critical;
	seen->user->n_critical += critical ? 1 : -1u;
	if (critical && seen->user->n_critical > 1)
		episode_more(episode, now_ns);
	else
		episode_level(episode, seen->user->n_critical, &ring, now_ns);
}

void recorder_level(struct agent *agent, struct agent_view *av, uint64_t now_ns)
{
	bool critical = belongs(agent, av);

	if (critical == av->trace.in_episode)
		return;
	set_critical(agent->recorder, &av->trace, critical, now_ns);
	episodes_go_on(agent->recorder, now_ns);
}

void recorder_view_left(struct agent *agent, struct agent_view *av)
{
	uint64_t now_ns = clock_now_ns();

	if (!agent->recorder || !av->trace.in_episode || av == agent->views)
		return;
	set_critical(agent->recorder, &av->trace, false, now_ns);
	episode_end(&av->trace.user->episode, now_ns);
	episodes_go_on(agent->recorder, now_ns);
}

void recorder_kill(struct agent *agent)
{
	struct recorder *recorder = agent->recorder;
	uint64_t now_ns = clock_now_ns();

	for (struct recorder_user *user = &recorder->host; user; user = user->next)
		episode_kill(&user->episode, now_ns);
	episodes_go_on(recorder, now_ns);
}

/* ---- start and end --------------------------------------------------------------------------- */

/* The child keeps its end of the socket and nothing else. Only SIGKILL ends it. */
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

/*
 * The folder for files, with the symbolic links above it resolved: "" if another user could put a
 * folder of its own in its place, which the log then says. Each write looks at the folder itself
 * again; that it cannot be used is told now, and not at the first incident.
 */
static void choose_dir(struct recorder *recorder, const char *wanted)
{
	char *dir = recorder->dir;
	int fd;

	if (folder_resolve(wanted, dir, sizeof(recorder->dir))) {
		log_line(LOG_WARNING, "no flight recorder files: %s cannot be used", wanted);
		dir[0] = 0;
		return;
	}
	mkdir(dir, 0700);
	fd = recorder_files_open(dir);
	if (fd >= 0)
		close(fd);
	else if (fd == -EACCES || fd == -ENOTDIR || fd == -ELOOP)
		log_line(LOG_WARNING,
			 "no flight recorder files: %s must be a folder that belongs to root or to "
			 "the agent's user, and in which no other user may write",
			 dir);
	else
		log_line(LOG_WARNING, "no flight recorder files: cannot open %s: %s", dir,
			 strerror(-fd));
}

void recorder_dump_open(struct agent *agent)
{
	struct recorder *recorder = agent->recorder;
	const char *dir = getenv("PN_TRACE_DIR");
	sigset_t mask;
	int r;

	recorder->child_sock = recorder->reply_sock = recorder->stream_sock = -1;
	choose_dir(recorder, dir && *dir ? dir : DIR_DEFAULT);
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
		closer_drop_duplicate(agent, recorder->reply_sock);
	recorder_stream_close(recorder);
	if (recorder->child_sock < 0)
		return;
	send(recorder->child_sock, &end, sizeof(end), MSG_DONTWAIT | MSG_NOSIGNAL);
	close(recorder->child_sock);
	/* If it is writing it may take its time, and somebody else will have to wait for it. */
	waitpid(recorder->child_pid, NULL, recorder->busy ? WNOHANG : 0);
}
