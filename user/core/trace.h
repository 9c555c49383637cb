/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writing and reading trace records (core/trace_format.h) in memory. Pure. The callers handle files
 * and find out what the records mean together. Buffers need no alignment.
 */
#ifndef PNMEM_CORE_TRACE_H
#define PNMEM_CORE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/trace_format.h"
#include "pn_mem_state.h"

/*
 * The check word of a number of bytes (a multiple of 8). The four bytes at check_at (a multiple of
 * 4) are taken as 0. h begins as 0xcbf29ce484222325; for each 64-bit word w, h = (h ^ w) *
 * 0x9e3779b97f4a7c15 and then h ^= h >> 32. The check word is the upper 32 bits of h. It finds cuts
 * and damage, and no forgery, in about a nanosecond a word.
 */
uint32_t trace_check(const void *buf, size_t bytes, size_t check_at);

/* ---- writing ---- */

/* The bytes of a whole record with this payload, which is at most TRACE_PAYLOAD_MAX. */
size_t trace_record_bytes(size_t payload_bytes);

/*
 * Lays out a record without its check word in buf, which has room for trace_record_bytes(): a fixed
 * part and, if text is not NULL, the text with its NUL. A text that is too long is cut. Returns the
 * record's bytes. trace_seal makes the record ready for a file.
 */
size_t trace_put(void *buf, uint16_t kind, uint64_t ts_ns, const void *fixed, size_t fixed_bytes,
		 const char *text);

/* Sets the check word of a record. */
void trace_seal(void *record);

/* Room for the start of every file. */
#define TRACE_START_BYTES 4096

/*
 * Lays out the start of a file, sealed: the head, whose magic, version and sizes it fills in, and
 * the schemas, which have the head's time. Returns its bytes, at most TRACE_START_BYTES, with the
 * number of records in *ret_count.
 */
size_t trace_put_start(void *buf, const struct trace_head *head, uint64_t *ret_count);

/* The name of a kind ("look"); NULL for a kind that this program does not know. */
const char *trace_kind_name(unsigned kind);
/* The bytes of a kind's fixed part; 0 for a kind that this program does not know. */
size_t trace_kind_bytes(unsigned kind);

/* Makes a record of a snapshot, and a snapshot of a record. Dies have records of their own. */
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
 * Reads the head of a file. Returns 0 with its length in *ret_used; -EAGAIN if the head is longer
 * than the bytes given; -EBADMSG if this is not a trace file or its head is damaged. The caller
 * reports a ret->version above TRACE_VERSION. The records of such a file that can be read are
 * right.
 */
int trace_read_head(const void *buf, size_t bytes, struct trace_head *ret, size_t *ret_used);

/*
 * Reads the record at the start of buf. Returns 0 with its length in *ret_used; -EAGAIN if the
 * record is longer than the bytes given (TRACE_RECORD_MAX are always enough); -EBADMSG if it is
 * damaged.
 */
int trace_read_record(const void *buf, size_t bytes, struct trace_record *ret, size_t *ret_used);

/* ---- a ring of records in memory ---- */

/* The largest record that a ring takes; larger ones are left out. */
#define TRACE_RING_RECORD_MAX 1024

/*
 * The newest records in a fixed block of memory. A new record overwrites the oldest. One thread
 * puts records. Another thread, or a process that shares the block and this struct, may copy them
 * at the same time; records that are overwritten meanwhile are left out of the copy. Words are
 * relaxed atomics, so there is no data race by C11. A position counts bytes since the start; modulo
 * the length of the block it is a place in the block.
 */
struct trace_ring {
	uint64_t bytes;     /* of the block, a multiple of 8 */
	uint64_t tail_pos;  /* the oldest record; bytes below may be overwritten at any moment */
	uint64_t head_pos;  /* where the next one goes */
	uint64_t put_count; /* records put in */
	uint64_t old_count; /* records overwritten */
};

/* The block has so many bytes, at least 2 * TRACE_RING_RECORD_MAX, and is 8-byte aligned. */
void trace_ring_init(struct trace_ring *ring, size_t bytes);

/*
 * Puts a record in, unsealed, as trace_put does. Returns false if the record is too large, and
 * leaves it out.
 */
bool trace_ring_put(struct trace_ring *ring, void *block, uint16_t kind, uint64_t ts_ns,
		    const void *fixed, size_t fixed_bytes, const char *text);

/*
 * Copies whole records from *pos on (0: from the oldest) to buf, sealed, as many as fit in
 * buf_bytes (at least 2 * TRACE_RING_RECORD_MAX), and moves *pos behind them. If the record at *pos
 * has been overwritten, the copy begins at the oldest. Returns the bytes; 0 at the head, or if the
 * writer overwrites records faster than they are copied. Adds the number of records to *count.
 */
size_t trace_ring_copy(const struct trace_ring *ring, const void *block, uint64_t *pos, void *buf,
		       size_t buf_bytes, uint64_t *count);

#endif
