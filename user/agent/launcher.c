/* SPDX-License-Identifier: BSD-2-Clause */
/* The launcher. See launcher.h. */
#include "agent/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/log.h"
#include "agent/privileges.h"
#include "agent/send_fd.h"
#include "core/die_message.h"

/* Its own descriptor; above it nothing of the agent's is left. */
#define LAUNCHER_FD 3

struct request {
	char program[PATH_MAX];
	char cuda_lib[PATH_MAX]; /* "": none */
};

struct reply {
	int32_t pid; /* or -errno */
};

struct launcher {
	pid_t pid; /* 0: reaped */
	int sock;
	sd_event_source *io; /* owns sock */
	sd_event_source *exit_source;
	bool asked; /* and not answered yet */
	bool gone;
	void (*done)(void *arg, pid_t pid); /* NULL: nobody waits for the answer */
	void *arg;
};

union descriptor_space {
	struct cmsghdr header;
	char space[CMSG_SPACE(sizeof(int))];
};

/* ---- the child's side of fork ------------------------------------------------------------------
 */

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	/* Nobody is there to be told where it fails. */
	if (write(fd, text, strlen(text)) < 0) {
	}
	close(fd);
}

/* Leaves nothing open above `last`. */
static void close_above(int last)
{
	if (syscall(SYS_close_range, last + 1, ~0u, 0))
		for (long fd = sysconf(_SC_OPEN_MAX); fd > last; fd--)
			close((int)fd);
}

/* Nothing of the agent goes along: no descriptor, signal mask or OOM protection. */
static _Noreturn void run_program(const struct request *request, int sock)
{
	const char *cuda_lib = *request->cuda_lib ? request->cuda_lib : NULL;
	const char *argv[] = { request->program, cuda_lib ? "--cuda-lib" : NULL, cuda_lib, NULL };
	int null = open("/dev/null", O_RDWR);
	sigset_t none;

	setsid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	write_text("/proc/self/oom_score_adj", "0");
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	if (sock == DIE_MESSAGE_FD)
		fcntl(sock, F_SETFD, 0);
	else
		dup2(sock, DIE_MESSAGE_FD);
	close_above(DIE_MESSAGE_FD);
	execv(request->program, (char *const *)argv);
	_exit(127);
}

/* ---- the launcher ------------------------------------------------------------------------------
 */

