/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent's flight recorder: the newest records of what happened to memory on this machine, and
 * of what engines were answered. Only the administrator may ask for it (pnmem-protocol(7)). The
 * files are described in pnmem-trace(5).
 *
 * Threads: any; each call makes a connection of its own, and pn_memwatch need not run. socket_path
 * NULL is PN_SOCKET, else PN_SOCKET_DEFAULT.
 */
#ifndef PN_TRACE_H
#define PN_TRACE_H

#include <stddef.h>

#include "pn_memwatch.h" /* PN_API */

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Has the agent write the recorder to a file in its own folder, and waits for it for timeout_ms at
 * most. Its path goes to ret_path, cut off at path_bytes (256 are always enough). Returns 0, or
 * -errno: -ENOENT, -ECONNREFUSED (no agent), -EPERM (not the administrator), -EBUSY (one is being
 * written), -EOPNOTSUPP (its recorder is off), -ENOTCONN (no answer in time), -ENOSPC and others of
 * writing.
 */
PN_API int pn_trace_dump(const char *socket_path, int timeout_ms, char *ret_path,
			 size_t path_bytes);

/*
 * The agent's own records as it makes them (snapshots, dies, verdicts, names; not those of its
 * kernel hooks), on a SOCK_SEQPACKET socket with one record in each packet. The first
 * records give the agent's settings and its present state. The caller closes the socket to end the
 * stream. Returns the socket, or -errno as pn_trace_dump; -EBUSY: another process has the stream.
 */
PN_API int pn_trace_stream(const char *socket_path);

#ifdef __cplusplus
}
#endif

#endif
