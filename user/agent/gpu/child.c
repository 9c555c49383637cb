/* SPDX-License-Identifier: BSD-2-Clause */
/* Making the agent's children. See child.h. */
#include "agent/gpu/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Above the descriptors that the child is to have. */
#define FREE_FD 10

void child_set_oom_score(const char *score)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	/* Nobody is there to be told where it fails. */
	if (write(fd, score, strlen(score)) < 0) {
	}
	close(fd);
}

void child_close_above(int last)
{
	if (syscall(SYS_close_range, last + 1, ~0u, 0))
		for (long fd = sysconf(_SC_OPEN_MAX); fd > last; fd--)
			close((int)fd);
}

/* Gives the child the descriptors of child.h, and closes all others. */
static void take_descriptors(const struct child_role *role, int sock)
{
	int last = CHILD_FD, kept = -1;

	sock = fcntl(sock, F_DUPFD_CLOEXEC, FREE_FD);
	if (role->kept_fd >= 0)
		kept = fcntl(role->kept_fd, F_DUPFD_CLOEXEC, FREE_FD);
	dup3(sock, CHILD_FD, O_CLOEXEC);
	if (kept >= 0)
		last = dup3(kept, CHILD_KEPT_FD, O_CLOEXEC);
	child_close_above(last);
}

static _Noreturn void run(const struct child_role *role, int sock, pid_t agent_pid)
{
	sigset_t all;
	int null;

	prctl(PR_SET_NAME, role->name);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != agent_pid)
		_exit(0); /* the agent ended before that */
	/* The child is needed when memory is short. The memory that it has now is all that it
	 * needs. Where the kernel refuses this, it
	 * refuses the agent too, and the agent says so in the log.
	 */
	child_set_oom_score(AGENT_OOM_SCORE_ADJ);
	if (mlockall(MCL_CURRENT)) {
	}
	/* Signals that the terminal or systemd sends to all of the agent's processes are for the
	 * agent to obey.
	 */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	take_descriptors(role, sock);
	role->drop();
	/* From here on the child logs nothing, and keeps nobody's pipe open. */
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	close(null);
	role->run();
	_exit(0);
}

int child_open(struct child *child, const struct child_role *role, sd_event *event,
	       sd_event_io_handler_t on_io, sd_event_child_handler_t on_exit, void *userdata)
{
	pid_t agent_pid = getpid();
	int pair[2], r;

	memset(child, 0, sizeof(*child));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	child->pid = fork();
	if (!child->pid)
		run(role, pair[1], agent_pid);
	r = child->pid < 0 ? -errno : 0;
	close(pair[1]);
	child->sock = pair[0];
	if (!r)
		r = sd_event_add_io(event, &child->io, child->sock, EPOLLIN, on_io, userdata);
	if (r < 0)
		close(child->sock);
	else
		r = sd_event_source_set_io_fd_own(child->io, true);
	if (r >= 0)
		r = sd_event_add_child(event, &child->exit_source, child->pid, WEXITED, on_exit,
				       userdata);
	/* After its socket, in which its last words may be. */
	if (r >= 0)
		r = sd_event_source_set_priority(child->exit_source, SD_EVENT_PRIORITY_NORMAL + 1);
	if (r < 0)
		child_close(child);
	return r < 0 ? r : 0;
}

void child_close(struct child *child)
{
	child->io = sd_event_source_disable_unref(child->io);
	child->exit_source = sd_event_source_disable_unref(child->exit_source);
	if (child->pid > 0) {
		kill(child->pid, SIGKILL);
		waitpid(child->pid, NULL, 0);
	}
	child->pid = 0;
}
