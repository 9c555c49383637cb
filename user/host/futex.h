/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleeping on a word of the snapshot page. Shared (not private) futexes: the page is mapped by
 * several processes; waiting works on a read-only mapping.
 */
#ifndef PNMEM_HOST_FUTEX_H
#define PNMEM_HOST_FUTEX_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * Sleeps while *word == expected, until woken with a bit of mask or CLOCK_MONOTONIC deadline_ns
 * (UINT64_MAX: none). Returns 0 (woken, perhaps for nothing), -EAGAIN, -ETIMEDOUT, -EINTR.
 */
static inline int futex_wait(const _Atomic uint32_t *word, uint32_t expected, uint32_t mask,
			     uint64_t deadline_ns)
{
	struct timespec deadline = {
		.tv_sec = (time_t)(deadline_ns / 1000000000),
		.tv_nsec = (long)(deadline_ns % 1000000000),
	};

	if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected,
		    deadline_ns == UINT64_MAX ? NULL : &deadline, NULL, mask) < 0)
		return -errno;
	return 0;
}

/*
 * Wakes at most max sleepers whose mask has a bit of this one. Returns how many the kernel woke:
 * where it is max, more may sleep.
 */
static inline int futex_wake_some(const _Atomic uint32_t *word, int max, uint32_t mask)
{
	long n = syscall(SYS_futex, word, FUTEX_WAKE_BITSET, max, NULL, NULL, mask);

	return n > 0 ? (int)n : 0;
}

/* Wakes all of them. */
static inline void futex_wake(const _Atomic uint32_t *word, uint32_t mask)
{
	futex_wake_some(word, INT_MAX, mask);
}

#define FUTEX_WAKE_ANY FUTEX_BITSET_MATCH_ANY

#endif
