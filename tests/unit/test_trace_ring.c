/* SPDX-License-Identifier: BSD-2-Clause */
/* The ring of records: beside a plain list of what was put in, and copied while it is written. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/trace_decode.h"

#define PUTS      2000
#define TEXT_MAX  300
#define BUF_BYTES (2 * TRACE_RING_RECORD_MAX)

static char texts[PUTS][TEXT_MAX];

/* Calls fn for each record that a copy gives, from *pos on. Returns their number. */
static unsigned copy_all(const struct trace_ring *ring, const void *block, uint64_t *pos,
			 void (*fn)(void *arg, const struct trace_record *record), void *arg)
{
	unsigned char buf[BUF_BYTES];
	uint64_t count = 0;
	unsigned seen = 0;
	size_t bytes;

	while ((bytes = trace_ring_copy(ring, block, pos, buf, sizeof(buf), &count))) {
		for (size_t at = 0, used; at < bytes; at += used) {
			struct trace_record record;

			assert_int_equal(trace_read_record(buf + at, bytes - at, &record, &used),
					 0);
			fn(arg, &record);
			seen++;
		}
	}
	assert_int_equal(count, seen);
	return seen;
}

struct expect {
	unsigned next;
	size_t bytes;
};

static void expect_record(void *arg, const struct trace_record *record)
{
	struct expect *e = arg;
	struct trace_item item;

	assert_int_equal(record->ts_ns, e->next);
	assert_int_equal(trace_decode(record, &item), 0);
	assert_string_equal(item.text, texts[e->next]);
	e->bytes += trace_record_bytes(record->payload_bytes);
	e->next++;
}

/*
 * The newest records are there, in order and none of them twice, and as many as fit: the one that
 * was dropped last, and what padding there can be, are more than what is left.
 */
static void check(const struct trace_ring *ring, const void *block, unsigned put)
{
	struct expect e = { .next = (unsigned)ring->old_count };
	uint64_t pos = 0;

	assert_int_equal(ring->put_count, put);
	assert_int_equal(copy_all(ring, block, &pos, expect_record, &e), put - ring->old_count);
	assert_int_equal(e.next, put);
	assert_int_equal(pos, ring->head_pos);
	assert_true(e.bytes <= ring->bytes);
	if (ring->old_count)
		assert_true(e.bytes + 3 * trace_record_bytes(sizeof(struct trace_mark) + TEXT_MAX) >
			    ring->bytes);
}

static void test_against_a_list(void **state)
{
	static const size_t sizes[] = { 2048, 2056, 4096, 5000, 70000 };

	for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		unsigned char *block = calloc(1, sizes[s]);
		struct trace_mark mark = { .of = TRACE_MARK_TASK };
		struct trace_ring ring;
		unsigned random = 12345;

		trace_ring_init(&ring, sizes[s]);
		check(&ring, block, 0);
		for (unsigned i = 0; i < PUTS; i++) {
			random = random * 1103515245 + 12345;
			memset(texts[i], 'a' + (int)(i % 26), random >> 16 & 0xff);
			texts[i][random >> 16 & 0xff] = 0;
			assert_true(trace_ring_put(&ring, block, TRACE_MARK, i, &mark, sizeof(mark),
						   texts[i]));
			if (i < 200 || i % 16 == 0)
				check(&ring, block, i + 1);
		}
		free(block);
	}
}

static void expect_order(void *arg, const struct trace_record *record)
{
	uint64_t *next = arg;

	assert_int_equal(record->ts_ns, *next);
	++*next;
}

/* Records of one size that divide the block, and that leave 8 bytes of it, which hold no pad. */
static void test_fixed_sizes(void **state)
{
	struct pn_event event = { .kind = PN_EVENT_STALL };

	for (size_t bytes = 30 * 80; bytes < 31 * 80; bytes += 8) {
		unsigned char *block = calloc(1, bytes);
		uint64_t next = 970, pos = 0;
		struct trace_ring ring;

		trace_ring_init(&ring, bytes);
		for (unsigned i = 0; i < 1000; i++)
			trace_ring_put(&ring, block, TRACE_EVENT, i, &event, sizeof(event), NULL);
		assert_int_equal(copy_all(&ring, block, &pos, expect_order, &next), 30);
		assert_int_equal(next, 1000);
		/* From there on there is only what comes later. */
		trace_ring_put(&ring, block, TRACE_EVENT, 1000, &event, sizeof(event), NULL);
		assert_int_equal(copy_all(&ring, block, &pos, expect_order, &next), 1);
		free(block);
	}
}

