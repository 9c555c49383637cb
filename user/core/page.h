/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The snapshot page: layout, writer and reader of the shared memory between one publisher and any
 * number of engines.
 *
 * The SPEC's seqlock over several copies of the payload. With seq = 2k the copy k % PAGE_COPIES is
 * whole; to publish, the writer makes seq odd, fills the next copy, and sets seq to 2k + 2. A
 * reader takes the whole copy whatever seq is, odd or even, so a writer that dies in the middle of
 * a publish leaves readers undisturbed. Two copies would do for that; with more, a reader that is
 * slower than the writer (its cache lines are always the other CPU's) still gets through: only a
 * writer that goes all the way round during a read forces another try. Payload words are relaxed
 * atomics: no data race by C11.
 *
 * Sleeping on the page (futex) and making it (memfd) are left to the I/O layers.
 */
#ifndef PNMEM_CORE_PAGE_H
#define PNMEM_CORE_PAGE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "pn_mem_state.h"

#define PAGE_MAGIC      0x3147504d454d4e50ull /* "PNMEMPG1", little endian */
#define PAGE_ABI        1
#define PAGE_BYTES      12288u
#define PAGE_COPIES     4
#define PAGE_READ_TRIES 64
#define PAGE_THRESHOLDS 3 /* one below each level but the lowest */

#define PAGE_HAS_THRESHOLDS 1u

struct page_payload {
	pn_mem_state state;
	pn_mem_ext ext;
};

/* Append only. Sizes and offsets tell an older or newer reader where things are. */
struct page {
	uint64_t magic;
	uint32_t abi; /* changes only if old readers cannot go on */
	uint32_t page_bytes;
	uint32_t state_bytes;     /* sizeof the writer's pn_mem_state */
	uint32_t ext_bytes;       /* sizeof the writer's pn_mem_ext */
	uint16_t copy_count;      /* a power of two */
	uint16_t copy_offset;     /* of the first payload, from the start of the page */
	uint32_t copy_stride;     /* from one payload to the next */
	uint32_t ext_offset;      /* of the extension within a payload */
	_Atomic uint32_t retired; /* 1: the publisher has ended and said so */
	_Atomic uint64_t seq;
	_Atomic uint64_t heartbeat_ns; /* CLOCK_MONOTONIC of the last look */
	_Atomic uint32_t level_word;   /* futex: level changes */
	_Atomic uint32_t publish_word; /* futex: publishes */
	/* Bit n: per_die_used[n] is a sum over engines; each of them puts its own in its place. */
	_Atomic uint64_t shared_used;
	_Atomic uint32_t features; /* PAGE_HAS_...; 0 by a writer from before there were any */
	/* futex: the level crosses WATCH, TIGHT, CRITICAL, up or down. PAGE_HAS_THRESHOLDS. */
	_Atomic uint32_t threshold_word[PAGE_THRESHOLDS];
	/* Bit n: die n has no name nor sample: each engine that pushes it reads its own words. */
	_Atomic uint64_t declared;
	uint64_t reserved[4];
	struct page_payload copy[PAGE_COPIES];
};

_Static_assert(sizeof(pn_mem_state) == 464, "pn_mem_state is ABI");
_Static_assert(offsetof(pn_mem_state, per_die_free) == 64, "pn_mem_state is ABI");
_Static_assert(offsetof(pn_mem_state, level) == 448, "pn_mem_state is ABI");
_Static_assert(sizeof(pn_mem_ext) % 8 == 0, "copied by 64-bit words");
_Static_assert(offsetof(pn_mem_ext, source_ns) == 128, "pn_mem_ext is ABI");
_Static_assert(offsetof(pn_mem_ext, die_pci) == 648, "pn_mem_ext is ABI");
_Static_assert(offsetof(pn_mem_ext, more_die) == 928, "pn_mem_ext is ABI");
_Static_assert(offsetof(pn_mem_ext, host_reserved_bytes) == 2080, "pn_mem_ext is ABI");
_Static_assert(sizeof(pn_mem_die) == 72, "pn_mem_die is ABI");
_Static_assert(offsetof(struct page, seq) == 40, "page is ABI");
_Static_assert(offsetof(struct page, features) == 72, "page is ABI");
_Static_assert(offsetof(struct page, copy) == 128, "page is ABI");
_Static_assert(sizeof(struct page) <= PAGE_BYTES, "fits in its pages");
_Static_assert(sizeof(atomic_uint) == 4 && ATOMIC_INT_LOCK_FREE == 2, "a futex word");

/*
 * Makes an all-zero page ready, or one ready again that was retired: it keeps what was published
 * on it. The next snapshot is still to be published.
 */
void page_init(struct page *page);

/*
 * Publishes. One writer at a time. state->seq is set to the new snapshot's number: even, higher
 * than any before it, and at least min_seq, so that a publisher which takes over from another
 * one can go on above it. What the two say of dies that are not there must be 0.
 */
void page_publish(struct page *page, pn_mem_state *state, const pn_mem_ext *ext, uint64_t min_seq);

/*
 * A lower bound for seq from the clock: twice the microseconds since boot. Publishers publish
 * less than once in a microsecond, so one that starts from here is above all before it.
 */
uint64_t page_seq_floor(uint64_t now_ns);

/*
 * A page as checked by page_open: where things are is not read from shared memory again. It is
 * one word, so that a view can be re-opened while others read through it. Offsets and sizes are
 * in units of 8 bytes: from the low end, 16 bits ext_bytes, 16 ext_offset, 16 copy_stride, 8
 * copy_offset, 8 copy_count.
 */
struct page_view {
	const struct page *page;
	_Atomic uint64_t geometry;
};

/* Checks a mapping of mapped_bytes. Returns 0, -EPROTO (not a page, or of another ABI). */
int page_open(struct page_view *ret_view, const void *mapping, size_t mapped_bytes);

/*
 * Copies the current snapshot; either pointer may be NULL. Fields that the writer does not know
 * are 0; level and the counts of dies are forced into their ranges, and every text ends in it.
 * Returns 0, or -EAGAIN when PAGE_READ_TRIES tries all met a faster writer.
 */
int page_read(const struct page_view *view, pn_mem_state *ret_state, pn_mem_ext *ret_ext);

#endif
