/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Upgrade in place: a new agent takes the socket's path and the lock from the one that serves. Both
 * are there for a moment, and at no time does a connect find nobody: our socket, which listens
 * under a name of its own, changes names with the old one before the old agent is asked to end, and
 * what engines send it waits in its backlog until the lock is ours. If the old agent does not end,
 * the names are changed back and it goes on as if nothing had been.
 */
#ifndef PNMEM_AGENT_SERVE_REPLACE_H
#define PNMEM_AGENT_SERVE_REPLACE_H

/* How long the old agent may take to end. It does so within milliseconds unless it hangs. */
#define REPLACE_TIMEOUT_MS 5000

/*
 * The agent that listens at this path, as a pidfd (the caller closes it). Returns 0 or -errno, with
 * a line in the log: -ECONNREFUSED, -ENOENT (nobody listens), -ESRCH (it is not to be seen from
 * this pid namespace, or has just ended).
 */
int replace_find(const char *socket_path, int *ret_pidfd);

/*
 * Takes over: our socket listens at own_path, lock_fd is the lock file, not locked yet. Returns 0
 * with our socket at socket_path and the lock ours; or -errno, with a line in the log, and
 * everything as it was: -EPERM (another user's agent), -ETIMEDOUT, -EINVAL (a file system that
 * cannot exchange names).
 */
int replace_take(const char *socket_path, const char *own_path, int pidfd, int lock_fd);

#endif
