/* SPDX-License-Identifier: BSD-2-Clause */
/* Decoding of trace records: what is read from each, and which records are refused. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/dies.h"
#include "core/trace_decode.h"
#include "pn_admission.h"

/* Decodes from a block of exactly these bytes, so that ASan sees a read beyond it. */
static int decode(uint16_t kind, const void *payload, size_t bytes, struct trace_item *ret)
{
	unsigned char *copy = malloc(bytes ? bytes : 1);
	struct trace_record record = {
		.kind = kind,
		.ts_ns = 77,
		.payload = copy,
		.payload_bytes = bytes,
	};
	int r;

	memcpy(copy, payload, bytes);
	memset(ret, 0xaa, sizeof(*ret));
	r = trace_decode(&record, ret);
	assert_int_equal(ret->kind, kind);
	assert_int_equal(ret->ts_ns, 77);
	assert_string_equal(ret->text, "");
	ret->text = ""; /* it may lie in the block */
	free(copy);
	return r;
}

/* A field of a kind, the largest value that is taken, and the smallest. */
static const struct {
	uint16_t kind;
	size_t at, bytes;
	uint32_t least, most;
} ranges[] = {
#define RANGE(kind, type, field, least, most)                                                      \
	{                                                                                          \
		kind, offsetof(struct type, field), sizeof(((struct type *)0)->field), least, most \
	}
	RANGE(TRACE_CONFIG, trace_config, cgroup_level, 0, 1),
	RANGE(TRACE_CONFIG, trace_config, mode, 0, PN_MODE_POLL),
	RANGE(TRACE_NAME, trace_name, of, TRACE_NAME_CGROUP, TRACE_NAME_VIEW),
	RANGE(TRACE_EVENT, pn_event, kind, PN_EVENT_STALL, PN_EVENT_MEMCG),
	RANGE(TRACE_LOOK, trace_look, level, 0, PN_MEM_LEVEL_CRITICAL),
	RANGE(TRACE_LOOK, trace_look, wanted_level, 0, PN_MEM_LEVEL_CRITICAL),
	RANGE(TRACE_LOOK, trace_look, mode, 0, PN_MODE_POLL),
	RANGE(TRACE_LOOK, trace_look, n_dies, 0, DIE_TABLE_MAX),
	RANGE(TRACE_LOOK, trace_look, source_state[0], 0, PN_SRC_GONE),
	RANGE(TRACE_LOOK, trace_look, source_state[4], 0, PN_SRC_GONE),
	RANGE(TRACE_DIE, trace_die, index, 0, DIE_TABLE_MAX - 1),
	RANGE(TRACE_DIE, trace_die, state, 0, PN_SRC_GONE),
	RANGE(TRACE_VERDICT, trace_verdict, ask, TRACE_ASK_REQUEST, TRACE_ASK_SLOT),
	RANGE(TRACE_VERDICT, trace_verdict, verdict, 0, PN_VERDICT_REJECT),
	RANGE(TRACE_VERDICT, trace_verdict, check, 0, PN_CHECK_WINDOW),
	RANGE(TRACE_VERDICT, trace_verdict, level, 0, PN_MEM_LEVEL_CRITICAL),
	RANGE(TRACE_MARK, trace_mark, of, TRACE_MARK_DUMP, TRACE_MARK_VIEW_END),
#undef RANGE
};

/* Makes a record of this kind that the decoder takes. */
static void make(uint16_t kind, struct trace_item *ret)
{
	memset(ret, 0, sizeof(*ret));
	switch (kind) {
	case TRACE_NAME:
		ret->name.of = TRACE_NAME_VIEW;
		break;
	case TRACE_EVENT:
		ret->event.kind = PN_EVENT_STALL;
		break;
	case TRACE_VERDICT:
		ret->verdict.ask = TRACE_ASK_REQUEST;
		break;
	case TRACE_MARK:
		ret->mark.of = TRACE_MARK_DUMP;
		break;
	default:
		break;
	}
}

static int decode_with(unsigned i, uint32_t value)
{
	struct trace_item made, item;

	make(ranges[i].kind, &made);
	memcpy(made.fixed + ranges[i].at, &value, ranges[i].bytes); /* little endian */
	return decode(ranges[i].kind, made.fixed, trace_kind_bytes(ranges[i].kind), &item);
}

