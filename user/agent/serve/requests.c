/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What clients ask for, one function a message; pnmem-protocol(7) says what each is for. A request
 * costs a bounded amount of work here: whatever has to be published for it waits for the look that
 * serve.c makes for all who are there to ask.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/serve/admin.h"
#include "agent/serve/clients.h"
#include "agent/gpu/dies.h"
#include "agent/serve/reserve.h"
#include "agent/serve/trace_serve.h"
#include "agent/views/view_pages.h"
#include "agent/views/views.h"
#include "host/clock.h"

static int reply_status(const struct client *client, const struct proto_header *request, int status)
{
	struct proto_header ack = proto_header_make(PROTO_ACK, sizeof(ack), request->id);

	ack.status = status;
	return client_send(client, &ack, sizeof(ack), -1);
}

bool client_is_admin(struct client *client)
{
	if (!client->admin && client->server->admin_may_be_own_user)
		client->admin = admin_is_own_user(client->pidfd, client->pid, client->uid);
	return client->admin;
}

static int ack_after_look(struct client *client, const struct proto_header *request, bool forced)
{
	struct proto_header ack = proto_header_make(PROTO_ACK, sizeof(ack), request->id);

	client_send_after_look(client, &ack, sizeof(ack), -1, forced);
	return 0;
}

/*
 * The view of the client's own cgroup, whichever message asks for it first. Its process may have
 * ended and left the socket to a child: then, since its number may by now be that of a process of
 * another group, the host's own. 0 or -errno.
 */
static int need_view(struct client *client)
{
	struct agent *agent = client->server->agent;
	int pid = client->pid, r;
	bool admin;

	if (client->view)
		return 0;
	/* Whatever others use up, the administrator gets a page. This takes the pidfd. */
	admin = client_is_admin(client);
	r = views_get_of_peer(agent, client->pidfd, &pid, client->uid, !admin, &client->view);
	if (r) {
		client->view = NULL;
		return r;
	}
	if (client->pidfd >= 0)
		close(client->pidfd);
	client->pidfd = -1;
	dies_engine(agent, pid);
	return 0;
}

static int reply_welcome(struct client *client, const struct proto_header *request,
			 struct agent_view *view)
{
	struct proto_welcome welcome = {
		.header = proto_header_make(PROTO_WELCOME, sizeof(welcome), request->id),
		.page_bytes = PAGE_BYTES,
		.agent_pid = (uint32_t)getpid(),
		.agent_version = PNMEM_VERSION,
	};

	/*
	 * Fresh, so that an engine which comes from its own poll does not go back in time; nor in
	 * seq, where other engines have kept this view since before that poll.
	 */
	view->fresh = view->asked = true;
	if (client->server->agent->recorder)
		welcome.header.reserved = PROTO_TAKES_VERDICTS;
	view->page->handed_out = true;
	client_send_after_look(client, &welcome, sizeof(welcome), view->page->memfd, false);
	return 0;
}

static int do_hello(struct client *client, const struct proto_header *request)
{
	int r = need_view(client);

	return r ? reply_status(client, request, r) : reply_welcome(client, request, client->view);
}

/* Any process's view shows what its group and its engines do: the administrator alone may
 * have it. */
static int do_view_of(struct client *client, const struct proto_view_of *request)
{
	struct agent *agent = client->server->agent;
	struct agent_view *view;
	struct stat process;
	char path[16];
	int r = 0;

	snprintf(path, sizeof(path), "%d", request->pid);
	if (!client_is_admin(client))
		r = -EPERM;
	else if (request->pid <= 0 || fstatat(agent->procfs_fd, path, &process, 0))
		r = -ESRCH;
	if (!r)
		r = views_get(agent, request->pid, process.st_uid, &view);
	if (r)
		return reply_status(client, &request->header, r);
	if (client->other)
		views_put(agent, client->other);
	client->other = view;
	return reply_welcome(client, &request->header, view);
}

static int do_subscribe(struct client *client, const struct proto_subscribe *request)
{
	int r = need_view(client);

	if (!r)
		r = subscription_set(client, request);
	return r ? reply_status(client, &request->header, r)
		 : ack_after_look(client, &request->header, false);
}

/* Returns the die's place or -errno. */
static int take_push(struct client *client, struct die_push *push)
{
	if (!client->view)
		return -EPROTO;
	client->view->asked = true;
	return dies_push(client->server->agent, client->view, client, push);
}

