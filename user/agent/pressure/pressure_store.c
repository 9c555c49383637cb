/* SPDX-License-Identifier: BSD-2-Clause */
/* See pressure_store.h. The name of each says what its client asked for, since that is read. */
#include "agent/pressure/pressure_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "agent/notify.h"

#define NAME_PREFIX "pressure-"

bool pressure_store_keep(int sock, pn_mem_level level)
{
	char message[64];
	int r;

	snprintf(message, sizeof(message), "FDSTORE=1\nFDNAME=" NAME_PREFIX "%d", (int)level);
	r = notify_send(message, sock);
	/* The last: too many descriptors of ours under way. Where else it is not taken, the
	 * connection ends with the agent, as without systemd. */
	return r != -EAGAIN && r != -ENOBUFS && r != -ETOOMANYREFS;
}

/* The level in a name of ours, or -1. */
static int level_of(const char *name)
{
	size_t prefix_bytes = strlen(NAME_PREFIX);
	int level = 0;

	if (strncmp(name, NAME_PREFIX, prefix_bytes) || strlen(name) != prefix_bytes + 1)
		return -1;
	level = name[prefix_bytes] - '0';
	return level >= PN_MEM_LEVEL_WATCH && level <= PN_MEM_LEVEL_CRITICAL ? level : -1;
}

void pressure_store_take(pressure_store_fn fn, void *arg)
{
	char **names = NULL;
	int n = sd_listen_fds_with_names(1, &names);

	for (int i = 0; i < n; i++) {
		int fd = SD_LISTEN_FDS_START + i, level = level_of(names[i]);

		if (level < 0 || sd_is_socket(fd, AF_UNIX, SOCK_STREAM, 0) <= 0)
			close(fd);
		else
			fn(arg, fd, (pn_mem_level)level);
		free(names[i]);
	}
	free(names);
}
