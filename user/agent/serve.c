/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The socket: takes clients, answers their requests. A request costs a bounded amount of work, a
 * client is read at most so often a second, and nothing here ever waits for one: a client that
 * does not take its reply is dropped.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/dies.h"
#include "agent/log.h"
#include "agent/trace_serve.h"
#include "agent/views.h"
#include "core/proto.h"
#include "host/clock.h"

#define CLIENTS_MAX 4096
#define BACKLOG     512
/* A client that asks more often than this is heard again when the second is over. */
#define REQUESTS_PER_S 2000
#define ACCEPTS_PER_S  2000

struct client {
	struct client *next, *prev;
	struct server *server;
	int sock;
	int pid; /* SO_PEERCRED at connect; 0: not in our pid namespace */
	sd_event_source *io;
	struct agent_view *view; /* NULL before its hello */
};

struct server {
	struct agent *agent;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int lock_fd;
	int sock;
	bool bound; /* the socket file is ours to remove */
	sd_event_source *io;
	struct client clients; /* list head */
	unsigned n_clients;
	bool full_logged;
};

static void client_free(struct client *client)
{
	struct server *server = client->server;

	client->next->prev = client->prev;
	client->prev->next = client->next;
	server->n_clients--;
	sd_event_source_disable_unref(client->io);
	if (client->view) {
		dies_forget(server->agent, client->view, client);
		views_put(server->agent, client->view);
	}
	close(client->sock);
	free(client);
}

/* Sends a reply, with a descriptor if fd >= 0. Returns 0 or -errno: the client is to be dropped. */
static int reply_packet(const struct client *client, const void *packet, size_t bytes, int fd)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec iov = { .iov_base = (void *)packet, .iov_len = bytes };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	return sendmsg(client->sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int reply_status(const struct client *client, const struct proto_header *request, int status)
{
	struct proto_header ack = proto_header_make(PROTO_ACK, sizeof(ack), request->id);

	ack.status = status;
	return reply_packet(client, &ack, sizeof(ack), -1);
}

static int do_hello(struct client *client, const struct proto_header *request)
{
	struct agent *agent = client->server->agent;
	struct proto_welcome welcome = {
		.header = proto_header_make(PROTO_WELCOME, sizeof(welcome), request->id),
		.page_bytes = PAGE_BYTES,
		.agent_pid = (uint32_t)getpid(),
		.agent_version = PNMEM_VERSION,
	};
	int r;

	if (!client->view) {
		r = views_get(agent, client->pid, &client->view);
		if (r)
			return reply_status(client, request, r);
		dies_engine(agent, client->pid);
	}
	/*
	 * Fresh, so that an engine which comes from its own poll does not go back in time; nor in
	 * seq, where other engines have kept this view since before that poll.
	 */
	client->view->fresh = true;
	if (agent->recorder)
		welcome.header.reserved = PROTO_TAKES_VERDICTS;
	agent_look(agent, false);
	return reply_packet(client, &welcome, sizeof(welcome), client->view->memfd);
}

/* Published before it is acknowledged. Returns the die's place or -errno. */
static int take_push(struct client *client, struct die_push *push)
{
	struct agent *agent = client->server->agent;
	int r;

	if (!client->view)
		return -EPROTO;
	r = dies_push(agent, client->view, client, push);
	if (r >= 0)
		agent_look(agent, false);
	return r;
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

	return reply_status(client, &request->header, r < 0 ? r : 0);
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
	return reply_packet(client, &reply, sizeof(reply), -1);
}

static int do_dies(struct client *client, const struct proto_header *request)
{
	struct proto_dies_reply reply = {
		.header = proto_header_make(PROTO_DIES_REPLY, sizeof(reply), request->id),
	};

	reply.count = (uint32_t)dies_report(client->server->agent, reply.line, PROTO_DIES_MAX);
	return reply_packet(client, &reply, sizeof(reply), -1);
}

static int do_hooks(struct client *client, const struct proto_header *request)
{
	struct proto_hooks_reply reply = {
		.header = proto_header_make(PROTO_HOOKS_REPLY, sizeof(reply), request->id),
	};
	const struct hooks *hooks = client->server->agent->hooks;

	if (hooks)
		reply.count = (uint32_t)hooks_report(hooks, reply.hook, PROTO_HOOKS_MAX);
	return reply_packet(client, &reply, sizeof(reply), -1);
}

/* Returns 0, or -errno: the client is to be dropped. */
static int handle(struct client *client, const union proto_request *request, size_t bytes)
{
	int r = proto_check_request(request, bytes);

	if (r == -EBADMSG)
		return r;
	if (r) {
		reply_status(client, &request->header, r);
		return r;
	}
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
	case PROTO_VERDICT:
		return trace_serve_verdicts(client->server->agent, client->view, client->pid,
					    &request->verdicts);
	case PROTO_TRACE_RECORD:
		r = trace_serve_record(client->server->agent, client->sock, &request->header);
		return r ? reply_status(client, &request->header, r) : 0;
	case PROTO_TRACE_DUMP:
		r = trace_serve_dump(client->server->agent, client->sock, &request->header);
		return r ? reply_status(client, &request->header, r) : 0;
	default: /* PROTO_POLL_NOW */
		agent_look(client->server->agent, true);
		return reply_status(client, &request->header, 0);
	}
}

static int on_client(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct client *client = userdata;
	struct {
		union proto_request request;
		char more; /* a longer packet shows by filling this too */
	} packet;
	ssize_t n;

	n = recv(fd, &packet, sizeof(packet), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0 || handle(client, &packet.request, (size_t)n)) {
		bool had_view = client->view;
		struct agent *agent = client->server->agent;

		client_free(client);
		if (had_view)
			agent_look(agent, false); /* its dies are gone */
	}
	return 0;
}

