/* SPDX-License-Identifier: BSD-2-Clause */
/* What the library's other calls need of the watch (memwatch.c). */
#ifndef PNMEM_LIB_WATCH_H
#define PNMEM_LIB_WATCH_H

#include <stddef.h>
#include <stdint.h>

#include "host/view.h"
#include "lib/link.h"

#define REQUEST_TIMEOUT_MS 1000

/*
 * Asks the agent; its id is filled in. Returns 0; -ENODATA if the watch is not running; the
 * agent's refusal; -ENOTCONN. *reply is all 0 first, and stays so (0 is returned) while the watch
 * polls.
 */
int watch_ask(void *request, size_t request_bytes, uint16_t reply_type, void *reply,
	      size_t reply_bytes);

struct watch {
	struct link *link;       /* NULL: polling in this process */
	const struct view *view; /* on the process's own page; current after watch_own_look only */
	const struct die_pushes *pushes;
};

/* Takes the lock. Returns 0; -ENODATA, without it, if the watch is not running. */
int watch_lock(struct watch *ret);
void watch_unlock(void);

/* With the lock held: a fresh look in this process, published on its own page. */
void watch_own_look(void);

/* With the lock held: a request came back with -ENOTCONN. Polls from here on, without a link. */
void watch_agent_lost(struct watch *watch);

#endif
