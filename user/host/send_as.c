/* SPDX-License-Identifier: BSD-2-Clause */
/* See send_as.h. */
#include "host/send_as.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int send_as(int sock, int pid, const void *packet, size_t bytes)
{
	const struct ucred cred = { pid, geteuid(), getegid() };
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(struct ucred))];
	} control = { .header = { .cmsg_len = CMSG_LEN(sizeof(cred)),
				  .cmsg_level = SOL_SOCKET,
				  .cmsg_type = SCM_CREDENTIALS } };
	struct iovec iov = { .iov_base = (void *)packet, .iov_len = bytes };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	memcpy(CMSG_DATA(&control.header), &cred, sizeof(cred));
	return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

int send_as_listener(int sock)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) ? 0 : cred.pid;
}
