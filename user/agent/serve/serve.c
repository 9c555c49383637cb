/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The server takes clients, reads their requests in turn, and drops them. It never waits for one. A
 * client is read at most so often a second, requests that need a look share one, and a client that
 * does not take its replies is dropped. What requests say is requests.c's.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/serve/admin.h"
#include "agent/serve/clients.h"
#include "agent/serve/closer.h"
#include "agent/gpu/dies.h"
#include "agent/log.h"
#include "agent/serve/peer_process.h"
#include "agent/serve/peer_socket.h"
#include "agent/serve/reserve.h"
#include "agent/serve/send_fd.h"
#include "agent/views/views.h"
#include "core/u64.h"
#include "host/clock.h"

/* A client that asks more often is heard again when the interval is over. */
#define REQUEST_INTERVAL_US 50000
#define REQUESTS_MAX        100
/* Connects in all; the wait of the others is no longer than the interval. */
#define ACCEPT_INTERVAL_US 10000
#define ACCEPT_ROUNDS_MAX  32
#define ACCEPTS_A_ROUND    16
/* At once as many as a user may have: all of its engines come back together when an agent does. */
static const struct peers_limits peers_limits = {
	.places_max = CLIENTS_MAX,
	.connects = { .burst = UID_CLIENTS_MAX, .per_s = 1000 },
};
/*
 * What a client may leave unread: the kernel takes it times two, for its own part of each packet.
 * That is the longest replies, a few at a time, or some 40 short ones.
 */
#define UNREAD_BYTES 16384
/* A look that is wanted waits for others who are there to ask: each once, but no more than this. */
#define TURNS_MAX 128
/*
 * Looks that read the pressure file however new its last reading is. More often, and other
 * programs' PSI triggers starve; above it a look goes on from the last reading.
 */
static const struct budget_limit forced_looks = { .burst = 32, .per_s = 10 };

/* One look for all who are there to ask now. */
static void want_look(struct server *server, bool forced)
{
	server->look_wanted = true;
	server->look_forced |= forced;
	sd_event_source_set_enabled(server->flush, SD_EVENT_ONESHOT);
}

void server_want_look(struct agent *agent)
{
	want_look(agent->server, false);
}

/* When a resum may be made for one of those who want it, UINT64_MAX if nobody does. */
static uint64_t resum_due_ns(const struct server *server)
{
	uint64_t due_ns = UINT64_MAX;

	if (server->resum_wanted)
		due_ns = reserve_due_ns(server->agent, NULL);
	for (const struct client *c = server->resumming; c && due_ns; c = c->next_waiting) {
		const struct reserve_peer peer = client_reserve_peer(c);

		due_ns = u64_min(due_ns, reserve_due_ns(server->agent, &peer));
	}
	return due_ns;
}

/* Now, or when the time has come. */
static void plan_resum(struct server *server)
{
	uint64_t due_ns = resum_due_ns(server);

	if (due_ns <= clock_now_ns()) {
		want_look(server, false);
	} else if (due_ns != UINT64_MAX) {
		sd_event_source_set_time(server->resum, due_ns / 1000 + 1);
		sd_event_source_set_enabled(server->resum, SD_EVENT_ONESHOT);
	}
}

static int on_resum(sd_event_source *source, uint64_t usec, void *userdata)
{
	plan_resum(userdata);
	return 0;
}

void server_want_resum(struct agent *agent)
{
	agent->server->resum_wanted = true;
	plan_resum(agent->server);
}

static void client_unlink(struct client *client)
{
	client->next->prev = client->prev;
	client->prev->next = client->next;
}

static void client_link(struct client *client)
{
	struct client *head = &client->server->clients;

	client->prev = head;
	client->next = head->next;
	client->next->prev = client;
	head->next = client;
}

static void client_free(struct client *client);
static void read_request(struct client *client);

/* Until its descriptor is free it counts as one of its user's clients. */
static void client_closed(void *arg)
{
	struct client *client = arg;

	peers_leave(&client->server->peers, &client->place);
	free(client);
}

/* ---- the administrator's places -------------------------------------------------------------- */

static bool is_unproven(const struct client *client)
{
	return !client->place.group && !client->admin;
}

/* NULL: there is none. */
static struct client *oldest_unproven(const struct server *server)
{
	for (unsigned i = 0; i < server->n_kept; i++)
		if (is_unproven(server->kept[i]))
			return server->kept[i];
	return NULL;
}

/*
 * The oldest one of the cgroup that has most of them, so that processes that connect without end
 * push out each other. NULL: there is none.
 */
static struct client *unproven_to_go(const struct server *server)
{
	struct client *found = NULL;
	unsigned most = 0;

