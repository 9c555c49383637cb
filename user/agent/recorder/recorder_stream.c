/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is recorded, as it comes, for pnmem trace record: the agent's own records only, of which
 * there are some dozens a second. Those of the hooks it takes from hooks of its own.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/log.h"
#include "agent/recorder/recorder_memory.h"
#include "agent/serve/closer.h"
#include "agent/views/views.h"
#include "host/clock.h"

void recorder_stream_close(struct recorder *recorder)
{
	recorder->stream_io = sd_event_source_disable_unref(recorder->stream_io);
	if (recorder->stream_sock >= 0)
		closer_drop_duplicate(recorder->agent, recorder->stream_sock);
	recorder->stream_sock = -1;
}

/* Returns false if there is no room, or nobody, for it. */
static bool send_record(struct recorder *recorder, uint16_t kind, uint64_t ts_ns, const void *fixed,
			size_t fixed_bytes, const char *text)
{
	unsigned char record[TRACE_RING_RECORD_MAX];
	size_t bytes = trace_put(record, kind, ts_ns, fixed, fixed_bytes, text);

	trace_seal(record);
	if (send(recorder->stream_sock, record, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return true;
	if (errno != EAGAIN && errno != EINTR)
		recorder_stream_close(recorder);
	return false;
}

/* Hears of its end; and, while it has something to be told, of room. */
static void listen_for(struct recorder *recorder)
{
	uint32_t events = (recorder->stream_untold ? EPOLLOUT : 0) |
			  (recorder->stream_ending ? 0 : EPOLLRDHUP);

	sd_event_source_set_io_events(recorder->stream_io, events);
}

/* Returns whether there is nothing to tell any more. */
static bool tell_drops(struct recorder *recorder)
{
	if (recorder->stream_untold &&
	    send_record(recorder, TRACE_DROPS, clock_now_ns(), &recorder->stream_drops,
			sizeof(recorder->stream_drops), NULL)) {
		recorder->stream_untold = false;
		listen_for(recorder);
	}
	return !recorder->stream_untold;
}

static void to_tell(struct recorder *recorder)
{
	if (recorder->stream_sock < 0 || recorder->stream_untold)
		return;
	recorder->stream_untold = true;
	listen_for(recorder);
}

void recorder_stream(struct recorder *recorder, uint16_t kind, uint64_t ts_ns, const void *fixed,
		     size_t fixed_bytes, const char *text)
{
	/* While it does not even take how many it has lost, there is no room for one more. */
	if (tell_drops(recorder) && send_record(recorder, kind, ts_ns, fixed, fixed_bytes, text))
		return;
	recorder->stream_drops.recorder_count++;
	to_tell(recorder);
}

void recorder_stream_verdict_drops(struct recorder *recorder, uint64_t count)
{
	recorder->stream_drops.verdict_count += count;
	to_tell(recorder);
}

void recorder_stream_drops(struct recorder *recorder, uint64_t count)
{
	recorder->stream_drops.recorder_count += count;
	to_tell(recorder);
}

static int on_stream(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct recorder *recorder = ((struct agent *)userdata)->recorder;

	if (revents & (EPOLLHUP | EPOLLERR)) {
		recorder_stream_close(recorder);
		return 0;
	}
	recorder->stream_ending |= !!(revents & EPOLLRDHUP);
	if (tell_drops(recorder) && recorder->stream_ending)
		recorder_stream_close(recorder);
	else if (recorder->stream_sock >= 0)
		listen_for(recorder);
	return 0;
}

int recorder_stream_may(struct agent *agent)
{
	struct recorder *recorder = agent->recorder;
	char byte;

	if (!recorder)
		return -EOPNOTSUPP;
	/* Gone, and we have not come to hear of it yet. */
	if (recorder->stream_sock >= 0 &&
	    recv(recorder->stream_sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		recorder_stream_close(recorder);
	return recorder->stream_sock < 0 ? 0 : -EBUSY;
}

void recorder_stream_to(struct agent *agent, int sock)
{
	struct recorder *recorder = agent->recorder;
	int r;

	recorder->stream_sock = sock;
	recorder->stream_drops = (struct trace_drops){ 0 };
	recorder->stream_untold = recorder->stream_ending = false;
	r = sd_event_add_io(agent->event, &recorder->stream_io, sock, EPOLLRDHUP, on_stream, agent);
	if (r < 0) {
		log_line(LOG_WARNING, "a recording cannot be followed: %s", strerror(-r));
		recorder_stream_close(recorder);
		return;
	}
	/* After the records that its end waits for, which clients bring. */
	sd_event_source_set_priority(recorder->stream_io, SD_EVENT_PRIORITY_IDLE + 2);
	recorder_stream(recorder, TRACE_CONFIG, clock_now_ns(), &recorder->memory->config,
			sizeof(recorder->memory->config), NULL);
	/* As if nothing had been recorded yet: the next look tells all. */
	for (struct agent_view *av = agent->views; av; av = av->next)
		av->trace = (struct recorder_view){
			.id = av->trace.id,
			.begin_ns = av->trace.begin_ns,
			.user = av->trace.user,
			.in_episode = av->trace.in_episode,
			.level = av->trace.level,
		};
	agent_look(agent, true);
}
