/* SPDX-License-Identifier: BSD-2-Clause */
/* The server and its clients, as the parts that answer them share it. */
#ifndef PNMEM_AGENT_SERVE_CLIENTS_H
#define PNMEM_AGENT_SERVE_CLIENTS_H

#include "agent/serve/acceptor.h"
#include "agent/agent.h"
#include "agent/views/follow.h"
#include "agent/serve/peers.h"
#include "agent/serve/reserve.h"
#include "agent/serve/socket.h"
#include "core/proto.h"

/* What a client is told of without asking again (subscribe.c). */
struct subscription {
	struct subscription *next, *prev; /* NULL: none */
	uint32_t what;                    /* enum proto_subscribe_what */
	uint32_t level;
	uint32_t id;         /* of the request */
	uint32_t told_level; /* in the last event */
	bool first;          /* nothing has been told yet */
	bool pending;        /* there is something to tell, and the last is not read yet */
};

/* A reply that is sent once a look has been published. */
struct answer {
	union {
		struct proto_header header;
		struct proto_welcome welcome;
		struct proto_die_place place;
		struct proto_reserve_reply reserve;
	} packet;
	size_t bytes;
	int fd; /* to go with it, the view's; -1: none */
};

struct client {
	struct client *next, *prev;
	struct server *server;
	struct peer_place place;
	int sock;
	int pid;   /* SO_PEERCRED at connect; 0: not in our pid namespace */
	uid_t uid; /* likewise */
	uint64_t connect_ns;
	uint64_t group_hash; /* of its cgroup, in one of the administrator's places */
	bool admin;          /* it has proven that it is the administrator (admin.h) */
	int pidfd; /* of that process, until its view is known; < 0: none, as peer_process_open */
	sd_event_source *io;
	struct followed followed;
	struct agent_view *view;  /* NULL before its hello */
	struct agent_view *other; /* of another process, for who may ask */
	struct subscription subscription;
	struct client *next_waiting; /* in server.waiting or .resumming, while it waits */
	bool waits;                  /* for a look: no other request of it is taken meanwhile */
	bool paused;                 /* its requests are not listened for meanwhile */
	bool leaves;                 /* it has moved: it is dropped once it has its answer */
	struct answer answer;
	bool resums;   /* it waits for a resum */
	bool reserves; /* what the look finds decides on this request, and so the answer */
	struct proto_reserve reserve;
};

struct server {
	struct agent *agent;
	struct served_socket socket;
	struct acceptor acceptor;
	sd_event_source *flush; /* the look that clients want */
	struct client clients;  /* list head */
	struct client *waiting, **waiting_end;
	struct client *resumming, **resumming_end; /* those that wait for a resum (reserve.h) */
	sd_event_source *resum;                    /* when the next one may be made */
	bool resum_wanted;                         /* by none of them: something has ended */
	bool look_wanted, look_forced;
	unsigned n_turns; /* of clients since it was wanted */
	struct budget forced_looks;
	struct peers peers;
	struct client *kept[CLIENTS_KEPT]; /* in the administrator's places, the oldest first */
	unsigned n_kept;
	sd_event_source *unproven;  /* when the oldest of them that has proven nothing is to go */
	bool admin_may_be_own_user; /* admin.h */
	struct subscription subscribers; /* list head */
	unsigned n_subscribers;
	uint64_t start_ns;
	uint64_t accepted, refused, dropped, requests, told; /* as in pn_agent_stats */
};

/* serve.c: sends a packet, with a descriptor if fd >= 0, and never waits. 0 or -errno. */
int client_send(const struct client *client, const void *packet, size_t bytes, int fd);

/*
 * serve.c: the same once a look has been published, so that what the client then reads is of after
 * its request; forced: of the pressure file too. No other request of it is taken before that. The
 * packet is one of struct answer's; fd stays the caller's, and open as long as the client lives.
 */
void client_send_after_look(struct client *client, const void *packet, size_t bytes, int fd,
			    bool forced);

/* The same once every page shows what is reserved by now: a resum (reserve.h). */
void client_send_after_resum(struct client *client, const void *packet, size_t bytes);

/*
 * The same for a reservation, which is decided on by that look: by client_promise (requests.c),
 * which returns whether there is something for every page, seen before the client hears of it.
 */
void client_promise_after_look(struct client *client, const struct proto_reserve *request);
bool client_promise(struct client *client);

/* requests.c: whether it may make requests that are the administrator's (admin.h). */
bool client_is_admin(struct client *client);

/* requests.c: the client as reserve.h knows it. */
struct reserve_peer client_reserve_peer(const struct client *client);

/*
 * requests.c: answers a request of packet_bytes, of which what fits is at request, followed by 0.
 * Returns 0, or -errno: the client is to be dropped.
 */
int client_handle(struct client *client, const union proto_request *request, size_t packet_bytes);

/*
 * serve.c: takes a connected socket as a client; then it is the server's. 0 or -errno, and then it
 * stays the caller's.
 */
int server_take_client(struct server *server, int sock);

/* subscribe.c: takes the place of the client's subscription, or ends it. 0 or -EINVAL. */
int subscription_set(struct client *client, const struct proto_subscribe *request);
void subscription_end(struct client *client);
/* Tells what there is to tell, if the client has read all that it was sent. */
void subscription_check(struct client *client);
/* A request of the client has been read: there may be another, of which no edge tells. */
void subscription_request_read(struct client *client);

#endif
