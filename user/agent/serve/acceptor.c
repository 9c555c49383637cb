/* SPDX-License-Identifier: BSD-2-Clause */
/* See acceptor.h. */
#include "agent/serve/acceptor.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/serve/closer.h"
#include "agent/log.h"
#include "agent/serve/peer_socket.h"

#define STOP_US 100000

static void stop_for_a_moment(struct acceptor *acceptor, int reason)
{
	sd_event_source_set_enabled(acceptor->io, SD_EVENT_OFF);
	sd_event_source_set_time_relative(acceptor->again, STOP_US);
	sd_event_source_set_enabled(acceptor->again, SD_EVENT_ONESHOT);
	log_limited(LOG_KIND_REFUSALS, LOG_WARNING,
		    "cannot accept connections: %s; trying again every %d ms", strerror(reason),
		    STOP_US / 1000);
}

static int on_again(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct acceptor *acceptor = userdata;

	return sd_event_source_set_enabled(acceptor->io, SD_EVENT_ON);
}

static void accept_some(struct acceptor *acceptor)
{
	for (unsigned i = 0; i < acceptor->accepts_a_round; i++) {
		int sock;

		if (closer_is_full(acceptor->agent)) {
			stop_for_a_moment(acceptor, EMFILE);
			return;
		}
		sock = accept4(acceptor->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (sock < 0) {
			/* Whatever else is wrong, it is so the next time too. */
			if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
				stop_for_a_moment(acceptor, errno);
			return;
		}
		peer_socket_accepted(sock);
		acceptor->connected(acceptor->arg, sock);
	}
}

static int on_connect(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct acceptor *acceptor = userdata;

	accept_some(acceptor);
	if (acceptor->round_over)
		acceptor->round_over(acceptor->arg);
	return 0;
}

int acceptor_open(struct acceptor *acceptor, uint64_t interval_us, unsigned rounds)
{
	int r = sd_event_add_io(acceptor->agent->event, &acceptor->io, acceptor->fd, EPOLLIN,
				on_connect, acceptor);

	if (r >= 0)
		r = sd_event_add_time(acceptor->agent->event, &acceptor->again, CLOCK_MONOTONIC, 0,
				      0, on_again, acceptor);
	if (r >= 0)
		r = sd_event_source_set_enabled(acceptor->again, SD_EVENT_OFF);
	if (r < 0)
		return r;
	sd_event_source_set_priority(acceptor->io, SD_EVENT_PRIORITY_IDLE);
	sd_event_source_set_ratelimit(acceptor->io, interval_us, rounds);
	return 0;
}

void acceptor_close(struct acceptor *acceptor)
{
	acceptor->io = sd_event_source_disable_unref(acceptor->io);
	acceptor->again = sd_event_source_disable_unref(acceptor->again);
}
