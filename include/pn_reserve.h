/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reservations: bytes of the host or of a die that this process is about to allocate. While a
 * reservation is held, pn_reserve, pn_admit and the _ext functions of pn_admission.h do not count
 * its bytes as free in any other process. If two engines want the last 10 GiB, only one gets them.
 *
 *	r = pn_reserve(PN_RESERVE_HOST, bytes, 60000, &id, &fit_bytes);
 *	if (r < 0)
 *		... does not fit (-ENOSPC: fit_bytes would), do not begin
 *	... allocate, and touch it ...
 *	pn_commit(id);          or, if the allocation failed, pn_release(id);
 *
 * The agent keeps the ledger. A reservation ends with pn_commit, pn_release, its time to live, the
 * process, or its watch (pn_memwatch_stop). It reserves nothing in the kernel: a program that does
 * not ask is not held back, and the level does not count it. While a
 * process allocates under a reservation, other processes see that memory counted twice, in the
 * kernel's figures and in the reservation. They see less free memory than there is, never more.
 *
 * Without an agent, or with one that is too old for reservations, the library holds a reservation
 *in this process alone, and pn_reserve returns 1. It is compared with this machine's figures and
 * with the other reservations of this process, so two threads cannot reserve the same bytes; other
 * processes do not know of it. When an agent starts or returns, the library reports to it every
 * reservation that is still held. In its first second a new agent grants nothing else, so that it
 * does not give those bytes away; pn_reserve waits for that second to end. Only in that second the
 * agent takes a reported reservation even if it does not fit, because its memory may be half
 * allocated. If the agent refuses one later, the library holds it in this process alone and reports
 * that through pn_memwatch_log_to.
 *
 * A die that the agent does not sample and that is pushed by index alone has no name: it is known
 * to the engines of one cgroup, and so are reservations of it. Push dies by UUID or PCI id.
 *
 * Threads: every function may be called from any thread. They wait for the agent for
 * at most one second, or two while it starts, so do not call them on the hot path. They need a
 *running watch (pn_memwatch.h). The child of a fork has none of its parent's reservations.
 */
#ifndef PN_RESERVE_H
#define PN_RESERVE_H

#include <stddef.h>
#include <stdint.h>

#include "pn_memwatch.h" /* PN_API */

#ifdef __cplusplus
extern "C" {
#endif

/* Host memory: in place of a die's number. */
#define PN_RESERVE_HOST (-1)

/* Longest time to live, an hour. */
#define PN_RESERVE_TTL_MAX_MS 3600000u

/*
 * Reserves bytes of the host (PN_RESERVE_HOST) or of the die at a place in the snapshot, for ttl_ms
 * milliseconds at most. The bytes must fit into the figures that admission uses, less every
 * reservation, the caller's own included. For the host these are its available bytes above the
 * reserve and the cgroup's headroom above its own reserve; for a die they are its free bytes.
 *
 * Returns 0 (held by the agent) or 1 (no agent: held in this process alone) with *ret_id, which is
 * never 0 nor used again by this process. Or: -ENOSPC, it does not fit; -ENODEV, the snapshot has
 * no such die, or knows no bytes of it; -EINVAL, bytes 0, ttl_ms 0 or above the longest, die out of
 * range; -EDQUOT, 64 of this process, 128 of this user (unless root) or 512 of the machine are
 * held; -EAGAIN, agents came and went for three seconds; -ENODATA, the watch is not running.
 * *ret_fit_bytes, unless that pointer is NULL: with 0, 1 and -ENOSPC, what would have fitted at
 * that moment; else it is left alone.
 */
PN_API int pn_reserve(int die, uint64_t bytes, uint32_t ttl_ms, uint64_t *ret_id,
		      uint64_t *ret_fit_bytes);

/* The same for the die of this UUID (as cuDeviceGetUuid gives it). */
PN_API int pn_reserve_uuid(const uint8_t uuid[16], uint64_t bytes, uint32_t ttl_ms,
			   uint64_t *ret_id, uint64_t *ret_fit_bytes);

/*
 * The memory has been allocated and touched: the kernel's, or the driver's, figures count it now.
 * The reservation goes in the same publish that shows figures read after the allocation: for the
 * host before this returns; for a die with the next sample of it, within 10 seconds at most, or
 * before this returns if this process has pushed the die's figures (pn_memwatch_set_die) since it
 * reserved: it does so after the allocation and before this call. In every case the id is used up.
 * Returns 0; 1 if no agent knew of it; -ESTALE, no such reservation: it has expired, or was
 * committed or released; -ENODATA, the watch is not running.
 */
PN_API int pn_commit(uint64_t id);

/* Ends a reservation whose memory is not needed. Returns the same values as pn_commit. */
PN_API int pn_release(uint64_t id);

/* pn_reservation.state */
enum {
	PN_RESERVATION_HELD = 0,
	PN_RESERVATION_COMMITTED = 1, /* allocated, not seen in the figures yet */
};

/* One reservation, as pn_reservations lists them. */
typedef struct {
	uint64_t id; /* as its own process knows it */
	uint64_t bytes;
	uint32_t left_ms; /* until it expires */
	int32_t die;      /* place in the caller's snapshot; -1: host, or not in there */
	int32_t pid;      /* in the agent's pid namespace; 0: not known there */
	uint32_t uid;
	uint32_t state;   /* PN_RESERVATION_* */
	uint32_t is_host; /* 1: host memory, 0: of a die */
	uint8_t uuid[16]; /* of the die; all 0: unknown */
	char pci[16];     /* likewise; "": unknown */
} pn_reservation;

/*
 * Lists reservations, oldest first: to the administrator all of the machine, to another user that
 * user's own; the sums over all are in pn_mem_ext for everyone. Without an agent, those of this
 * process. Writes at most max to ret[]. Returns the number written, or -ENODATA as above.
 */
PN_API int pn_reservations(pn_reservation *ret, size_t max);

#ifdef __cplusplus
}
#endif

#endif