static void test_ranges(void **state)
{
	for (unsigned i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		assert_int_equal(decode_with(i, ranges[i].least), 0);
		assert_int_equal(decode_with(i, ranges[i].most), 0);
		assert_int_equal(decode_with(i, ranges[i].most + 1), -ERANGE);
		assert_int_equal(decode_with(i, UINT32_MAX), -ERANGE);
		if (ranges[i].least)
			assert_int_equal(decode_with(i, ranges[i].least - 1), -ERANGE);
	}
}

static void test_not_finite(void **state)
{
	static const struct {
		uint16_t kind;
		size_t at;
	} fields[] = {
		{ TRACE_CONFIG, offsetof(struct trace_config, psi_full_reject_pct) },
		{ TRACE_LOOK, offsetof(struct trace_look, host_psi_some_avg10) },
		{ TRACE_LOOK, offsetof(struct trace_look, host_psi_full_avg10) },
		{ TRACE_LOOK, offsetof(struct trace_look, live_psi_some_avg10) },
		{ TRACE_LOOK, offsetof(struct trace_look, live_psi_full_avg10) },
		{ TRACE_LOOK, offsetof(struct trace_look, cgroup_psi_some_avg10) },
		{ TRACE_LOOK, offsetof(struct trace_look, cgroup_psi_full_avg10) },
		{ TRACE_VERDICT, offsetof(struct trace_verdict, psi_full_pct) },
		{ TRACE_VERDICT, offsetof(struct trace_verdict, psi_limit_pct) },
	};
	static const double values[] = { NAN, INFINITY, -INFINITY };
	struct trace_item made, item;

	for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		for (unsigned j = 0; j < 3; j++) {
			uint16_t kind = fields[i].kind;

			make(kind, &made);
			memcpy(made.fixed + fields[i].at, &values[j], sizeof(values[j]));
			assert_int_equal(decode(kind, made.fixed, trace_kind_bytes(kind), &item),
					 -ERANGE);
		}
}

/*
 * A name of fixed length that fills its field is cut by one byte; an event has its record's time.
 */
static void test_completed(void **state)
{
	struct trace_item made, item;

	make(TRACE_EVENT, &made);
	memset(made.event.comm, 'c', sizeof(made.event.comm));
	made.event.ts_ns = 5;
	assert_int_equal(decode(TRACE_EVENT, made.fixed, sizeof(made.event), &item), 0);
	assert_string_equal(item.event.comm, "ccccccccccccccc");
	assert_int_equal(item.event.ts_ns, 77);
	make(TRACE_VERDICT, &made);
	memset(made.verdict.comm, 'v', sizeof(made.verdict.comm));
	assert_int_equal(decode(TRACE_VERDICT, made.fixed, sizeof(made.verdict), &item), 0);
	assert_string_equal(item.verdict.comm, "vvvvvvvvvvvvvvv");
	make(TRACE_DIE, &made);
	memset(made.die.pci, 'p', sizeof(made.die.pci));
	assert_int_equal(decode(TRACE_DIE, made.fixed, sizeof(made.die), &item), 0);
	assert_string_equal(item.die.pci, "ppppppppppppppp");
}

/* Every length of every kind: fields that are not there are 0, a longer record is cut. */
static void test_lengths(void **state)
{
	static const unsigned char zeros[sizeof(struct trace_look)];
	unsigned char ones[sizeof(struct trace_look) + 8];
	struct trace_item item;

	memset(ones, 1, sizeof(ones));
	for (uint16_t kind = TRACE_SCHEMA; kind <= TRACE_KIND_COUNT; kind++)
		for (size_t bytes = 0; bytes <= sizeof(ones); bytes++) {
			size_t fixed_bytes = trace_kind_bytes(kind);
			size_t there = bytes < fixed_bytes ? bytes : fixed_bytes;

			decode(kind, ones, bytes, &item);
			if (kind != TRACE_EVENT && kind != TRACE_DIE && kind != TRACE_VERDICT)
				assert_memory_equal(item.fixed, ones, there);
			if (kind != TRACE_EVENT) /* its time is the record's */
				assert_memory_equal(item.fixed + there, zeros, fixed_bytes - there);
		}
}

/* A kind of a later version is no error: the reader counts it. */
static void test_unknown_kind(void **state)
{
	static const char text[] = "not a text of ours";
	struct trace_item item;

	assert_int_equal(decode(TRACE_KIND_COUNT, text, sizeof(text), &item), 0);
	assert_int_equal(decode(UINT16_MAX, text, sizeof(text), &item), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),       cmocka_unit_test(test_not_finite),
		cmocka_unit_test(test_completed),    cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_unknown_kind),
	};

	return cmocka_run_group_tests_name("trace_decode", tests, NULL, NULL);
}
