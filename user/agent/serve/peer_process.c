/* SPDX-License-Identifier: BSD-2-Clause */
/* See peer_process.h. */
#include "agent/serve/peer_process.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

bool peer_process_ended(int pidfd)
{
	struct pollfd end = { .fd = pidfd, .events = POLLIN };

	return pidfd < 0 ? pidfd == -ESRCH : poll(&end, 1, 0) == 1;
}

int peer_process_open(int sock, int pid)
{
	socklen_t len = sizeof(int);
	int pidfd;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len)) {
		/* What the kernel says of one that is no more: ESRCH, and EINVAL before 6.8. */
		if (errno == ESRCH || errno == EINVAL || pid <= 0)
			return errno == EINVAL ? -ESRCH : -errno;
		pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
		if (pidfd < 0)
			return -errno;
	}
	if (!peer_process_ended(pidfd))
		return pidfd;
	close(pidfd);
	return -ESRCH;
}
