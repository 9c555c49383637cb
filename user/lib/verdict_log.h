/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verdicts of this process on their way to the agent's flight recorder. Whoever decides puts
 * one into a small ring, which takes no lock, no system call and some ten nanoseconds; the watch's
 * thread sends them along. What finds the ring full is dropped and counted: nothing here may cost
 * an engine anything.
 */
#ifndef PNMEM_LIB_VERDICT_LOG_H
#define PNMEM_LIB_VERDICT_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/trace_format.h"
#include "lib/link.h"
#include "pn_admission.h"

/* True while there is an agent that takes them. */
extern _Atomic bool verdict_log_on;

/* Any thread. For verdict_log, and tests. */
void verdict_log_put(uint32_t ask, uint32_t flags, int n_tokens, int max_window,
		     const pn_admit_result *result);

static inline void verdict_log(uint32_t ask, uint32_t flags, int n_tokens, int max_window,
			       const pn_admit_result *result)
{
	if (atomic_load_explicit(&verdict_log_on, memory_order_relaxed))
		verdict_log_put(ask, flags, n_tokens, max_window, result);
}

/*
 * Sends what there is over a link, as far as its socket has room and then some for a request; a
 * link that is closed or to an agent that does not take verdicts turns the log off. Returns in how
 * many milliseconds to call it again, idle_ms at most. One thread at a time.
 */
int verdict_log_send(struct link *link, int idle_ms);

#endif