static int client_new(struct server *server, int sock)
{
	struct client *client = calloc(1, sizeof(*client));
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	int r;

	if (!client)
		return -ENOMEM;
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len)) {
		r = -errno;
		goto fail;
	}
	r = sd_event_add_io(server->agent->event, &client->io, sock, EPOLLIN, on_client, client);
	if (r < 0)
		goto fail;
	/* After hooks and timers: what engines ask for never delays what the kernel tells. */
	sd_event_source_set_priority(client->io, SD_EVENT_PRIORITY_IDLE);
	sd_event_source_set_ratelimit(client->io, 1000000, REQUESTS_PER_S);
	client->server = server;
	client->sock = sock;
	client->pid = cred.pid;
	client->prev = &server->clients;
	client->next = server->clients.next;
	client->next->prev = client;
	server->clients.next = client;
	server->n_clients++;
	return 0;
fail:
	free(client);
	return r;
}

static int on_connect(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct server *server = userdata;
	int sock = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), r;

	if (sock < 0)
		return 0;
	r = server->n_clients < CLIENTS_MAX ? client_new(server, sock) : -EMFILE;
	if (r) {
		close(sock);
		if (!server->full_logged)
			log_line(LOG_WARNING, "an engine was turned away (%s), %u are attached",
				 strerror(-r), server->n_clients);
		server->full_logged = true;
	}
	return 0;
}

/* The lock file decides who serves a path: held for as long as the agent lives. */
static int take_lock(struct server *server)
{
	char path[sizeof(server->path) + 8];

	strcpy(path, server->path);
	strcat(path, ".lock");
	server->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (server->lock_fd < 0) {
		log_line(LOG_ERR, "cannot create %s: %s", path, strerror(errno));
		return -errno;
	}
	if (flock(server->lock_fd, LOCK_EX | LOCK_NB)) {
		log_line(LOG_ERR, "another agent already serves %s", server->path);
		return -EADDRINUSE;
	}
	return 0;
}

/* Removes what a killed agent left; anything else at the path is not ours to touch. */
static int clear_stale(const struct server *server, const struct sockaddr_un *addr)
{
	struct stat st;
	int probe, r;

	if (lstat(server->path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode)) {
		log_line(LOG_ERR, "%s exists and is not a socket: not touching it", server->path);
		return -EEXIST;
	}
	probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (probe < 0)
		return -errno;
	r = connect(probe, (const struct sockaddr *)addr, sizeof(*addr)) ? -errno : 0;
	close(probe);
	if (r != -ECONNREFUSED) {
		log_line(LOG_ERR, "%s is another program's socket: not touching it", server->path);
		return -EADDRINUSE;
	}
	return unlink(server->path) ? -errno : 0;
}

static int bind_socket(struct server *server)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int r;

	strcpy(addr.sun_path, server->path);
	r = clear_stale(server, &addr);
	if (r)
		return r;
	server->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (server->sock < 0 || bind(server->sock, (struct sockaddr *)&addr, sizeof(addr))) {
		log_line(LOG_ERR, "cannot serve %s: %s", server->path, strerror(errno));
		return -errno;
	}
	server->bound = true;
	return 0;
}

/* The default's directory is on a tmpfs and may have to be made. */
static void make_directory(const char *socket_path)
{
	char dir[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char *slash;

	strcpy(dir, socket_path);
	slash = strrchr(dir, '/');
	if (!slash || slash == dir)
		return;
	*slash = 0;
	mkdir(dir, 0755); /* where it fails, creating the lock file says why */
}

int server_open(struct agent *agent)
{
	const char *path = agent->options->socket_path;
	struct server *server;
	int r;

	server = calloc(1, sizeof(*server));
	if (!server)
		return -ENOMEM;
	agent->server = server;
	server->agent = agent;
	server->lock_fd = server->sock = -1;
	server->clients.next = server->clients.prev = &server->clients;
	if (strlen(path) >= sizeof(server->path) - strlen(".lock")) {
		log_line(LOG_ERR, "socket path too long: %s", path);
		return -ENAMETOOLONG;
	}
	strcpy(server->path, path);
	make_directory(path);
	r = take_lock(server);
	return r ? r : bind_socket(server);
}

int server_listen(struct agent *agent)
{
	struct server *server = agent->server;
	int r;

	/* Engines of any user may read; what they can change is their own view's dies. */
	if (chmod(server->path, 0666) || listen(server->sock, BACKLOG)) {
		log_line(LOG_ERR, "cannot serve %s: %s", server->path, strerror(errno));
		return -errno;
	}
	r = sd_event_add_io(agent->event, &server->io, server->sock, EPOLLIN, on_connect, server);
	if (r < 0)
		return r;
	sd_event_source_set_priority(server->io, SD_EVENT_PRIORITY_IDLE);
	sd_event_source_set_ratelimit(server->io, 1000000, ACCEPTS_PER_S);
	return 0;
}

void server_close(struct agent *agent)
{
	struct server *server = agent->server;

	if (!server)
		return;
	while (server->clients.next != &server->clients)
		client_free(server->clients.next);
	sd_event_source_disable_unref(server->io);
	if (server->bound)
		unlink(server->path);
	if (server->sock >= 0)
		close(server->sock);
	if (server->lock_fd >= 0)
		close(server->lock_fd);
	free(server);
	agent->server = NULL;
}
