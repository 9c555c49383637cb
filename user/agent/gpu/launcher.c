/* SPDX-License-Identifier: BSD-2-Clause */
/* The launcher. See launcher.h. */
#include "agent/gpu/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/gpu/child.h"
#include "agent/log.h"
#include "agent/privileges.h"
#include "agent/serve/send_fd.h"
#include "core/die_message.h"

struct request {
	char program[PATH_MAX];
	char cuda_lib[PATH_MAX]; /* "": none */
};

struct reply {
	int32_t pid; /* or -errno */
};

struct launcher {
	struct child child;
	bool asked; /* and not answered yet */
	bool gone;
	void (*done)(void *arg, pid_t pid); /* NULL: nobody waits for the answer */
	void *arg;
};

union descriptor_space {
	struct cmsghdr header;
	char space[CMSG_SPACE(sizeof(int))];
};

/* ---- the child's side of fork ---------------------------------------------------------------- */

/* Nothing of the agent goes along: no descriptor, signal mask or OOM protection. */
static _Noreturn void run_program(const struct request *request, int sock)
{
	const char *cuda_lib = *request->cuda_lib ? request->cuda_lib : NULL;
	const char *argv[] = { request->program, cuda_lib ? "--cuda-lib" : NULL, cuda_lib, NULL };
	int null = open("/dev/null", O_RDWR);
	sigset_t none;

	setsid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	child_set_oom_score("0");
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	if (sock == DIE_MESSAGE_FD)
		fcntl(sock, F_SETFD, 0);
	else
		dup2(sock, DIE_MESSAGE_FD);
	child_close_above(DIE_MESSAGE_FD);
	execv(request->program, (char *const *)argv);
	_exit(127);
}

/* ---- the launcher ---------------------------------------------------------------------------- */

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
		n = recvmsg(CHILD_FD, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(*ret) || !CMSG_FIRSTHDR(&msg))
		_exit(0);
	memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	return fd;
}

static void launcher_run(void)
{
	struct request request;
	struct reply reply;
	int fd;

	for (;;) {
		fd = receive(&request);
		/* A child of our parent's, so that the agent is told of its end. */
		reply.pid = (int32_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
		if (!reply.pid)
			run_program(&request, fd);
		if (reply.pid < 0)
			reply.pid = -errno;
		close(fd);
		if (send(CHILD_FD, &reply, sizeof(reply), MSG_NOSIGNAL) < 0)
			_exit(0);
	}
}

/* ---- the agent's side ------------------------------------------------------------------------ */

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
	sd_event_source_set_enabled(launcher->child.io, SD_EVENT_OFF);
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

	launcher->child.pid = 0;
	lost(launcher);
	return 0;
}

int launcher_open(struct launcher **ret, sd_event *event)
{
	static const struct child_role role = {
		.name = "pnmemd-launch",
		.kept_fd = -1,
		.drop = privileges_drop_all,
		.run = launcher_run,
	};
	struct launcher *launcher = calloc(1, sizeof(*launcher));
	int r;

	if (!launcher)
		return -ENOMEM;
	r = child_open(&launcher->child, &role, event, on_reply, on_exit_of_launcher, launcher);
	if (r) {
		free(launcher);
		return r;
	}
	*ret = launcher;
	return 0;
}

void launcher_close(struct launcher *launcher)
{
	if (!launcher)
		return;
	child_close(&launcher->child);
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
	r = send_fd(launcher->child.sock, NULL, 0, &request, sizeof(request), sock);
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
