/* SPDX-License-Identifier: BSD-2-Clause */
/* See send_fd.h. */
#include "agent/serve/send_fd.h"

#include <errno.h>
#include <string.h>

int send_fd(int sock, const struct sockaddr_un *to, socklen_t to_bytes, const void *packet,
	    size_t bytes, int fd)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec iov = { .iov_base = (void *)packet, .iov_len = bytes };
	struct msghdr msg = { .msg_name = (void *)to,
			      .msg_namelen = to ? to_bytes : 0,
			      .msg_iov = &iov,
			      .msg_iovlen = 1 };

	if (fd >= 0) {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	return sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}
