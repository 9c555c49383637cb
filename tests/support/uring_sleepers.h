/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many sleepers on a word of a page, without a thread for each: io_uring requests that wait for a
 * futex (Linux 6.7 and later).
 */
#ifndef PNMEM_SUPPORT_URING_SLEEPERS_H
#define PNMEM_SUPPORT_URING_SLEEPERS_H

#include <linux/io_uring.h>
#include <stdint.h>

struct uring_sleepers {
	int fd;
	unsigned n_entries;
	void *rings;
	struct io_uring_sqe *sqes;
	unsigned *sq_tail, *sq_array, *cq_head, *cq_tail;
	unsigned sq_mask;
};

/* 0 or -errno; -EOPNOTSUPP where the kernel has no io_uring, forbids it, or cannot wait so. */
int uring_sleepers_open(struct uring_sleepers *ret_sleepers);

/* n more sleep on this word as long as it has its present value. 0 or -errno. */
int uring_sleepers_add(struct uring_sleepers *sleepers, const _Atomic uint32_t *word, unsigned n);

/* How many have woken since the last call. */
unsigned uring_sleepers_woken(struct uring_sleepers *sleepers);

void uring_sleepers_close(struct uring_sleepers *sleepers);

#endif
