/* SPDX-License-Identifier: BSD-2-Clause */
/* See uring_sleepers.h. */
#include "support/uring_sleepers.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SUBMIT_MAX  1024
#define WOKEN_MAX   65536 /* room for as many between two calls of uring_sleepers_woken */
#define OP_WAIT     51    /* IORING_OP_FUTEX_WAIT, which the header need not have */
#define FUTEX2_U32  2
#define RINGS_BYTES (64 + WOKEN_MAX * sizeof(struct io_uring_cqe) + SUBMIT_MAX * 4 + 4096)
#define SQES_BYTES  (SUBMIT_MAX * sizeof(struct io_uring_sqe))

static int enter(const struct uring_sleepers *sleepers, unsigned n_submit)
{
	long n = syscall(SYS_io_uring_enter, sleepers->fd, n_submit, 0, IORING_ENTER_GETEVENTS,
			 NULL, 0);

	return n < 0 ? -errno : (int)n;
}

/* Whether the kernel knows the request: one with a value that is not the word's ends at once. */
static int probe(struct uring_sleepers *sleepers, const struct io_uring_params *params)
{
	static const _Atomic uint32_t word = 1;
	const struct io_uring_cqe *cqes =
		(const void *)((const char *)sleepers->rings + params->cq_off.cqes);
	int r = uring_sleepers_add(sleepers, &word, 0);

	sleepers->sqes[0].addr2 = 2;
	sleepers->sqes[0].addr = (uint64_t)(uintptr_t)&word;
	atomic_store_explicit((_Atomic unsigned *)sleepers->sq_tail, *sleepers->sq_tail + 1,
			      memory_order_release);
	r = r ? r : enter(sleepers, 1);
	if (r != 1 || !uring_sleepers_woken(sleepers) || cqes[0].res != -EAGAIN)
		return -EOPNOTSUPP;
	return 0;
}

int uring_sleepers_open(struct uring_sleepers *ret_sleepers)
{
	struct io_uring_params params = { .flags = IORING_SETUP_CQSIZE, .cq_entries = WOKEN_MAX };
	struct uring_sleepers sleepers = { .rings = MAP_FAILED, .sqes = MAP_FAILED };
	char *rings;
	int r;

	sleepers.fd = (int)syscall(SYS_io_uring_setup, SUBMIT_MAX, &params);
	if (sleepers.fd < 0)
		return errno == ENOSYS || errno == EPERM ? -EOPNOTSUPP : -errno;
	rings = mmap(NULL, RINGS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, sleepers.fd,
		     IORING_OFF_SQ_RING);
	sleepers.rings = rings;
	sleepers.sqes = mmap(NULL, SQES_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, sleepers.fd,
			     IORING_OFF_SQES);
	r = sleepers.rings == MAP_FAILED || sleepers.sqes == MAP_FAILED ? -errno : 0;
	if (!r) {
		sleepers.sq_tail = (unsigned *)(void *)(rings + params.sq_off.tail);
		sleepers.sq_array = (unsigned *)(void *)(rings + params.sq_off.array);
		sleepers.cq_head = (unsigned *)(void *)(rings + params.cq_off.head);
		sleepers.cq_tail = (unsigned *)(void *)(rings + params.cq_off.tail);
		sleepers.sq_mask = *(unsigned *)(void *)(rings + params.sq_off.ring_mask);
		r = probe(&sleepers, &params);
	}
	if (r)
		uring_sleepers_close(&sleepers);
	else
		*ret_sleepers = sleepers;
	return r;
}

int uring_sleepers_add(struct uring_sleepers *sleepers, const _Atomic uint32_t *word, unsigned n)
{
	const struct io_uring_sqe sleep = {
		.opcode = OP_WAIT,
		.fd = FUTEX2_U32,
		.addr = (uint64_t)(uintptr_t)word,
		.addr2 = atomic_load_explicit(word, memory_order_acquire),
		.addr3 = UINT32_MAX,
	};

	for (unsigned i = 0; i < SUBMIT_MAX; i++) {
		sleepers->sqes[i] = sleep;
		sleepers->sq_array[i] = i;
	}
	while (n) {
		unsigned batch = n < SUBMIT_MAX ? n : SUBMIT_MAX, tail = *sleepers->sq_tail;
		int r;

		for (unsigned i = 0; i < batch; i++)
			sleepers->sq_array[(tail + i) & sleepers->sq_mask] = i;
		atomic_store_explicit((_Atomic unsigned *)sleepers->sq_tail, tail + batch,
				      memory_order_release);
		r = enter(sleepers, batch);
		if (r < 0)
			return r;
		if ((unsigned)r != batch)
			return -EAGAIN;
		n -= batch;
	}
	return 0;
}

unsigned uring_sleepers_woken(struct uring_sleepers *sleepers)
{
	unsigned head = *sleepers->cq_head, tail;

	/* A wake is seen once this thread enters the kernel. */
	enter(sleepers, 0);
	tail = atomic_load_explicit((_Atomic unsigned *)sleepers->cq_tail, memory_order_acquire);
	atomic_store_explicit((_Atomic unsigned *)sleepers->cq_head, tail, memory_order_release);
	return tail - head;
}

void uring_sleepers_close(struct uring_sleepers *sleepers)
{
	if (sleepers->rings != MAP_FAILED)
		munmap(sleepers->rings, RINGS_BYTES);
	if (sleepers->sqes != MAP_FAILED)
		munmap(sleepers->sqes, SQES_BYTES);
	close(sleepers->fd);
}
