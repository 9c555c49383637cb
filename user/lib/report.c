/* SPDX-License-Identifier: BSD-2-Clause */
/* What the agent tells of itself and of other processes, on being asked. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/proto.h"
#include "lib/link.h"
#include "lib/reader.h"
#include "lib/watch.h"
#include "pn_memwatch.h"

#define TIMEOUT_MS 1000

static int copy_report(const pn_hook_status *from, uint32_t count, uint32_t count_max,
		       pn_hook_status *ret, size_t max)
{
	int n;

	if (count > count_max)
		return -EBADMSG;
	n = (int)(count < max ? count : max);
	for (int i = 0; i < n; i++) {
		pn_hook_status *hook = &ret[i];

		*hook = from[i];
		hook->subject[sizeof(hook->subject) - 1] = 0;
		hook->hook[sizeof(hook->hook) - 1] = 0;
		hook->why[sizeof(hook->why) - 1] = 0;
	}
	return n;
}

int pn_memwatch_hooks(pn_hook_status *ret, size_t max)
{
	struct proto_header ask = proto_header_make(PROTO_HOOKS, sizeof(ask), 0);
	struct proto_hooks_reply reply;
	int r = watch_ask(&ask, sizeof(ask), PROTO_HOOKS_REPLY, &reply, sizeof(reply));

	return r ? r : copy_report(reply.hook, reply.count, PROTO_HOOKS_MAX, ret, max);
}

int pn_memwatch_dies(pn_hook_status *ret, size_t max)
{
	struct proto_header ask = proto_header_make(PROTO_DIES, sizeof(ask), 0);
	struct proto_dies_reply reply;
	int r = watch_ask(&ask, sizeof(ask), PROTO_DIES_REPLY, &reply, sizeof(reply));

	return r ? r : copy_report(reply.line, reply.count, PROTO_DIES_MAX, ret, max);
}

int pn_memwatch_stats(pn_agent_stats *ret)
{
	struct proto_header ask = proto_header_make(PROTO_STATS, sizeof(ask), 0);
	struct proto_stats_reply reply;
	int r = watch_ask(&ask, sizeof(ask), PROTO_STATS_REPLY, &reply, sizeof(reply));

	if (!r && !reply.header.magic)
		r = -ENODATA; /* polling: there was nobody to ask */
	if (!r && reply.stats.uid_count > PN_AGENT_UIDS_MAX)
		r = -EBADMSG;
	if (!r)
		*ret = reply.stats;
	return r;
}

int pn_memwatch_read_of(int pid, pn_mem_state *ret_state, pn_mem_ext *ret_ext)
{
	struct link link = LINK_CLOSED;
	char path[SOCKET_PATH_BYTES];
	int memfd, r;

	socket_path_from_env(path);
	r = link_open_view_of(&link, path, pid, TIMEOUT_MS, &memfd);
	if (r)
		return r;
	r = reader_read_page(memfd, ret_state, ret_ext);
	close(memfd);
	link_close(&link);
	return r;
}
