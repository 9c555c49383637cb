/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Telling subscribers of levels. At most one event of each is unread at a time: what comes
 * meanwhile leaves a flag, and when the client has read, it is told of the newest state.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "agent/serve/clients.h"
#include "agent/views/views.h"

static struct client *client_of(struct subscription *sub)
{
	return (struct client *)((char *)sub - offsetof(struct client, subscription));
}

/*
 * What this end has sent and the client has not read. The kernel wakes us while it still counts
 * the last byte of what is being read, so 1 is nothing too: no packet is that small in its count.
 */
static bool has_unread(const struct client *client)
{
	int bytes;

	return ioctl(client->sock, SIOCOUTQ, &bytes) || bytes > 1;
}

/*
 * While something is pending a read at the other end wakes us: such a socket is writable all the
 * time, so that only the edge tells. Set anew, what is readable already is an edge too.
 */
static void listen_for_reads(struct client *client, bool on)
{
	sd_event_source_set_io_events(client->io, on ? EPOLLIN | EPOLLOUT | EPOLLET : EPOLLIN);
}

static bool is_news(const struct subscription *sub, uint32_t level)
{
	if (sub->first)
		return true;
	if (sub->what == PROTO_TELL_CROSSING)
		return (level >= sub->level) != (sub->told_level >= sub->level);
	return level != sub->told_level;
}

static int tell(struct client *client)
{
	struct subscription *sub = &client->subscription;
	const struct view *view = &client->view->view;
	struct proto_event event = {
		.header = proto_header_make(PROTO_EVENT, sizeof(event), sub->id),
		.level = (uint32_t)view->state.level,
		.reasons = view->ext.reasons,
		.seq = view->state.seq,
		.publish_ns = view->ext.publish_ns,
		.host_avail_bytes = view->state.host_avail_bytes,
		.cgroup_headroom_bytes = view->ext.cgroup_headroom_bytes,
		.level_changes = view->ext.level_changes,
	};

	int r = client_send(client, &event, sizeof(event), -1);

	if (r)
		return r;
	sub->first = false;
	sub->told_level = event.level;
	client->server->told++;
	return 0;
}

void subscription_check(struct client *client)
{
	struct subscription *sub = &client->subscription;
	bool pending;

	/* A reply that is due comes first. */
	if (!sub->next || client->waits)
		return;
	pending = is_news(sub, (uint32_t)client->view->view.state.level);
	if (pending && !has_unread(client)) {
		pending = false;
		if (tell(client)) {
			/* It has gone; the loop hears of that by itself. */
			subscription_end(client);
			return;
		}
	}
	if (pending != sub->pending)
		listen_for_reads(client, pending);
	sub->pending = pending;
}

void subscription_request_read(struct client *client)
{
	if (client->subscription.pending)
		listen_for_reads(client, true);
}

void server_tell(struct agent *agent)
{
	struct server *server = agent->server;

	if (!server)
		return;
	for (struct subscription *sub = server->subscribers.next, *next;
	     sub != &server->subscribers; sub = next) {
		next = sub->next;
		/* What is pending waits for the client, not for a look. */
		if (!sub->pending)
			subscription_check(client_of(sub));
	}
}

int subscription_set(struct client *client, const struct proto_subscribe *request)
{
	struct server *server = client->server;
	struct subscription *sub = &client->subscription;

	if (request->what > PROTO_TELL_CHANGE ||
	    (request->what == PROTO_TELL_CROSSING &&
	     (request->level < PN_MEM_LEVEL_WATCH || request->level > PN_MEM_LEVEL_CRITICAL)))
		return -EINVAL;
	subscription_end(client);
	if (request->what == PROTO_TELL_NOTHING)
		return 0;
	*sub = (struct subscription){
		.next = server->subscribers.next, /* the head itself, of an empty list */
		.prev = &server->subscribers,
		.what = request->what,
		.level = request->level,
		.id = request->header.id,
		.first = true,
	};
	sub->next->prev = sub->prev->next = sub;
	server->n_subscribers++;
	return 0;
}

void subscription_end(struct client *client)
{
	struct subscription *sub = &client->subscription;

	if (!sub->next)
		return;
	sub->next->prev = sub->prev;
	sub->prev->next = sub->next;
	client->server->n_subscribers--;
	if (sub->pending)
		listen_for_reads(client, false);
	*sub = (struct subscription){ 0 };
}
