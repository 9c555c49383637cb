/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The dies that failed in a way that takes the sampler's process along, or hung it: which of them a
 * pass leaves out, so that the others stay fresh, and when each is tried again, ever less often. A
 * die is known by its PCI id; "" stands for all that have none. Pure.
 */
#ifndef PNMEM_CORE_DIE_RETRY_H
#define PNMEM_CORE_DIE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/die_message.h"

#define DIE_RETRY_MIN_NS 250000000ull
#define DIE_RETRY_MAX_NS 64000000000ull

struct die_retry_entry {
	char pci[DIE_MESSAGE_PCI_BYTES];
	uint64_t due_ns;
	uint64_t backoff_ns;
};

/* All zero: none has failed. */
struct die_retry {
	int count;
	struct die_retry_entry die[DIE_MESSAGE_MAX_DIES];
};

/* It failed: a first time, or again, which die_retry_ask has allowed for. */
void die_retry_failed(struct die_retry *retry, const char *pci, uint64_t now_ns);

/* It was sampled. */
void die_retry_good(struct die_retry *retry, const char *pci);

/*
 * Writes into a request which dies it leaves out: all that failed, in the first pass of a process,
 * which the others are to come through; later those that are not due. Those that are get twice the
 * time until they are due again.
 */
void die_retry_ask(struct die_retry *retry, bool first_pass, uint64_t now_ns,
		   struct die_request *request);

/* When the next is due; UINT64_MAX: none. */
uint64_t die_retry_due_ns(const struct die_retry *retry);

#endif
