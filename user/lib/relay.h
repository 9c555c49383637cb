/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors for an engine's event loop: a thread for each sleeps on the page and writes to an
 * eventfd. All calls with the watch's lock held.
 */
#ifndef PNMEM_LIB_RELAY_H
#define PNMEM_LIB_RELAY_H

#include "pn_memwatch.h"

/*
 * The descriptor that becomes readable when the level crosses threshold, at PN_MEM_LEVEL_OK
 * when it changes at all; made at its first use. It or -errno.
 */
int relay_open(pn_mem_level threshold);

/* After the reader has been switched to READER_NONE, which ends the threads. */
void relays_close(void);

/* In the child after fork: there are no threads, and the descriptors are the parent's. */
void relays_after_fork(void);

#endif