static void test_too_large(void **state)
{
	_Alignas(8) unsigned char block[BUF_BYTES];
	struct trace_mark mark = { 0 };
	char text[TRACE_RING_RECORD_MAX];
	struct trace_ring ring;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	trace_ring_init(&ring, sizeof(block));
	assert_true(trace_ring_put(&ring, block, TRACE_MARK, 0, &mark, sizeof(mark), "fits"));
	assert_false(trace_ring_put(&ring, block, TRACE_MARK, 1, &mark, sizeof(mark), text));
	assert_int_equal(ring.put_count, 1);
	assert_int_equal(ring.old_count, 0);
}

/* What a dead writer left: whatever the block holds, a copy ends, and within the buffer. */
static void test_garbage(void **state)
{
	_Alignas(8) unsigned char block[4096];
	unsigned char buf[BUF_BYTES];
	unsigned random = 1;

	for (unsigned i = 0; i < 2000; i++) {
		struct trace_ring ring;
		uint64_t pos = 0, count = 0;

		trace_ring_init(&ring, sizeof(block));
		for (size_t j = 0; j < sizeof(block); j++) {
			random = random * 1103515245 + 12345;
			block[j] = random >> 16 & (i % 2 ? 0xff : 0x01);
		}
		ring.tail_pos = i % 3 ? 0 : i * 8;
		ring.head_pos = i % 5 ? 4096 : 0;
		while (trace_ring_copy(&ring, block, &pos, buf, sizeof(buf), &count))
			continue;
	}
}

/* ---- while it is written ---- */

struct shared {
	struct trace_ring ring;
	_Alignas(8) unsigned char block[16384];
	bool done;
};

#ifdef PN_TSAN
#define LIVE_PUTS 20000u
#else
#define LIVE_PUTS 200000u
#endif

static void *put_thread(void *arg)
{
	struct shared *shared = arg;
	struct pn_event event = { .kind = PN_EVENT_STALL };

	for (unsigned i = 1; i <= LIVE_PUTS; i++) {
		event.value = i;
		event.cgroup_id = ~(uint64_t)i;
		trace_ring_put(&shared->ring, shared->block, TRACE_EVENT, i, &event, sizeof(event),
			       NULL);
	}
	__atomic_store_n(&shared->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Newer than the one before, and of one piece. */
static void expect_whole(void *arg, const struct trace_record *record)
{
	uint64_t *last = arg;
	struct trace_item item;

	assert_int_equal(trace_decode(record, &item), 0);
	assert_int_equal(item.event.value, record->ts_ns);
	assert_int_equal(item.event.cgroup_id, ~record->ts_ns);
	assert_true(record->ts_ns > *last);
	*last = record->ts_ns;
}

static void test_live(void **state)
{
	struct shared *shared = calloc(1, sizeof(*shared));
	uint64_t pos = 0, last = 0;
	unsigned seen = 0;
	pthread_t thread;
	bool done;

	trace_ring_init(&shared->ring, sizeof(shared->block));
	assert_int_equal(pthread_create(&thread, NULL, put_thread, shared), 0);
	do {
		done = __atomic_load_n(&shared->done, __ATOMIC_ACQUIRE);
		seen += copy_all(&shared->ring, shared->block, &pos, expect_whole, &last);
	} while (!done);
	pthread_join(thread, NULL);
	assert_int_equal(last, LIVE_PUTS);
	assert_true(seen >= sizeof(shared->block) / 80 && seen <= LIVE_PUTS);
	free(shared);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_a_list), cmocka_unit_test(test_fixed_sizes),
		cmocka_unit_test(test_too_large),      cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_live),
	};

	return cmocka_run_group_tests_name("trace_ring", tests, NULL, NULL);
}