	for (unsigned i = 0; i < server->n_kept; i++) {
		unsigned n = 0;

		for (unsigned j = i; j < server->n_kept && is_unproven(server->kept[i]); j++)
			n += is_unproven(server->kept[j]) &&
			     server->kept[j]->group_hash == server->kept[i]->group_hash;
		if (n > most) {
			most = n;
			found = server->kept[i];
		}
	}
	return found;
}

static void plan_unproven(struct server *server)
{
	const struct client *oldest = oldest_unproven(server);

	if (!oldest)
		return;
	sd_event_source_set_time(server->unproven, (oldest->connect_ns + KEPT_PROOF_NS) / 1000);
	sd_event_source_set_enabled(server->unproven, SD_EVENT_ONESHOT);
}

static int on_unproven(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct server *server = userdata;
	struct client *oldest;

	while ((oldest = oldest_unproven(server)) &&
	       oldest->connect_ns + KEPT_PROOF_NS <= clock_now_ns()) {
		server->dropped++;
		client_free(oldest);
	}
	plan_unproven(server);
	return 0;
}

/* Those who have proven nothing go first; what they have sent is read before. */
static void make_room(struct server *server)
{
	struct client *oldest;

	while (server->n_kept == CLIENTS_KEPT && (oldest = unproven_to_go(server))) {
		unsigned n = server->n_kept;

		read_request(oldest); /* which may be its end */
		if (server->n_kept < n || !is_unproven(oldest))
			continue;
		server->dropped++;
		client_free(oldest);
	}
	for (unsigned i = 0; server->n_kept == CLIENTS_KEPT && i < CLIENTS_KEPT; i++) {
		if (!server->kept[i]->waits)
			client_free(server->kept[i]);
	}
}

static void kept_add(struct client *client)
{
	struct server *server = client->server;

	server->kept[server->n_kept++] = client;
	plan_unproven(server);
}

static void kept_remove(struct client *client)
{
	struct server *server = client->server;
	unsigned i = 0;

	while (server->kept[i] != client)
		i++;
	server->n_kept--;
	memmove(&server->kept[i], &server->kept[i + 1],
		(server->n_kept - i) * sizeof(server->kept[0]));
}

static uint64_t hash_of(const char *text)
{
	uint64_t hash = 14695981039346656037ull; /* FNV-1a */

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 1099511628211ull;
	return hash;
}

/*
 * A place by the client's user and cgroup; where they have none left, one of the administrator's
 * for a process of the agent's own user, which is to prove that it is the administrator.
 */
static int take_place(struct client *client, const struct ucred *cred)
{
	struct server *server = client->server;
	char group[VIEW_KEY_BYTES];
	struct peer *peer;
	int r;

	client->connect_ns = clock_now_ns();
	r = peers_connect(&server->peers, cred->uid, client->connect_ns, &peer);
	if (!peer || (r && cred->uid != geteuid()))
		return r;
	/* A file is read for it, which others who connect too often do not cause. */
	views_key(server->agent, cred->pid, group);
	if (!r)
		r = peers_join(&server->peers, peer, group, &client->place);
	if (!r || cred->uid != geteuid())
		return r;
	client->group_hash = hash_of(group);
	make_room(server);
	if (server->n_kept >= CLIENTS_KEPT)
		return r;
	peers_join_kept(&server->peers, peer, &client->place);
	return 0;
}

/* ---- clients --------------------------------------------------------------------------------- */

/* Not while it waits for a look: the list would keep it. */
static void client_free(struct client *client)
{
	struct server *server = client->server;

	client_unlink(client);
	if (!client->place.group)
		kept_remove(client);
	follow_remove(server->agent, &client->followed);
	subscription_end(client);
	sd_event_source_disable_unref(client->io);
	if (client->view) {
		if (dies_forget(server->agent, client->view, client)) {
			client->view->asked = true;
			want_look(server, false);
		}
		if (reserve_forget(server->agent, client))
			server_want_resum(server->agent);
		views_put(server->agent, client->view);
	}
	if (client->other)
		views_put(server->agent, client->other);
	if (client->pidfd >= 0)
		close(client->pidfd);
	closer_drop(server->agent, client->sock, client_closed, client);
}

int client_send(const struct client *client, const void *packet, size_t bytes, int fd)
{
	return send_fd(client->sock, NULL, 0, packet, bytes, fd);
}

static void wait_for_look(struct client *client, bool forced)
{
	struct server *server = client->server;

	client->waits = true;
	client->next_waiting = NULL;
	*server->waiting_end = client;
	server->waiting_end = &client->next_waiting;
	want_look(server, forced);
}

void client_send_after_look(struct client *client, const void *packet, size_t bytes, int fd,
			    bool forced)
{
	memcpy(&client->answer.packet, packet, bytes);
	client->answer.bytes = bytes;
	client->answer.fd = fd;
	wait_for_look(client, forced);
}

