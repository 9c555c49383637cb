/* SPDX-License-Identifier: BSD-2-Clause */
/* pn_trace.h: requests about the flight recorder, on a connection of their own. */
#include "pn_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/proto.h"
#include "lib/link.h"

#define HELLO_TIMEOUT_MS 1000

static int open_link(struct link *link, const char *socket_path)
{
	const char *env = secure_getenv("PN_SOCKET");
	int memfd, r;

	if (!socket_path)
		socket_path = env && *env ? env : PN_SOCKET_DEFAULT;
	r = link_open(link, socket_path, HELLO_TIMEOUT_MS, &memfd);
	if (!r)
		close(memfd);
	return r;
}

int pn_trace_dump(const char *socket_path, int timeout_ms, char *ret_path, size_t path_bytes)
{
	struct proto_header ask = proto_header_make(PROTO_TRACE_DUMP, sizeof(ask), 0);
	struct proto_trace_dumped answer;
	struct link link;
	int r = open_link(&link, socket_path);

	if (r)
		return r;
	r = link_request(&link, &ask, sizeof(ask), PROTO_TRACE_DUMPED, &answer, sizeof(answer),
			 timeout_ms);
	link_close(&link);
	if (r)
		return r;
	answer.path[sizeof(answer.path) - 1] = 0;
	snprintf(ret_path, path_bytes, "%s", answer.path);
	return 0;
}

int pn_trace_stream(const char *socket_path)
{
	struct proto_header ask = proto_header_make(PROTO_TRACE_RECORD, sizeof(ask), 0), ack;
	struct link link;
	int r = open_link(&link, socket_path);

	if (r)
		return r;
	r = link_request(&link, &ask, sizeof(ask), PROTO_ACK, &ack, sizeof(ack), HELLO_TIMEOUT_MS);
	if (r) {
		link_close(&link);
		return r;
	}
	return link.sock;
}
