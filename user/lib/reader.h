/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reading side of this process: which page snapshots come from now, reading it, sleeping on
 * it, and moving every reader and sleeper to another page without a lock.
 */
#ifndef PNMEM_LIB_READER_H
#define PNMEM_LIB_READER_H

#include <stdint.h>

#include "core/dies.h"
#include "core/page.h"
#include "pn_memwatch.h"

/* The pages a reader can be on. Both stay mapped for the life of the process. */
enum reader_page {
	READER_NONE = -1,
	READER_OWN = 0,   /* published by this process's poll thread */
	READER_AGENT = 1, /* the agent's, read-only */
};

/* The process's own page, zeroed and writable; the same one at every call. */
struct page *reader_own_page(void);

/*
 * Maps the agent's page in place of the one before it. Only while no reader is on READER_AGENT.
 * The memfd stays the caller's. Returns 0, or -errno: -EPROTO for what is not a sealed page.
 */
int reader_map_agent_page(int memfd);

/* The snapshot of a page that is only read this once. As reader_map_agent_page; -EAGAIN. */
int reader_read_page(int memfd, pn_mem_state *ret_state, pn_mem_ext *ret_ext);

/* The agent's heartbeat, CLOCK_MONOTONIC ns, and whether it has retired its page. */
uint64_t reader_agent_heartbeat_ns(void);
bool reader_agent_retired(void);

/*
 * Moves everyone to another page; returns when no thread sleeps on the old one any more. Not
 * from two threads at once. To READER_NONE it ends all waits with -ESHUTDOWN.
 */
void reader_switch(enum reader_page to);

enum reader_page reader_current(void);

/*
 * What this engine told of the die at a place of the agent's page. Where other engines of its group
 * push that die too, readers of this process see its own used bytes instead of the sum; and of a
 * die that has no name nor sample, so that those others may mean another one, all of its own.
 * reader_own_dies_reset forgets all. Any thread.
 */
void reader_own_die(int place, const struct die_push *push);
void reader_own_dies_reset(void);

/* As pn_memwatch_read_ext, pn_memwatch_wait and pn_memwatch_wait_at. */
int reader_read(pn_mem_state *ret_state, pn_mem_ext *ret_ext);
int reader_wait(pn_memwatch_wait_t what, const pn_mem_state *seen, uint64_t deadline_ns,
		pn_mem_state *ret);
int reader_wait_at(pn_memwatch_at_t at, pn_mem_level level, uint64_t deadline_ns,
		   pn_mem_state *ret);

/* In the child after fork: the other threads are gone, and with them their sleeping counts. */
void reader_after_fork(void);

#endif
