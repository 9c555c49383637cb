/* SPDX-License-Identifier: BSD-2-Clause */
/* Running the built pnmem-dies. See dies_proc.h. */
#include "support/dies_proc.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/agent_proc.h"

#define LIMIT_MS 20000

int dies_proc_start(struct dies_proc *dies, const char *library)
{
	const char *argv[] = { "build/pnmem-dies", library ? "--cuda-lib" : NULL, library, NULL };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	dies->pid = fork();
	if (!dies->pid) {
		/* dup2() onto itself would keep it close-on-exec. */
		int fd = dup(pair[1]);

		dup2(fd, DIE_MESSAGE_FD);
		if (fd != DIE_MESSAGE_FD)
			close(fd);
		execv(argv[0], (char *const *)argv);
		_exit(127);
	}
	close(pair[1]);
	dies->sock = pair[0];
	return dies->pid < 0 ? -errno : 0;
}

int dies_proc_ask(struct dies_proc *dies, uint64_t pass)
{
	struct die_request request = { .header = die_header_make(DIE_SAMPLE_NOW, pass) };

	return send(dies->sock, &request, sizeof(request), MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int dies_proc_receive(struct dies_proc *dies, struct die_message *ret)
{
	struct pollfd pollfd = { .fd = dies->sock, .events = POLLIN };
	char packet[2 * sizeof(*ret)];
	ssize_t n;

	if (poll(&pollfd, 1, LIMIT_MS) != 1)
		return -ETIMEDOUT;
	n = recv(dies->sock, packet, sizeof(packet), MSG_DONTWAIT);
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	return n ? die_message_check(packet, (size_t)n, ret) : -EPIPE;
}

void dies_proc_close(struct dies_proc *dies)
{
	if (dies->sock >= 0)
		close(dies->sock);
	dies->sock = -1;
}

static bool has_ended(void *arg)
{
	const struct dies_proc *dies = arg;
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)dies->pid, &info, WEXITED | WNOHANG | WNOWAIT) ||
	       info.si_pid == dies->pid;
}

int dies_proc_wait(struct dies_proc *dies)
{
	int status;

	if (!test_until(has_ended, dies, LIMIT_MS))
		return -ETIMEDOUT;
	waitpid(dies->pid, &status, 0);
	dies->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void dies_proc_destroy(struct dies_proc *dies)
{
	if (dies->pid > 0) {
		kill(dies->pid, SIGKILL);
		waitpid(dies->pid, NULL, 0);
		dies->pid = 0;
	}
	dies_proc_close(dies);
}
