/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ring of records. A record is never split: if the next one does not fit at the end of the
 * block, the rest of the block is a pad. A copy is a seqlock's read with the tail as the sequence:
 * the writer moves the tail before it overwrites the records there. See trace.h.
 */
#include <stdatomic.h>
#include <string.h>

#include "core/trace.h"

#define WORD sizeof(uint64_t)

/* After so many copies that were wholly overwritten while they were made, the reader gives up. */
#define COPY_TRIES 1000

void trace_ring_init(struct trace_ring *ring, size_t bytes)
{
	*ring = (struct trace_ring){ .bytes = bytes & ~(size_t)7 };
}

static uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static void store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static uint64_t *word_at(const struct trace_ring *ring, const void *block, uint64_t pos)
{
	return (uint64_t *)((unsigned char *)block + pos % ring->bytes);
}

/* The first word of a record's head. */
static struct trace_record_head head_of(uint64_t word)
{
	struct trace_record_head head = { 0 };

	memcpy(&head, &word, WORD);
	return head;
}

/* A pad reaches to the end of the block, and may be shorter than a head. */
static bool is_pad(uint64_t left_bytes, uint64_t first_word)
{
	return left_bytes < sizeof(struct trace_record_head) ||
	       head_of(first_word).kind == TRACE_PAD;
}

/*
 * Frees the oldest records until there is room for bytes. Only the writer calls it, and only the
 * writer changes the words.
 */
static void make_room(struct trace_ring *ring, const void *block, uint64_t bytes)
{
	uint64_t tail = ring->tail_pos;

	while (ring->bytes - (ring->head_pos - tail) < bytes) {
		uint64_t left = ring->bytes - tail % ring->bytes;
		uint64_t first = load(word_at(ring, block, tail));

		if (is_pad(left, first)) {
			tail += left;
		} else {
			tail += head_of(first).bytes;
			store(&ring->old_count, ring->old_count + 1);
		}
	}
	store(&ring->tail_pos, tail);
	/* A reader that sees the old tail must not see what is written from here on. */
	atomic_thread_fence(memory_order_release);
}

bool trace_ring_put(struct trace_ring *ring, void *block, uint16_t kind, uint64_t ts_ns,
		    const void *fixed, size_t fixed_bytes, const char *text)
{
	_Alignas(8) unsigned char record[TRACE_RING_RECORD_MAX];
	size_t bytes = trace_record_bytes(fixed_bytes + (text ? strlen(text) + 1 : 0));
	uint64_t left = ring->bytes - ring->head_pos % ring->bytes, head = ring->head_pos, word;

	if (bytes > sizeof(record))
		return false;
	trace_put(record, kind, ts_ns, fixed, fixed_bytes, text);
	make_room(ring, block, left < bytes ? left + bytes : bytes);
	if (left < bytes) {
		store(word_at(ring, block, head), 0);
		head += left;
	}
	for (size_t i = 0; i < bytes; i += WORD) {
		memcpy(&word, record + i, WORD);
		store(word_at(ring, block, head) + i / WORD, word);
	}
	store(&ring->put_count, ring->put_count + 1);
	__atomic_store_n(&ring->head_pos, head + bytes, __ATOMIC_RELEASE);
	return true;
}

/* Copies the ring's words as they lie. Returns the number of bytes. */
static size_t copy_raw(const struct trace_ring *ring, const void *block, uint64_t pos, uint64_t end,
		       unsigned char *buf, size_t buf_bytes)
{
	uint64_t bytes = end - pos < buf_bytes ? end - pos : buf_bytes & ~(WORD - 1), word;

	for (uint64_t i = 0; i < bytes; i += WORD) {
		word = load(word_at(ring, block, pos + i));
		memcpy(buf + i, &word, WORD);
	}
	return bytes;
}

/* Keeps the whole records of the raw copy, which begins at *pos, and moves *pos behind them. */
static size_t keep_whole(const struct trace_ring *ring, uint64_t *pos, unsigned char *buf,
			 size_t from, size_t bytes, uint64_t *count)
{
	size_t kept = 0, at = from;

	while (at + WORD <= bytes) {
		uint64_t left = ring->bytes - *pos % ring->bytes, first;
		size_t record;

		memcpy(&first, buf + at, WORD);
		if (is_pad(left, first)) {
			*pos += left;
			at += left;
			continue;
		}
		record = head_of(first).bytes;
		if (record < sizeof(struct trace_record_head) || record > TRACE_RING_RECORD_MAX) {
			*pos += bytes - at; /* the writer's memory was not whole when it ended */
			break;
		}
		if (at + record > bytes)
			break;
		memmove(buf + kept, buf + at, record);
		trace_seal(buf + kept);
		kept += record;
		at += record;
		*pos += record;
		++*count;
	}
	return kept;
}

size_t trace_ring_copy(const struct trace_ring *ring, const void *block, uint64_t *pos, void *buf,
		       size_t buf_bytes, uint64_t *count)
{
	for (int i = 0; i < COPY_TRIES; i++) {
		uint64_t head = __atomic_load_n(&ring->head_pos, __ATOMIC_ACQUIRE), gone = 0;
		uint64_t tail = load(&ring->tail_pos);
		size_t bytes, kept;

		if (*pos < tail)
			*pos = tail;
		if (*pos == head)
			return 0;
		if (*pos > head)
			continue; /* the writer has come further between the two loads */
		bytes = copy_raw(ring, block, *pos, head, buf, buf_bytes);
		atomic_thread_fence(memory_order_acquire);
		tail = load(&ring->tail_pos);
		if (tail > *pos)
			gone = tail - *pos;
		if (gone >= bytes)
			continue; /* the writer overwrote all of it meanwhile */
		*pos += gone;
		kept = keep_whole(ring, pos, buf, gone, bytes, count);
		if (kept)
			return kept;
	}
	return 0;
}
