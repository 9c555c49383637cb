/* SPDX-License-Identifier: BSD-2-Clause */
/* Taking over from a serving agent. See replace.h. */
#include "agent/serve/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "agent/log.h"
#include "host/clock.h"

#define LOCK_TRY_NS 1000000

/*
 * A pid from SO_PEERCRED is that of who listens; it names a process for as long as that one does.
 * So the connection is looked at again when the pidfd is there: had the process ended, and its pid
 * gone to another, it would be hung up.
 */
static int open_peer(int sock, int *ret_pidfd)
{
	struct pollfd alive = { .fd = sock };
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	int pidfd;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	if (cred.pid <= 0)
		return -ESRCH;
	pidfd = pidfd_open(cred.pid, 0);
	if (pidfd < 0)
		return -errno;
	if (poll(&alive, 1, 0)) {
		close(pidfd);
		return -ESRCH;
	}
	log_line(LOG_NOTICE, "taking over from the agent with pid %d", (int)cred.pid);
	*ret_pidfd = pidfd;
	return 0;
}

int replace_find(const char *socket_path, int *ret_pidfd)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int sock, r;

	strcpy(addr.sun_path, socket_path);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sock < 0)
		return -errno;
	r = connect(sock, (const struct sockaddr *)&addr, sizeof(addr))
		    ? -errno
		    : open_peer(sock, ret_pidfd);
	close(sock);
	if (r)
		log_line(LOG_ERR, "the agent that holds %s.lock cannot be found (%s): end it first",
			 socket_path, strerror(-r));
	return r;
}

static int exchange_names(const char *a, const char *b)
{
	return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) ? -errno : 0;
}

/* The lock is free as soon as the old agent has let its engines go: some time before its end. */
static int wait_for_lock(int lock_fd)
{
	const struct timespec pause = { .tv_nsec = LOCK_TRY_NS };
	uint64_t end_ns = clock_now_ns() + REPLACE_TIMEOUT_MS * 1000000ull;

	while (flock(lock_fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK)
			return -errno;
		if (clock_now_ns() > end_ns)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	return 0;
}

int replace_take(const char *socket_path, const char *own_path, int pidfd, int lock_fd)
{
	int r = exchange_names(own_path, socket_path);

	if (r) {
		log_line(LOG_ERR, "cannot put a new socket in the place of %s: %s", socket_path,
			 strerror(-r));
		return r;
	}
	r = pidfd_send_signal(pidfd, SIGTERM, NULL, 0) && errno != ESRCH ? -errno : 0;
	if (!r)
		r = wait_for_lock(lock_fd);
	if (!r) {
		unlink(own_path); /* the old agent's socket, which by now is nobody's */
		return 0;
	}
	log_line(LOG_ERR, "the agent that serves %s does not end (%s): it keeps the socket",
		 socket_path, strerror(-r));
	exchange_names(own_path, socket_path);
	return r;
}
