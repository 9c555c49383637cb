/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is recorded, as it comes, for pnmem trace record: the agent's own records only, of which
 * there are some dozens a second. Those of the hooks it takes from hooks of its own.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/recorder_memory.h"
#include "agent/views.h"
#include "host/clock.h"

static void stream_end(struct recorder *recorder)
{
	close(recorder->stream_sock);
	recorder->stream_sock = -1;
}

void recorder_stream(struct recorder *recorder, uint16_t kind, uint64_t ts_ns, const void *fixed,
		     size_t fixed_bytes, const char *text)
{
	unsigned char record[TRACE_RING_RECORD_MAX];
	size_t bytes = trace_put(record, kind, ts_ns, fixed, fixed_bytes, text);

	trace_seal(record);
	if (send(recorder->stream_sock, record, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return;
	if (errno == EAGAIN)
		recorder->memory->drops.recorder_count++;
	else
		stream_end(recorder);
}

int recorder_stream_may(struct agent *agent)
{
	struct recorder *recorder = agent->recorder;
	char byte;

	if (!recorder)
		return -EOPNOTSUPP;
	/* Gone without a record since, which would have shown it. */
	if (recorder->stream_sock >= 0 &&
	    recv(recorder->stream_sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		stream_end(recorder);
	return recorder->stream_sock < 0 ? 0 : -EBUSY;
}

void recorder_stream_to(struct agent *agent, int sock)
{
	struct recorder *recorder = agent->recorder;

	recorder->stream_sock = sock;
	recorder_stream(recorder, TRACE_CONFIG, clock_now_ns(), &recorder->memory->config,
			sizeof(recorder->memory->config), NULL);
	/* As if nothing had been recorded yet: the next look tells all. */
	for (struct agent_view *av = agent->views; av; av = av->next)
		av->trace = (struct recorder_view){ .id = av->trace.id, .level = av->trace.level };
	agent_look(agent, true);
}