static int do_set_die(struct client *client, const struct proto_set_die *request)
{
	struct die_push push = {
		.index = request->die_id < 0 ? PN_MEM_MAX_DIES : request->die_id,
		.free_bytes = request->free_bytes,
		.budget_bytes = request->budget_bytes,
		.used_bytes = request->used_bytes,
	};
	int r = take_push(client, &push);

	return r < 0 ? reply_status(client, &request->header, r)
		     : ack_after_look(client, &request->header, false);
}

static int do_set_die_id(struct client *client, const struct proto_set_die_id *request)
{
	struct die_push push = {
		.index = -1,
		.free_bytes = request->free_bytes,
		.budget_bytes = request->budget_bytes,
		.used_bytes = request->used_bytes,
	};
	struct proto_die_place reply = {
		.header = proto_header_make(PROTO_DIE_PLACE, sizeof(reply), request->header.id),
	};

	memcpy(push.id.uuid, request->uuid, sizeof(push.id.uuid));
	/* Whatever the engine wrote: canonical, or nothing. */
	if (!memchr(request->pci, 0, sizeof(request->pci)) ||
	    (request->pci[0] && die_pci_parse(request->pci, push.id.pci)))
		return reply_status(client, &request->header, -EINVAL);
	reply.place = take_push(client, &push);
	if (reply.place < 0)
		return reply_status(client, &request->header, reply.place);
	client_send_after_look(client, &reply, sizeof(reply), -1, false);
	return 0;
}

/* The administrator gets all users, in the order in which they came; others get their own user. */
static void fill_uids(struct client *client, pn_agent_stats *stats)
{
	bool all = client_is_admin(client);

	for (const struct peer *peer = client->server->peers.list; peer; peer = peer->next) {
		stats->uids += peer->n_clients > 0;
		if ((!all && peer->uid != client->uid) || stats->uid_count == PN_AGENT_UIDS_MAX)
			continue;
		stats->uid[stats->uid_count++] = (pn_agent_uid){
			.uid = peer->uid,
			.clients = peer->n_clients,
			.refused = peer->refused,
		};
	}
}

static int do_stats(struct client *client, const struct proto_header *request)
{
	const struct server *server = client->server;
	const struct agent *agent = server->agent;
	const pn_mem_ext *ext = &agent->views->view.ext;
	struct proto_stats_reply reply = {
		.header = proto_header_make(PROTO_STATS_REPLY, sizeof(reply), request->id),
		.stats = {
			.uptime_ns = clock_now_ns() - server->start_ns,
			.looks = agent->looks,
			.publishes = ext->publishes,
			.wakeups = agent->wakeups,
			.events = ext->events,
			.event_drops = ext->event_drops,
			.accepted = server->accepted,
			.refused = server->refused,
			.dropped = server->dropped,
			.requests = server->requests,
			.told = server->told,
			.clients = server->peers.n_clients,
			.subscribers = server->n_subscribers,
			.views = agent->n_views,
		},
	};

	fill_uids(client, &reply.stats);
	return client_send(client, &reply, sizeof(reply), -1);
}

static int do_dies(struct client *client, const struct proto_header *request)
{
	struct proto_dies_reply reply = {
		.header = proto_header_make(PROTO_DIES_REPLY, sizeof(reply), request->id),
	};

	reply.count = (uint32_t)dies_report(client->server->agent, reply.line, PROTO_DIES_MAX);
	return client_send(client, &reply, sizeof(reply), -1);
}

static int do_hooks(struct client *client, const struct proto_header *request)
{
	struct proto_hooks_reply reply = {
		.header = proto_header_make(PROTO_HOOKS_REPLY, sizeof(reply), request->id),
	};
	const struct hooks *hooks = client->server->agent->hooks;

	if (hooks)
		reply.count = (uint32_t)hooks_report(hooks, reply.hook, PROTO_HOOKS_MAX);
	return client_send(client, &reply, sizeof(reply), -1);
}

struct reserve_peer client_reserve_peer(const struct client *client)
{
	return (struct reserve_peer){
		.owner = client,
		.view = client->view,
		.sock = client->sock,
		.pid = client->pid,
		.uid = client->uid,
	};
}

