/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who is the administrator. User 0 is not enough: root in a container has that number too, without
 * the power that goes with it outside. So the kernel is asked.
 */
#ifndef PNMEM_AGENT_SERVE_ADMIN_H
#define PNMEM_AGENT_SERVE_ADMIN_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * A message may say that another process sent it (SCM_CREDENTIALS with that process's number). The
 * kernel lets a process do so only if it has CAP_SYS_ADMIN in the user namespace that owns its pid
 * namespace. A client that names the agent's process therefore has that capability over a pid
 * namespace that the agent is in: it is the administrator. sender is as of peer_socket_receive.
 */
bool admin_is_proven_by(int sender);

/*
 * Whether the agent itself was started without that capability, as the agent of an ordinary user
 * is. Then admin_is_own_user holds too. To be called before the agent drops its privileges.
 */
bool admin_may_be_own_user(void);

/*
 * True for a process of the agent's own user, in the agent's own user and pid namespaces. The
 * kernel shows the agent the namespaces of a process only if the process has no capability that the
 * agent lacks; for others this is false. pidfd and pid are as of peer_process_open.
 */
bool admin_is_own_user(int pidfd, int pid, uid_t uid);

#endif
