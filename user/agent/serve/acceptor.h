/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A listening socket and who connects to it. While the agent has no descriptor for one more, it
 * stops listening for a moment: the loop would be told of the same connection without pause.
 */
#ifndef PNMEM_AGENT_SERVE_ACCEPTOR_H
#define PNMEM_AGENT_SERVE_ACCEPTOR_H

#include <stdint.h>

#include "agent/agent.h"

struct acceptor {
	struct agent *agent;
	int fd; /* the owner's */
	sd_event_source *io;
	sd_event_source *again;
	unsigned accepts_a_round;
	/* The callee owns sock. */
	void (*connected)(void *arg, int sock);
	/* After each round, if there is one. */
	void (*round_over)(void *arg);
	void *arg;
};

/*
 * Accepts from fd on. The fields up to arg, without the event sources, are the caller's to set; the
 * rest is 0. rounds: at most so many in each interval. Returns 0 or -errno; close it in any case.
 */
int acceptor_open(struct acceptor *acceptor, uint64_t interval_us, unsigned rounds);

/* Accepts no more; fd stays open. Allowed on one that is all 0. */
void acceptor_close(struct acceptor *acceptor);

#endif
