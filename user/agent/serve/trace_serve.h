/* SPDX-License-Identifier: BSD-2-Clause */
/* The requests of clients that are about traces. */
#ifndef PNMEM_AGENT_SERVE_TRACE_SERVE_H
#define PNMEM_AGENT_SERVE_TRACE_SERVE_H

#include "agent/serve/peers.h"
#include "core/proto.h"

struct agent;
struct agent_view;

/*
 * PROTO_TRACE_DUMP, of the client on sock: its reply comes when the file is written. Returns 0, or
 * -errno for the caller to reply with: -EPERM (the client's uid is not 0), or as recorder_dump.
 */
int trace_serve_dump(struct agent *agent, int sock, const struct proto_header *request);

/* PROTO_TRACE_RECORD, in the same way; its reply has been sent when this returns 0. */
int trace_serve_record(struct agent *agent, int sock, const struct proto_header *request);

/*
 * PROTO_VERDICT of the process pid with this view, NULL before its hello. Verdicts beyond its
 * user's budget count as dropped, and so do those that the client says it has lost, as far as the
 * user's budget for that goes. There is no reply. Returns 0, or -EPROTO: the client is to be
 * dropped.
 */
int trace_serve_verdicts(struct agent *agent, struct agent_view *view, int pid, struct peer *peer,
			 const struct proto_verdicts *request);

#endif
