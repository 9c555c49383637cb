/* SPDX-License-Identifier: BSD-2-Clause */
/* The process's own ledger of reservations, as pn_memwatch keeps it in step with its source. */
#ifndef PNMEM_LIB_HOLDINGS_H
#define PNMEM_LIB_HOLDINGS_H

#include "host/view.h"
#include "lib/link.h"

/* All with the watch's lock held. */

/* Forgets everything: at a start, and in the child of a fork. */
void holdings_reset(void);

/*
 * To an agent that this process has just come to, before readers move to its page: tells it of all
 * that is held. Returns 0 with the number that it refused, which are held here alone, or -ENOTCONN.
 */
int holdings_announce(struct link *link, int timeout_ms, uint32_t *ret_n_alone);

/* Readers have moved to the process's own page, after a look. */
void holdings_fell_back(void);

/* At a look in this process: what has ended, and the sums in view->ext. */
void holdings_look(struct view *view, uint64_t meminfo_ns, uint64_t now_ns);

#endif
