/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GPU turn: one model's forwards, one at a time, and the buffers they use. It answers the
 * SPEC's "Concurrent-mutation hazard" section.
 *
 * Prefill, bind, decode and the asynchronous step all take the same ticket lock, first come,
 * first served. A step keeps it from begin until its poll has found all of its device work,
 * copies to the host included, drained; so no other work can start while device work of a step is
 * unfinished.
 *
 * A buffer that device work may see lives in a pn_turn_buf. It is read, and replaced by one of
 * another size, only under the turn. The one replaced is retired: it is freed when the turn under
 * which it was replaced ends, because only work of that very turn (a step that grows its own
 * staging area) can still be using it. A captured graph keeps addresses beyond the turn, so it is
 * valid only as long as pn_turn_generation has not moved.
 *
 * Threads: every function may be called from any thread, pn_turn_free only when no other call is
 * in progress or can follow; never from a signal handler. If a thread ends while it has the turn,
 * the turn stays taken. The turn does not survive a fork in the child.
 */
#ifndef PN_TURN_H
#define PN_TURN_H

#include <stddef.h>
#include <stdint.h>

#include "pn_memwatch.h" /* PN_API */

#ifdef __cplusplus
extern "C" {
#endif

/* The kind of work that a turn is for. */
typedef enum {
	PN_TURN_PREFILL = 1,
	PN_TURN_BIND = 2,   /* decode state for another number of slots */
	PN_TURN_DECODE = 3, /* one synchronous decode pass */
	PN_TURN_STEP = 4,   /* an asynchronous step, from begin until drained */
} pn_turn_kind;

typedef struct pn_turn pn_turn;

/*
 * A buffer under the turn. The caller owns its storage and zeroes it before use. Only the turn's
 * functions read and write its fields.
 */
typedef struct {
	void *ptr;
	size_t bytes;
} pn_turn_buf;

/* Frees a retired buffer. Called with the turn still taken; it must not call pn_turn functions. */
typedef void (*pn_turn_free_fn)(void *ctx, void *ptr);

typedef struct {
	uint64_t ticket;     /* the ticket that has the turn, 0: none */
	pn_turn_kind kind;   /* of that ticket, if any */
	uint32_t waiting;    /* threads queued */
	uint64_t generation; /* buffers replaced so far */
} pn_turn_stats;

/* Creates a free turn. 0 or -ENOMEM; *ret belongs to the caller, who ends it by pn_turn_free. */
PN_API int pn_turn_new(pn_turn **ret);

/*
 * Ends it. Nobody may have the turn or wait for it, which is asserted. Buffers still in their
 * pn_turn_buf are the caller's to free. NULL is allowed.
 */
PN_API void pn_turn_free(pn_turn *turn);

/*
 * Takes the turn. deadline_ns is CLOCK_MONOTONIC, UINT64_MAX for none, 0 not to sleep (a try).
 * *ret_ticket (never 0) names this turn in the calls below; a step's may be handed to the thread
 * that polls it. Tickets rise in the order in which the turn was asked for.
 * Returns 0; -ETIMEDOUT; -EINVAL for an unknown kind; -EDEADLK if this thread took the turn and
 * it has not ended. That includes a step that it began: it must be polled to its end first.
 */
PN_API int pn_turn_acquire(pn_turn *turn, pn_turn_kind kind, uint64_t deadline_ns,
			   uint64_t *ret_ticket);

/*
 * Ends the turn: frees what it retired, then hands on to the first in the queue. A step's turn is
 * ended, from any thread, by the poll that found it drained, not by begin; the other kinds by the
 * thread that took them.
 * Returns 0, or -EPERM: this ticket does not have the turn, or another thread must end it.
 */
PN_API int pn_turn_release(pn_turn *turn, uint64_t ticket);

/*
 * Copies the buffer's address to *ret_ptr (NULL: never set) and its size to *ret_bytes, which
 * may be NULL. Both hold until the turn ends or the buffer is replaced. 0, or -EPERM: not this
 * ticket's turn.
 */
PN_API int pn_turn_get(pn_turn *turn, uint64_t ticket, const pn_turn_buf *buf, void **ret_ptr,
		       size_t *ret_bytes);

/*
 * Puts `ptr` of `bytes` bytes into buf and retires the old one, which free_fn(ctx, old) frees at
 * the end of this turn (not called if there was none). The new one is ready: contents to be
 * carried over are the caller's to copy. ptr NULL empties buf.
 * One thread at a time under one ticket.
 * Returns 0; -EPERM: not this ticket's turn; -ENOMEM. On error nothing has changed and ptr is
 * still the caller's.
 */
PN_API int pn_turn_replace(pn_turn *turn, uint64_t ticket, pn_turn_buf *buf, void *ptr,
			   size_t bytes, pn_turn_free_fn free_fn, void *ctx);

/*
 * A count that every pn_turn_replace raises: note it when capturing a graph, and capture again
 * instead of replaying when it has moved. Meaningful under the turn.
 */
PN_API uint64_t pn_turn_generation(pn_turn *turn);

/* Copies the figures of one moment to *ret. */
PN_API void pn_turn_read_stats(pn_turn *turn, pn_turn_stats *ret);

#ifdef __cplusplus
}
#endif

#endif
