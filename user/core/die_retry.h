/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps the dies whose failure ended or hung the sampler's process. It decides which of them a pass
 * leaves out, so that the other dies stay fresh, and when each is tried again: after every failure
 * the sampler waits longer. A
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

/* The die failed, for the first time or again. die_retry_ask has already set the next time. */
void die_retry_failed(struct die_retry *retry, const char *pci, uint64_t now_ns);

/* It was sampled. */
void die_retry_good(struct die_retry *retry, const char *pci);

/*
 * Writes into a request the dies that it leaves out. The first pass of a process leaves out all
 * that failed, so that the other dies get a sample. Later passes leave out those that are not due.
 * A die that is due and is tried gets twice the time until it is due again.
 */
void die_retry_ask(struct die_retry *retry, bool first_pass, uint64_t now_ns,
		   struct die_request *request);

/* When the next is due; UINT64_MAX: none. */
uint64_t die_retry_due_ns(const struct die_retry *retry);

#endif