/* One request and the descriptor that came with it; ends when the agent has. */
static int receive(struct request *ret)
{
	union descriptor_space control = { 0 };
	struct iovec iov = { .iov_base = ret, .iov_len = sizeof(*ret) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n;
	int fd;

	do
		n = recvmsg(LAUNCHER_FD, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(*ret) || !CMSG_FIRSTHDR(&msg))
		_exit(0);
	memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	return fd;
}

static _Noreturn void launcher_run(int sock)
{
	struct request request;
	struct reply reply;
	sigset_t all;
	int fd, null;

	prctl(PR_SET_NAME, "pnmemd-launch");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* It is needed when memory is short. What it has is all that it will need, and whatever it
	 * starts has neither. Where the agent may not do this itself, the log says so of that.
	 */
	write_text("/proc/self/oom_score_adj", AGENT_OOM_SCORE_ADJ);
	if (mlockall(MCL_CURRENT)) {
	}
	/* What the terminal or systemd sends to all of the agent's processes is the agent's to
	 * obey.
	 */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	dup2(sock, LAUNCHER_FD);
	fcntl(LAUNCHER_FD, F_SETFD, FD_CLOEXEC);
	close_above(LAUNCHER_FD);
	privileges_drop_all();
	/* From here on it says nothing, and keeps nobody's pipe open. */
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (fd = 0; fd < 3; fd++)
		dup2(null, fd);
	close(null);
	for (;;) {
		fd = receive(&request);
		/* A child of our parent's, so that the agent is told of its end. */
		reply.pid = (int32_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
		if (!reply.pid)
			run_program(&request, fd);
		if (reply.pid < 0)
			reply.pid = -errno;
		close(fd);
		if (send(LAUNCHER_FD, &reply, sizeof(reply), MSG_NOSIGNAL) < 0)
			_exit(0);
	}
}

/* ---- the agent's side --------------------------------------------------------------------------
 */

static void answer(struct launcher *launcher, pid_t pid)
{
	void (*done)(void *arg, pid_t pid) = launcher->done;

	launcher->asked = false;
	launcher->done = NULL;
	if (done)
		done(launcher->arg, pid);
	else if (pid > 0)
		kill(pid, SIGKILL);
}

/* There is no second one: by now the agent may not fork. */
static void lost(struct launcher *launcher)
{
	if (launcher->gone)
		return;
	launcher->gone = true;
	sd_event_source_set_enabled(launcher->io, SD_EVENT_OFF);
	log_line(LOG_ERR,
		 "die sampler: the process that starts it has ended (killed?): the one that runs "
		 "goes on, no other can be started; restart pnmemd");
	if (launcher->asked)
		answer(launcher, -EPIPE);
}

static int on_reply(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct launcher *launcher = userdata;
	struct reply reply;
	ssize_t n = recv(fd, &reply, sizeof(reply), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n != sizeof(reply) || !launcher->asked)
		lost(launcher);
	else
		answer(launcher, reply.pid);
	return 0;
}

static int on_exit_of_launcher(sd_event_source *source, const siginfo_t *info, void *userdata)
{
	struct launcher *launcher = userdata;

	launcher->pid = 0;
	lost(launcher);
	return 0;
}

static int watch(struct launcher *launcher, sd_event *event)
{
	int r = sd_event_add_io(event, &launcher->io, launcher->sock, EPOLLIN, on_reply, launcher);

	if (r < 0)
		return r;
	sd_event_source_set_io_fd_own(launcher->io, true);
	r = sd_event_add_child(event, &launcher->exit_source, launcher->pid, WEXITED,
			       on_exit_of_launcher, launcher);
	if (r < 0)
		return r;
	/* After its socket, in which there may be an answer. */
	sd_event_source_set_priority(launcher->exit_source, SD_EVENT_PRIORITY_NORMAL + 1);
	return 0;
}

int launcher_open(struct launcher **ret, sd_event *event)
{
	struct launcher *launcher = calloc(1, sizeof(*launcher));
	int pair[2], r;

	if (!launcher)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		r = -errno;
		free(launcher);
		return r;
	}
	launcher->pid = fork();
	if (!launcher->pid)
		launcher_run(pair[1]);
	r = launcher->pid < 0 ? -errno : 0;
	close(pair[1]);
	launcher->sock = pair[0];
	if (!r)
		r = watch(launcher, event);
	if (r) {
		launcher_close(launcher);
		return r;
	}
	*ret = launcher;
	return 0;
}

void launcher_close(struct launcher *launcher)
{
	if (!launcher)
		return;
	if (!launcher->io)
		close(launcher->sock);
	sd_event_source_disable_unref(launcher->io);
	sd_event_source_disable_unref(launcher->exit_source);
	if (launcher->pid > 0) {
		kill(launcher->pid, SIGKILL);
		waitpid(launcher->pid, NULL, 0);
	}
	free(launcher);
}

int launcher_start(struct launcher *launcher, const char *program, const char *cuda_lib, int sock,
		   void (*done)(void *arg, pid_t pid), void *arg)
{
	struct request request = { 0 };
	int r;

	if (launcher->gone)
		return -EPIPE;
	if (launcher->asked)
		return -EBUSY;
	if (strlen(program) >= sizeof(request.program) ||
	    (cuda_lib && strlen(cuda_lib) >= sizeof(request.cuda_lib)))
		return -ENAMETOOLONG;
	strcpy(request.program, program);
	strcpy(request.cuda_lib, cuda_lib ? cuda_lib : "");
	r = send_fd(launcher->sock, NULL, 0, &request, sizeof(request), sock);
	if (r)
		return r;
	launcher->asked = true;
	launcher->done = done;
	launcher->arg = arg;
	return 0;
}

void launcher_forget(struct launcher *launcher)
{
	launcher->done = NULL;
}

bool launcher_is_gone(const struct launcher *launcher)
{
	return launcher->gone;
}
