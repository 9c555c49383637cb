/* SPDX-License-Identifier: BSD-2-Clause */
/* From the page to an eventfd. See relay.h. */
#include "lib/relay.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/reader.h"
#include "lib/thread.h"

static struct relay {
	int fd_plus_1; /* 0: none, and no thread */
	pthread_t thread;
	pn_mem_level threshold;
	pn_mem_state seen; /* what the thread starts from */
} relays[PN_MEM_LEVEL_CRITICAL + 1];

static int wait_for_news(const struct relay *relay, pn_mem_state *seen)
{
	if (relay->threshold == PN_MEM_LEVEL_OK)
		return reader_wait(PN_WAIT_LEVEL, seen, UINT64_MAX, seen);
	if (seen->level < relay->threshold)
		return reader_wait_at(PN_AT_LEAST, relay->threshold, UINT64_MAX, seen);
	return reader_wait_at(PN_AT_MOST, relay->threshold - 1, UINT64_MAX, seen);
}

static void *relay_thread(void *arg)
{
	const struct relay *relay = arg;
	const uint64_t one = 1;
	pn_mem_state seen = relay->seen;
	int r = 0;

	while (r != -ENODATA && r != -ESHUTDOWN) {
		r = wait_for_news(relay, &seen);
		/* A full counter is readable already. */
		if (!r && write(relay->fd_plus_1 - 1, &one, sizeof(one)) < 0)
			continue;
	}
	return NULL;
}

int relay_open(pn_mem_level threshold)
{
	struct relay *relay = &relays[threshold];
	int fd, r;

	if (relay->fd_plus_1)
		return relay->fd_plus_1 - 1;
	/* Here, not in the thread: a change before it runs must not be missed. */
	r = reader_read(&relay->seen, NULL);
	if (r)
		return r;
	fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	relay->threshold = threshold;
	relay->fd_plus_1 = fd + 1;
	r = thread_start(&relay->thread, relay_thread, relay, "pn_memwatch_fd");
	if (r) {
		close(fd);
		relay->fd_plus_1 = 0;
		return r;
	}
	return fd;
}

void relays_after_fork(void)
{
	for (struct relay *relay = relays; relay <= &relays[PN_MEM_LEVEL_CRITICAL]; relay++) {
		if (relay->fd_plus_1)
			close(relay->fd_plus_1 - 1);
		relay->fd_plus_1 = 0;
	}
}

void relays_close(void)
{
	for (struct relay *relay = relays; relay <= &relays[PN_MEM_LEVEL_CRITICAL]; relay++)
		if (relay->fd_plus_1)
			pthread_join(relay->thread, NULL);
	relays_after_fork();
}
