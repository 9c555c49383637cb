/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writing and reading trace records (core/trace_format.h) in memory. Pure: files, and what the
 * records mean together, are the callers'. Buffers need no alignment.
 */
#ifndef PNMEM_CORE_TRACE_H
#define PNMEM_CORE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/trace_format.h"
#include "pn_mem_state.h"

/*
 * The check word of bytes (a multiple of 8), with the four at check_at (a multiple of 4) taken as
 * 0: h = 0xcbf29ce484222325, and for each 64-bit word w: h = (h ^ w) * 0x9e3779b97f4a7c15, then
 * h ^= h >> 32; it is the upper 32 bits of h. Made to find cuts and rot, not forgery, at a
 * nanosecond or so a word.
 */
uint32_t trace_check(const void *buf, size_t bytes, size_t check_at);

/* ---- writing ---- */

/* A whole record's bytes for this payload, which is at most TRACE_PAYLOAD_MAX. */
size_t trace_record_bytes(size_t payload_bytes);

/*
 * Lays out a record, but for its check word, in buf, which has trace_record_bytes() of room: a
 * fixed part and, if text is not NULL, text with its NUL, cut off where it is too long. Returns
 * its bytes. trace_seal makes it ready for a file.
 */
size_t trace_put(void *buf, uint16_t kind, uint64_t ts_ns, const void *fixed, size_t fixed_bytes,
		 const char *text);

/* Sets the check word of a record. */
void trace_seal(void *record);

/* Room for what every file begins with. */
#define TRACE_START_BYTES 4096

/*
 * Lays out a file's start, sealed: the head (magic, version and sizes are filled in) and the
 * schemas, which all have the head's time. Returns its bytes, at most TRACE_START_BYTES; the number
 * of records in *ret_count.
 */
size_t trace_put_start(void *buf, const struct trace_head *head, uint64_t *ret_count);

/* The name of a kind ("look"); NULL for a kind that this program does not know. */
const char *trace_kind_name(unsigned kind);
/* The bytes of a kind's fixed part; 0 for a kind that this program does not know. */
size_t trace_kind_bytes(unsigned kind);

/* A snapshot as a record, and what of it a record holds (the dies apart). */
void trace_look_make(struct trace_look *ret, uint32_t view, const pn_mem_state *state,
		     const pn_mem_ext *ext);
void trace_look_unmake(const struct trace_look *look, pn_mem_state *ret_state, pn_mem_ext *ret_ext);

/* ---- reading ---- */

struct trace_record {
	uint16_t kind;
	uint64_t ts_ns;
	const unsigned char *payload; /* in the reader's buffer */
	size_t payload_bytes;         /* with up to 7 zeros at its end */
};

/*
 * The head of a file. Returns 0 with its length in *ret_used; -EAGAIN if there is more of it than
 * the bytes given; -EBADMSG if this is no trace file or its head is damaged. A ret->version above
 * TRACE_VERSION is for the caller to tell of; what can be read of such a file is right.
 */
int trace_read_head(const void *buf, size_t bytes, struct trace_head *ret, size_t *ret_used);

/*
 * The record at the start of buf. Returns 0 with its length in *ret_used; -EAGAIN if there is more
 * of it than the bytes given (TRACE_RECORD_MAX are always enough); -EBADMSG if it is damaged.
 */
int trace_read_record(const void *buf, size_t bytes, struct trace_record *ret, size_t *ret_used);

/* ---- a ring of records in memory ---- */

/* The largest record that a ring takes; larger ones are left out. */
#define TRACE_RING_RECORD_MAX 1024

/*
 * The newest records in a fixed block of memory; the oldest make room. One thread puts; another,
 * or another process that shares the memory (this struct too), may copy at the same time: what is
 * overwritten meanwhile is left out of the copy. Words are relaxed atomics: no data race by C11.
 * Positions count bytes since the start; modulo the length of the block they are places in it.
 */
struct trace_ring {
	uint64_t bytes;     /* of the block, a multiple of 8 */
	uint64_t tail_pos;  /* oldest record; what is below may be overwritten at any moment */
	uint64_t head_pos;  /* where the next one goes */
	uint64_t put_count; /* records put in */
	uint64_t old_count; /* of them overwritten */
};

/* The block has so many bytes, at least 2 * TRACE_RING_RECORD_MAX, and is 8-byte aligned. */
void trace_ring_init(struct trace_ring *ring, size_t bytes);

/* Puts a record in, unsealed, as trace_put does. Returns false if it is left out as too large. */
bool trace_ring_put(struct trace_ring *ring, void *block, uint16_t kind, uint64_t ts_ns,
		    const void *fixed, size_t fixed_bytes, const char *text);

/*
 * Copies whole records from *pos on (0: from the oldest) to buf, sealed, as many as fit in
 * buf_bytes (at least 2 * TRACE_RING_RECORD_MAX), and moves *pos behind them. Returns their bytes;
 * 0 at the head, or if the writer is too fast for it. Adds the number of records to *count. A *pos
 * that has been overwritten goes on at the oldest record.
 */
size_t trace_ring_copy(const struct trace_ring *ring, const void *block, uint64_t *pos, void *buf,
		       size_t buf_bytes, uint64_t *count);

#endif
