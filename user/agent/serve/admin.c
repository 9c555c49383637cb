/* SPDX-License-Identifier: BSD-2-Clause */
/* See admin.h. */
#include "agent/serve/admin.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/serve/peer_process.h"
#include "host/send_as.h"

bool admin_is_proven_by(int sender)
{
	return sender == getpid();
}

bool admin_may_be_own_user(void)
{
	int pair[2];
	bool may;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return false;
	/* No process has this number. The kernel looks at the capability before it looks for it. */
	may = send_as(pair[0], INT_MAX, "", 1) == -EPERM;
	close(pair[0]);
	close(pair[1]);
	return may;
}

/* The kernel checks whether the agent may inspect the process. */
static bool is_same_namespace(int pid, const char *name)
{
	char path[64];
	struct stat own, other;

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, name);
	if (stat(path, &other))
		return false;
	snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	return !stat(path, &own) && own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

bool admin_is_own_user(int pidfd, int pid, uid_t uid)
{
	/* The number may be another process's once this one has ended. So its end is looked for
	 * afterwards. */
	return uid == geteuid() && pid > 0 && is_same_namespace(pid, "user") &&
	       is_same_namespace(pid, "pid") && pidfd >= 0 && !peer_process_ended(pidfd);
}
