/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The batch gate decides which request gets one of the scheduler's slots, and when memory pressure
 * holds or refuses the queued requests (the SPEC's D3).
 *
 * Only bs_notify_pressure raises the gate's pressure level. The engine calls it, with the level of
 * that moment, when admission has denied a request. A level alone, TIGHT included, blocks nothing.
 * The gate's pressure level then rises  only by a further bs_notify_pressure; falls  by
 * bs_notify_pressure with a lower level, or when the live level (pn_memwatch) is below it: it takes
 * the live level; lapses to OK BS_DENIAL_MS after the last denial, unless the live level is
 * CRITICAL. Without this, a machine that rests at TIGHT (the SPEC's mini does) would hold for ever.
 * While it is at or above BS_PRESSURE_HOLD_LEVEL no slot is granted: requests queue. At CRITICAL
 * the gate refuses queued and arriving requests at once with BS_REFUSED, the engine's 503, and a
 * Retry-After hint. Requests that have a slot are never touched.
 *
 * Below the hold level a request waits only for a free slot. Grants are strictly first come, first
 * served. The first hold starts one thread per gate, which listens to pn_memwatch while the gate
 * is held and sleeps otherwise; bs_free ends it.
 *
 * Threads: every function may be called from any thread, bs_free only when no other call is in
 * progress or can follow. None may be called from a signal handler. The gate does not survive a
 * fork in the child.
 */
#ifndef PN_BATCH_H
#define PN_BATCH_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "pn_mem_state.h"
#include "pn_memwatch.h" /* PN_API */

#ifdef __cplusplus
extern "C" {
#endif

/* Pressure level from which the gate holds requests in the queue. */
#define BS_PRESSURE_HOLD_LEVEL PN_MEM_LEVEL_TIGHT

/* How long one denial counts, milliseconds: the window of the kernel's PSI avg10. */
#define BS_DENIAL_MS 10000

/* Most slots of one gate. The state kept is 8 bytes a slot. */
#define BS_SLOTS_MAX 65536

/*
 * Retry-After hint, milliseconds. The least is the smallest whole second, four times the
 * 250 ms for which a level is held; the most keeps a client of a deep queue from giving up.
 */
#define BS_RETRY_AFTER_MIN_MS 1000
#define BS_RETRY_AFTER_MAX_MS 30000

/* Why a wait ended without a slot. */
enum {
	BS_REFUSED = -EAGAIN,     /* CRITICAL: answer 503 with the Retry-After hint */
	BS_TIMEDOUT = -ETIMEDOUT, /* the deadline passed first */
	BS_CANCELED = -ECANCELED, /* bs_cancel */
	BS_SHUTDOWN = -ESHUTDOWN, /* bs_shutdown */
};

typedef struct bs_sched bs_sched;

/*
 * Names one request to bs_cancel. The caller owns it and zeroes it before use. It must outlive
 * bs_slot_acquire and every bs_cancel on it. Only the gate reads and writes its fields.
 */
typedef struct {
	void *waiter;
	bool canceled;
} bs_request;

/* The results of bs_slot_acquire other than its return value. */
typedef struct {
	int slot;                /* on 0: 0..slots-1, below the ceiling of that moment */
	uint32_t retry_after_ms; /* on BS_REFUSED: when to come back */
} bs_grant;

typedef struct {
	int slots;          /* as given to bs_new */
	int ceiling;        /* in force */
	int running;        /* slots taken; above the ceiling after it was lowered */
	uint32_t waiting;   /* requests queued */
	int pressure_level; /* pn_mem_level, see above */
	uint64_t granted;   /* slots given since bs_new */
	uint64_t refused;   /* BS_REFUSED given */
} bs_stats;

/*
 * Creates a gate over `slots` decode slots, 1..BS_SLOTS_MAX: the operator's cap. ceiling is the
 * ladder's rung 2 for the level at this moment (pn_ladder_plan.max_slots), and is clamped to
 * 1..slots. Returns 0, -EINVAL or -ENOMEM; *ret belongs to the caller, who ends it by bs_free.
 */
PN_API int bs_new(bs_sched **ret, int slots, int ceiling);

/*
 * Ends the gate and its thread (which may take 50 ms to notice). No request may be waiting, which
 * is asserted: call bs_shutdown and let them leave first. NULL is allowed.
 */
PN_API void bs_free(bs_sched *bs);

/*
 * Changes the ceiling, clamped to 1..slots. Raising it grants slots at once; lowering it takes
 * none away: running requests finish, and nothing is granted until they are below it.
 */
PN_API void bs_set_ceiling(bs_sched *bs, int ceiling);

/*
 * The bind guard: may decode state be bound for n_slots slots under the ceiling in force? The
 * level, and so the ceiling, may have changed since the scheduler was created.
 * Returns 0, BS_REFUSED (fail this request, nothing has been touched), or -EINVAL below 1.
 */
PN_API int bs_bind_check(bs_sched *bs, int n_slots);

/*
 * Waits for a slot. request may be NULL for one that is never cancelled. deadline_ns is
 * CLOCK_MONOTONIC, UINT64_MAX for none, 0 not to sleep at all (a try).
 * Returns 0 with ret->slot, which the caller gives back by bs_slot_release; BS_REFUSED with
 * ret->retry_after_ms; BS_TIMEDOUT, BS_CANCELED, BS_SHUTDOWN with *ret untouched. A slot granted
 * while the deadline passes is a grant.
 *
 * The hint estimates when a slot would be free for this request if the requests refused before it
 * under the same pressure had kept their places in the queue. It is their number times the recent
 * mean holding time, divided by the ceiling. Clients that obey the hint therefore do not all come
 * back at one moment.
 */
PN_API int bs_slot_acquire(bs_sched *bs, bs_request *request, uint64_t deadline_ns, bs_grant *ret);

/*
 * Gives a slot back. The first request in the queue gets it if the gate is open.
 * Returns 0, or -EINVAL if the slot was not taken.
 */
PN_API int bs_slot_release(bs_sched *bs, int slot);

/*
 * Reports a denial. level is the live pn_mem_level at which admission denied the request. At
 * CRITICAL every queued request has been refused when this returns. Returns 0; -EINVAL for a level
 * outside 0..3; -EAGAIN if the listening thread could not be started: the hold stands, and ends by
 * bs_notify_pressure only.
 */
PN_API int bs_notify_pressure(bs_sched *bs, int level);

/*
 * Takes the request out of the queue, or, if it is not there yet, lets its bs_slot_acquire return
 * BS_CANCELED at once. One that already has its slot keeps it.
 */
PN_API void bs_cancel(bs_sched *bs, bs_request *request);

/* Ends all waits, present and future, with BS_SHUTDOWN. Slots can still be released. */
PN_API void bs_shutdown(bs_sched *bs);

/* Copies the figures of one moment to *ret. */
PN_API void bs_read_stats(bs_sched *bs, bs_stats *ret);

#ifdef __cplusplus
}
#endif

#endif