static void wait_for_resum(struct client *client)
{
	struct server *server = client->server;

	client->waits = client->resums = true;
	client->next_waiting = NULL;
	*server->resumming_end = client;
	server->resumming_end = &client->next_waiting;
	plan_resum(server);
}

void client_send_after_resum(struct client *client, const void *packet, size_t bytes)
{
	memcpy(&client->answer.packet, packet, bytes);
	client->answer.bytes = bytes;
	client->answer.fd = -1;
	wait_for_resum(client);
}

void client_promise_after_look(struct client *client, const struct proto_reserve *request)
{
	client->reserve = *request;
	client->reserves = true;
	wait_for_resum(client);
}

static void read_request(struct client *client)
{
	union proto_request request = { 0 }; /* what a shorter one does not have is 0 */
	struct server *server = client->server;
	int sender = 0, r;
	ssize_t n;

	if (client->waits) {
		client->paused = true;
		sd_event_source_set_enabled(client->io, SD_EVENT_OFF);
		return;
	}
	subscription_check(client);
	n = peer_socket_receive(client->sock, &request, sizeof(request), &sender);
	if (n == -EAGAIN || n == -EINTR)
		return;
	if (n > 0) {
		client->admin |= admin_is_proven_by(sender);
		r = is_unproven(client) && !client_is_admin(client)
			    ? -EPERM
			    : client_handle(client, &request, (size_t)n);
		if (!r) {
			subscription_request_read(client);
			return;
		}
	}
	if (n > 0 || n == -EPROTO)
		server->dropped++;
	client_free(client);
}

/* One after the other, in the order in which they asked. */
static bool promise_all(const struct server *server)
{
	bool promised = false;

	for (struct client *client = server->waiting; client; client = client->next_waiting) {
		if (client->reserves)
			promised |= client_promise(client);
		client->reserves = false;
	}
	return promised;
}

static uint64_t own_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* All who want one share it, also those whose time has not come yet. */
static void resum(struct server *server, bool forced)
{
	struct agent *agent = server->agent;
	uint64_t begin_ns = own_cpu_ns(), took_ns;

	server->resum_wanted = false;
	if (server->resumming) {
		*server->waiting_end = server->resumming;
		server->waiting_end = server->resumming_end;
		server->resumming = NULL;
		server->resumming_end = &server->resumming;
	}
	reserve_resum_begin(agent);
	agent_look_asked(agent, forced);
	if (promise_all(server))
		agent_look_asked(agent, false);
	took_ns = own_cpu_ns() - begin_ns;
	reserve_resum_end(agent, took_ns);
	for (struct client *client = server->waiting; client; client = client->next_waiting) {
		const struct reserve_peer peer = client_reserve_peer(client);

		if (client->resums)
			reserve_charge(agent, &peer, took_ns);
		client->resums = false;
	}
}

/* The look that requests wait for, and their replies. */
static void flush(struct server *server)
{
	bool forced = server->look_forced &&
		      budget_take(&server->forced_looks, &forced_looks, clock_now_ns());
	struct client *client, *next;

	sd_event_source_set_enabled(server->flush, SD_EVENT_OFF);
	server->look_wanted = server->look_forced = false;
	server->n_turns = 0;
	if (resum_due_ns(server) <= clock_now_ns())
		resum(server, forced);
	else
		agent_look_asked(server->agent, forced);
	client = server->waiting;
	server->waiting = NULL;
	server->waiting_end = &server->waiting;
	for (; client; client = next) {
		const struct answer *answer = &client->answer;

		next = client->next_waiting;
		client->waits = false;
		if (client_send(client, &answer->packet, answer->bytes, answer->fd)) {
			server->dropped++;
			client_free(client);
			continue;
		}
		if (client->leaves) {
			client_free(client);
			continue;
		}
		subscription_check(client);
		if (client->paused)
			sd_event_source_set_enabled(client->io, SD_EVENT_ON);
		client->paused = false;
	}
}

static int on_flush(sd_event_source *source, void *userdata)
{
	struct server *server = userdata;

	if (server->look_wanted)
		flush(server);
	return 0;
}

/* One more has had its turn since a look was wanted. */
static void count_turn(struct server *server)
{
	if (!server->look_wanted)
		return;
	server->n_turns++;
	if (server->n_turns >= server->peers.n_clients || server->n_turns >= TURNS_MAX)
		flush(server);
}

static int on_client(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct client *client = userdata;
	struct server *server = client->server;

	read_request(client); /* which may be its end */
	count_turn(server);
	return 0;
}

/*
 * A process that has moved to another cgroup is to see that one: it is dropped, and finds its new
 * view when it attaches again. One that waits for a look is given its answer first.
 */
static bool client_moved(struct followed *followed)
{
	struct client *client =
		(struct client *)((char *)followed - offsetof(struct client, followed));

	if (client->waits)
		client->leaves = true;
	else
		client_free(client);
	return true;
}

