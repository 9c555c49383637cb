/* SPDX-License-Identifier: BSD-2-Clause */
/* Trace requests. See trace_serve.h. */
#include "agent/serve/trace_serve.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/recorder/recorder.h"
#include "host/clock.h"

#define VERDICT_AGE_MAX_NS 10000000000ull
/* A stream of records may have more unread than a client: what the kernel gives by itself, which it
 * takes times two. */
#define STREAM_ROOM_BYTES 106496
/* Of one user: some 100 kB a second, so that the recorder's 8 MiB still tell of minutes. */
static const struct budget_limit verdict_limit = { .burst = 4096, .per_s = 1000 };
/*
 * What a client says that it has lost cannot be checked. A user's clients can add so much in one
 * message, in so many messages at once, and then in some each second.
 */
#define LOST_MAX 4096u
static const struct budget_limit lost_limit = { .burst = 1024, .per_s = 16 };

int trace_serve_record(struct agent *agent, int sock, const struct proto_header *request)
{
	struct proto_header ack = proto_header_make(PROTO_ACK, sizeof(ack), request->id);
	const int room_bytes = STREAM_ROOM_BYTES;
	int stream_sock, r;

	stream_sock = fcntl(sock, F_DUPFD_CLOEXEC, 3);
	if (stream_sock < 0)
		return -errno;
	/* The reply comes first, so a refusal may not come after it. */
	r = recorder_stream_may(agent);
	if (!r)
		setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &room_bytes, sizeof(room_bytes));
	if (!r && send(sock, &ack, sizeof(ack), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		r = -errno;
	if (r)
		close(stream_sock);
	else
		recorder_stream_to(agent, stream_sock);
	return r;
}

int trace_serve_verdicts(struct agent *agent, struct agent_view *view, int pid, struct peer *peer,
			 const struct proto_verdicts *request)
{
	uint64_t now_ns = clock_now_ns();

	if (!view || request->count > PROTO_VERDICTS_MAX)
		return -EPROTO;
	for (uint32_t i = 0; i < request->count; i++) {
		uint64_t ts_ns = request->at[i].ts_ns;

		if (!budget_take(&peer->verdicts, &verdict_limit, now_ns)) {
			recorder_verdict_drops(agent, request->count - i);
			break;
		}
		/* Its own clock, which may be believed for as long as that may have waited. */
		if (ts_ns > now_ns || now_ns - ts_ns > VERDICT_AGE_MAX_NS)
			ts_ns = now_ns;
		recorder_verdict(agent, view, pid, ts_ns, &request->at[i].verdict);
	}
	if (request->dropped && budget_take(&peer->losses, &lost_limit, now_ns))
		recorder_verdict_drops(agent,
				       request->dropped < LOST_MAX ? request->dropped : LOST_MAX);
	return 0;
}

int trace_serve_dump(struct agent *agent, int sock, const struct proto_header *request)
{
	int reply_sock, r;

	/* Of its own, since the client may be gone before its reply. */
	reply_sock = fcntl(sock, F_DUPFD_CLOEXEC, 3);
	if (reply_sock < 0)
		return -errno;
	r = recorder_dump(agent, "pnmem trace dump", reply_sock, request->id);
	if (r)
		close(reply_sock);
	return r;
}