static int do_reserve(struct client *client, const struct proto_reserve *request)
{
	if (!client->view)
		return reply_status(client, &request->header, -EPROTO);
	client->view->asked = true;
	client_promise_after_look(client, request);
	return 0;
}

bool client_promise(struct client *client)
{
	const struct reserve_peer peer = client_reserve_peer(client);
	struct proto_reserve_reply *reply = &client->answer.packet.reserve;
	int r;

	*reply = (struct proto_reserve_reply){
		.header = proto_header_make(PROTO_RESERVE_REPLY, sizeof(*reply),
					    client->reserve.header.id),
	};
	client->answer.bytes = sizeof(*reply);
	client->answer.fd = -1;
	r = reserve_add(client->server->agent, &peer, &client->reserve, reply);
	if (r) {
		reply->header = proto_header_make(PROTO_ACK, sizeof(reply->header),
						  client->reserve.header.id);
		reply->header.status = r;
		client->answer.bytes = sizeof(reply->header);
	}
	return !r && !reply->result;
}

/* It counts no more, or no more than until its memory is seen: every page is to say so. */
static int do_end_reservation(struct client *client, const struct proto_reservation *request)
{
	struct proto_header ack = proto_header_make(PROTO_ACK, sizeof(ack), request->header.id);
	struct agent *agent = client->server->agent;
	int r;

	if (!client->view)
		return reply_status(client, &request->header, -EPROTO);
	client->view->asked = true;
	r = request->header.type == PROTO_COMMIT ? reserve_commit(agent, client, request)
						 : reserve_release(agent, client, request);
	if (r)
		return reply_status(client, &request->header, r);
	client_send_after_resum(client, &ack, sizeof(ack));
	return 0;
}

static int do_reservations(struct client *client, const struct proto_reservations *request)
{
	const struct reserve_peer peer = client_reserve_peer(client);
	struct proto_reservations_reply reply = {
		.header = proto_header_make(PROTO_RESERVATIONS_REPLY, sizeof(reply),
					    request->header.id),
	};

	if (!client->view)
		return reply_status(client, &request->header, -EPROTO);
	reserve_list(client->server->agent, &peer, client_is_admin(client), request, &reply);
	return client_send(client, &reply, sizeof(reply), -1);
}

int client_handle(struct client *client, const union proto_request *request, size_t packet_bytes)
{
	int r = proto_check_request(request, packet_bytes);

	if (r == -EBADMSG)
		return r;
	client->server->requests++;
	/*
	 * Of another version, or one that we do not know yet: told so, and welcome to ask for less.
	 */
	if (r)
		return reply_status(client, &request->header, r);
	switch (request->header.type) {
	case PROTO_HELLO:
		return do_hello(client, &request->header);
	case PROTO_SET_DIE:
		return do_set_die(client, &request->set_die);
	case PROTO_SET_DIE_ID:
		return do_set_die_id(client, &request->set_die_id);
	case PROTO_HOOKS:
		return do_hooks(client, &request->header);
	case PROTO_DIES:
		return do_dies(client, &request->header);
	case PROTO_SUBSCRIBE:
		return do_subscribe(client, &request->subscribe);
	case PROTO_STATS:
		return do_stats(client, &request->header);
	case PROTO_VIEW_OF:
		return do_view_of(client, &request->view_of);
	case PROTO_RESERVE:
		return do_reserve(client, &request->reserve);
	case PROTO_COMMIT:
	case PROTO_RELEASE:
		return do_end_reservation(client, &request->reservation);
	case PROTO_RESERVATIONS:
		return do_reservations(client, &request->reservations);
	case PROTO_VERDICT:
		return trace_serve_verdicts(client->server->agent, client->view, client->pid,
					    client->place.peer, &request->verdicts);
	case PROTO_TRACE_RECORD: /* a trace tells what every process of the machine does */
		r = client_is_admin(client) ? trace_serve_record(client->server->agent,
								 client->sock, &request->header)
					    : -EPERM;
		return r ? reply_status(client, &request->header, r) : 0;
	case PROTO_TRACE_DUMP:
		r = client_is_admin(client) ? trace_serve_dump(client->server->agent, client->sock,
							       &request->header)
					    : -EPERM;
		return r ? reply_status(client, &request->header, r) : 0;
	default: /* PROTO_POLL_NOW */
		if (client->view)
			client->view->asked = true;
		return ack_after_look(client, &request->header, true);
	}
}