int server_take_client(struct server *server, int sock)
{
	struct client *client = calloc(1, sizeof(*client));
	const int unread_bytes = UNREAD_BYTES;
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	int r;

	if (!client)
		return -ENOMEM;
	client->server = server;
	client->sock = sock;
	r = getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) ||
			    setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &unread_bytes,
				       sizeof(unread_bytes))
		    ? -errno
		    : 0;
	if (!r)
		r = take_place(client, &cred);
	if (r)
		goto fail;
	r = sd_event_add_io(server->agent->event, &client->io, sock, EPOLLIN, on_client, client);
	if (r < 0) {
		peers_leave(&server->peers, &client->place);
		goto fail;
	}
	/* After hooks and timers: what engines ask for never delays what the kernel tells. */
	sd_event_source_set_priority(client->io, SD_EVENT_PRIORITY_IDLE);
	sd_event_source_set_ratelimit(client->io, REQUEST_INTERVAL_US, REQUESTS_MAX);
	client->pid = cred.pid;
	client->pidfd = peer_process_open(sock, cred.pid);
	client_link(client);
	client->followed.view = &client->view;
	client->followed.pid = cred.pid;
	client->followed.moved = client_moved;
	follow_add(server->agent, &client->followed);
	client->uid = cred.uid;
	if (!client->place.group)
		kept_add(client);
	server->accepted++;
	return 0;
fail:
	free(client);
	return r;
}

static void on_connected(void *arg, int sock)
{
	struct server *server = arg;
	int r = server_take_client(server, sock);

	if (!r)
		return;
	closer_drop(server->agent, sock, NULL, NULL);
	server->refused++;
	log_limited(LOG_KIND_REFUSALS, LOG_WARNING,
		    "an engine was turned away (%s), %u are attached", strerror(-r),
		    server->peers.n_clients);
}

static void on_round_over(void *arg)
{
	count_turn(arg);
}

int server_open(struct agent *agent)
{
	struct server *server = calloc(1, sizeof(*server));
	int r;

	if (!server)
		return -ENOMEM;
	agent->server = server;
	server->agent = agent;
	server->peers.limits = &peers_limits;
	server->socket = SERVED_SOCKET_NONE;
	server->clients.next = server->clients.prev = &server->clients;
	server->subscribers.next = server->subscribers.prev = &server->subscribers;
	server->waiting_end = &server->waiting;
	server->resumming_end = &server->resumming;
	server->start_ns = clock_now_ns();
	server->admin_may_be_own_user = admin_may_be_own_user();
	r = sd_event_add_time(agent->event, &server->resum, CLOCK_MONOTONIC, 0, 1, on_resum,
			      server);
	if (r < 0)
		return r;
	sd_event_source_set_enabled(server->resum, SD_EVENT_OFF);
	r = sd_event_add_time(agent->event, &server->unproven, CLOCK_MONOTONIC, 0, 1, on_unproven,
			      server);
	if (r < 0)
		return r;
	sd_event_source_set_enabled(server->unproven, SD_EVENT_OFF);
	r = sd_event_add_defer(agent->event, &server->flush, on_flush, server);
	if (r < 0)
		return r;
	/* After the clients: when none of them is there to ask. */
	sd_event_source_set_priority(server->flush, SD_EVENT_PRIORITY_IDLE + 1);
	sd_event_source_set_enabled(server->flush, SD_EVENT_OFF);
	return socket_take(&server->socket, agent->options->socket_path, agent->options->replace);
}

int server_take_over(struct agent *agent)
{
	return socket_take_over(agent, &agent->server->socket);
}

int server_listen(struct agent *agent)
{
	struct server *server = agent->server;
	int r = socket_listen(&server->socket);

	if (r)
		return r;
	server->acceptor = (struct acceptor){
		.agent = agent,
		.fd = server->socket.fd,
		.accepts_a_round = ACCEPTS_A_ROUND,
		.connected = on_connected,
		.round_over = on_round_over,
		.arg = server,
	};
	r = acceptor_open(&server->acceptor, ACCEPT_INTERVAL_US, ACCEPT_ROUNDS_MAX);
	if (r)
		return r;
	agent->serving_ns = clock_now_ns();
	return 0;
}

const char *server_path(const struct agent *agent)
{
	return agent->server->socket.path;
}

void server_close(struct agent *agent)
{
	struct server *server = agent->server;

	if (!server)
		return;
	while (server->clients.next != &server->clients)
		client_free(server->clients.next);
	sd_event_source_disable_unref(server->flush);
	sd_event_source_disable_unref(server->resum);
	sd_event_source_disable_unref(server->unproven);
	acceptor_close(&server->acceptor);
	socket_close(agent, &server->socket);
	peers_close(&server->peers);
	free(server);
	agent->server = NULL;
}
