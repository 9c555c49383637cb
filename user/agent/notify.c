/* SPDX-License-Identifier: BSD-2-Clause */
/* See notify.h. */
#include "agent/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/serve/send_fd.h"

/* A message that there was no room for is sent again after this. */
#define AGAIN_US 100000ull

struct notify {
	sd_event_source *timer;
	uint64_t watchdog_us; /* 0: none is wanted */
	bool ready;           /* READY=1 has been taken */
};

/* A path or, from '@' on, a name without one. Others (vsock) are for virtual machines. */
static int make_address(const char *name, struct sockaddr_un *ret_addr, socklen_t *ret_bytes)
{
	size_t bytes = strlen(name);

	if ((name[0] != '/' && name[0] != '@') || bytes < 2)
		return -EAFNOSUPPORT;
	if (bytes >= sizeof(ret_addr->sun_path))
		return -ENAMETOOLONG;
	*ret_addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(ret_addr->sun_path, name, bytes);
	*ret_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes);
	if (name[0] == '@')
		ret_addr->sun_path[0] = 0;
	else
		*ret_bytes += 1;
	return 0;
}

int notify_send(const char *message, int fd)
{
	const char *name = getenv("NOTIFY_SOCKET");
	struct sockaddr_un addr;
	socklen_t addr_bytes;
	int sock, r;

	if (!name)
		return 0;
	r = make_address(name, &addr, &addr_bytes);
	if (r)
		return r;
	sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sock < 0)
		return -errno;
	r = send_fd(sock, &addr, addr_bytes, message, strlen(message), fd);
	close(sock);
	return r;
}

/* Whatever else goes wrong does so each time. */
static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct notify *notify = userdata;
	int r = 0;

	if (!notify->ready)
		r = notify_send("READY=1", -1);
	if (r != -EAGAIN)
		notify->ready = true;
	if (notify->ready && notify->watchdog_us)
		r = notify_send("WATCHDOG=1", -1);
	if (r != -EAGAIN && !notify->watchdog_us)
		return 0; /* and the timer rests */
	sd_event_source_set_time_relative(source,
					  r == -EAGAIN ? AGAIN_US : notify->watchdog_us / 2);
	sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

int notify_ready(struct agent *agent)
{
	struct notify *notify;
	int r;

	if (!getenv("NOTIFY_SOCKET"))
		return 0;
	notify = calloc(1, sizeof(*notify));
	if (!notify)
		return -ENOMEM;
	agent->notify = notify;
	if (sd_watchdog_enabled(0, &notify->watchdog_us) <= 0)
		notify->watchdog_us = 0;
	r = sd_event_add_time_relative(agent->event, &notify->timer, CLOCK_MONOTONIC, 0, 1, on_time,
				       notify);
	return r < 0 ? r : on_time(notify->timer, 0, notify);
}

void notify_close(struct agent *agent)
{
	if (!agent->notify)
		return;
	notify_send("STOPPING=1", -1);
	sd_event_source_disable_unref(agent->notify->timer);
	free(agent->notify);
	agent->notify = NULL;
}
