/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flight recorder: the newest trace records (core/trace_format.h) in a fixed amount of memory,
 * always on. The loop puts records in, which costs a copy; a child process that shares the memory
 * writes them to a file when asked, or when the agent ends without saying so. So neither a slow
 * disk nor memory that a file write waits for ever holds up a look.
 *
 * recorder.c feeds it, recorder_names.c knows what numbers stand for, recorder_users.c limits what
 * each user may cause, recorder_dump.c asks for files, recorder_child.c writes them, and
 * recorder_files.c names and removes them.
 */
#ifndef PNMEM_AGENT_RECORDER_RECORDER_H
#define PNMEM_AGENT_RECORDER_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/trace.h"

struct agent;
struct agent_view;
struct pn_event;
struct recorder;

#define RECORDER_PATH_BYTES 256

/*
 * Makes the memory (PN_RECORDER_BYTES, 8 MiB; 0: none, the recorder is off) and the child, and
 * takes SIGUSR1. To be called before the agent has many descriptors, locks its memory or gives up
 * privileges. What fails is logged and leaves the recorder off: the agent goes on. agent->recorder
 * is set, NULL if it is off; every function below may be called then too, and does nothing.
 */
void recorder_open(struct agent *agent);
void recorder_close(struct agent *agent);

/* A record of the hooks. */
void recorder_event(struct agent *agent, const struct pn_event *event);

/* A view that has just been published. */
void recorder_publish(struct agent *agent, struct agent_view *av);

/*
 * The last client of this view has left it. If its level is CRITICAL, the file that tells of that
 * is written at once. To be called again for each time that this happens.
 */
void recorder_view_left(struct agent *agent, struct agent_view *av);

/* A view that is not published any more; its last client has left it. */
void recorder_view_end(struct agent *agent, struct agent_view *av);

/* A verdict that the engine of this process reports; its view and pid are filled in. */
void recorder_verdict(struct agent *agent, struct agent_view *av, int pid, uint64_t ts_ns,
		      const struct trace_verdict *verdict);

/* That an engine lost some. */
void recorder_verdict_drops(struct agent *agent, uint64_t count);

/*
 * Has a file written, with why in it, and logs what became of it. reply_sock, if not -1, becomes
 * the recorder's: it gets the PROTO_TRACE_DUMPED of request id when the file is done. Returns 0, or
 * -errno and reply_sock stays the caller's: -EBUSY (one is being written), -EOPNOTSUPP (off),
 * -EPIPE (the child is gone).
 */
int recorder_dump(struct agent *agent, const char *why, int reply_sock, uint32_t id);

/* May a stream begin? 0; -EBUSY (there is one), -EOPNOTSUPP (the recorder is off). */
int recorder_stream_may(struct agent *agent);

/*
 * From here on, every record but those of hooks also goes to this socket, one a packet, until it is
 * shut at its other end; first of all the settings and what is so now. What there was no room for
 * is told by a TRACE_DROPS: as soon as there is, and where its other end is shut for sending only,
 * before it is closed here. Only if one may begin. The socket becomes the recorder's.
 */
void recorder_stream_to(struct agent *agent, int sock);

#endif
