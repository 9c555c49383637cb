/* SPDX-License-Identifier: BSD-2-Clause */
/* Trace records: written and read back, cut and damaged everywhere, and what the schemas say. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/trace_decode.h"

#define FILE_BYTES 16384

struct written {
	unsigned char bytes[FILE_BYTES];
	size_t used;
	size_t at[64]; /* where each record begins, and the end */
	unsigned count;
};

static void add(struct written *w, uint16_t kind, uint64_t ts_ns, const void *fixed, size_t bytes,
		const char *text)
{
	w->used += trace_put(w->bytes + w->used, kind, ts_ns, fixed, bytes, text);
	trace_seal(w->bytes + w->at[w->count]);
	w->at[++w->count] = w->used;
}

/* A head, its schemas, and three records of different kinds. */
static void write_file(struct written *w)
{
	const struct trace_head head = { .mono_ns = 5, .wall_ns = 6, .n_cpus = 2, .host = "h" };
	struct pn_event event = { .kind = PN_EVENT_STALL, .size = sizeof(event), .value = 99 };
	struct trace_name name = { .of = TRACE_NAME_CGROUP, .id = 12 };
	struct trace_end end = { .record_count = 3 };
	struct trace_record record;
	uint64_t count;
	size_t used;

	memset(w, 0, sizeof(*w));
	w->used = trace_put_start(w->bytes, &head, &count);
	assert_true(w->used <= TRACE_START_BYTES);
	assert_int_equal(count, TRACE_KIND_COUNT - 1);
	w->at[0] = sizeof(head);
	for (uint64_t i = 0; i < count; i++) {
		assert_int_equal(
			trace_read_record(w->bytes + w->at[i], w->used - w->at[i], &record, &used),
			0);
		w->at[++w->count] = w->at[i] + used;
	}
	assert_int_equal(w->at[w->count], w->used);
	add(w, TRACE_EVENT, 100, &event, sizeof(event), NULL);
	add(w, TRACE_NAME, 101, &name, sizeof(name), "/a/group");
	add(w, TRACE_END, 102, &end, sizeof(end), NULL);
}

/* Reads the first bytes of it. Returns the number of records, with how it ended in *ret_r. */
static unsigned read_bytes(const unsigned char *bytes, size_t n, int *ret_r)
{
	unsigned char *copy = malloc(n ? n : 1); /* so that ASan sees a read beyond */
	struct trace_head head;
	struct trace_record record;
	size_t at = 0, used = 0;
	unsigned count = 0;

	memcpy(copy, bytes, n);
	*ret_r = trace_read_head(copy, n, &head, &used);
	while (!*ret_r) {
		at += used;
		*ret_r = trace_read_record(copy + at, n - at, &record, &used);
		count += !*ret_r;
	}
	free(copy);
	return count;
}

static void test_round_trip(void **state)
{
	static struct written w;
	struct trace_head head;
	struct trace_record record;
	struct trace_item item;
	size_t used;
	int r;

	write_file(&w);
	assert_int_equal(trace_read_head(w.bytes, w.used, &head, &used), 0);
	assert_int_equal(used, sizeof(head));
	assert_int_equal(head.version, TRACE_VERSION);
	assert_int_equal(head.mono_ns, 5);
	assert_string_equal(head.host, "h");
	assert_int_equal(read_bytes(w.bytes, w.used, &r), w.count);
	assert_int_equal(r, -EAGAIN);

	assert_int_equal(trace_read_record(w.bytes + w.at[w.count - 3], FILE_BYTES, &record, &used),
			 0);
	assert_int_equal(record.kind, TRACE_EVENT);
	assert_int_equal(record.ts_ns, 100);
	assert_int_equal(trace_decode(&record, &item), 0);
	assert_int_equal(item.event.value, 99);
	assert_int_equal(trace_read_record(w.bytes + w.at[w.count - 2], FILE_BYTES, &record, &used),
			 0);
	assert_int_equal(trace_decode(&record, &item), 0);
	assert_int_equal(item.name.id, 12);
	assert_string_equal(item.text, "/a/group");
}

/* Up to the cut, whatever its place: all records before it, and no more. */
static void test_cut_anywhere(void **state)
{
	static struct written w;
	unsigned whole = 0;
	int r;

	write_file(&w);
	for (size_t n = 0; n <= w.used; n++) {
		while (whole < w.count && w.at[whole + 1] <= n)
			whole++;
		assert_int_equal(read_bytes(w.bytes, n, &r), whole);
		assert_int_equal(r, -EAGAIN);
	}
}

/* Any changed byte is found: no record behind it is read, and none before it is lost. */
static void test_damage_anywhere(void **state)
{
	static struct written w;
	unsigned whole = 0;
	int r;

	write_file(&w);
	for (size_t i = 0; i < w.used; i++) {
		while (whole < w.count && w.at[whole + 1] <= i)
			whole++;
		w.bytes[i] ^= 0x10;
		assert_int_equal(read_bytes(w.bytes, w.used, &r), i < w.at[0] ? 0 : whole);
		/* A longer length looks like a cut. */
		assert_true(r == -EBADMSG || r == -EAGAIN);
		w.bytes[i] ^= 0x10;
	}
}

static void test_foreign(void **state)
{
	static const char *const texts[] = { "MemTotal: 1 kB\n", "PNMEPTR2........", "\177ELF" };
	struct trace_head head;
	size_t used;

	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(trace_read_head(texts[i], strlen(texts[i]), &head, &used),
				 -EBADMSG);
}

static void fix_head(unsigned char *bytes, size_t head_bytes)
{
	struct trace_head head;

	memcpy(&head, bytes, sizeof(head));
	head.check = trace_check(bytes, head_bytes, offsetof(struct trace_head, check));
	memcpy(bytes, &head, sizeof(head));
}

/* A later version with a longer head, a longer record and a kind of its own. */
static void test_newer(void **state)
{
	static unsigned char bytes[FILE_BYTES];
	const struct trace_head from = { .host = "h" };
	struct {
		struct trace_end known;
		uint64_t more;
	} longer = { { 7 }, 8 };
	struct trace_head head, got;
	struct trace_record record;
	struct trace_item item;
	uint64_t count;
	size_t n, used;
	int r;

	trace_put_start(bytes, &from, &count);
	memcpy(&head, bytes, sizeof(head));
	head.version = TRACE_VERSION + 1;
	head.head_bytes = sizeof(head) + 8;
	memcpy(bytes, &head, sizeof(head));
	memset(bytes + sizeof(head), 0xaa, 8);
	fix_head(bytes, sizeof(head) + 8);
	n = sizeof(head) + 8;
	n += trace_put(bytes + n, 500, 1, &longer, sizeof(longer), "text");
	trace_seal(bytes + sizeof(head) + 8);
	used = n;
	n += trace_put(bytes + n, TRACE_END, 1, &longer, sizeof(longer), NULL);
	trace_seal(bytes + used);
	assert_int_equal(read_bytes(bytes, n, &r), 2);
	assert_int_equal(trace_read_head(bytes, n, &got, &used), 0);
	assert_int_equal(got.version, TRACE_VERSION + 1);
	assert_string_equal(got.host, "h");
	assert_int_equal(trace_read_record(bytes + used, n, &record, &used), 0);
	assert_int_equal(record.kind, 500);
	assert_null(trace_kind_name(record.kind));

	/* Fields that are not there are 0, those beyond are left out. */
	record = (struct trace_record){ .kind = TRACE_END,
					.payload = (const void *)&longer,
					.payload_bytes = 16 };
	assert_int_equal(trace_decode(&record, &item), 0);
	assert_int_equal(item.end.record_count, 7);
	record.payload_bytes = 0;
	assert_int_equal(trace_decode(&record, &item), 0);
	assert_int_equal(item.end.record_count, 0);
}

static size_t field_bytes(const char *type)
{
	unsigned bits, times = 1;

	if (type[0] == 'c')
		return strtoul(type + 1, NULL, 10);
	assert_true(sscanf(type + 1, "%u", &bits) == 1);
	if (strchr(type, 'x'))
		times = (unsigned)strtoul(strchr(type, 'x') + 1, NULL, 10);
	return bits / 8 * times;
}

/* The fields that a schema names are as long together as its kind's fixed part. */
static void check_schema(const struct trace_item *item)
{
	char name[16], *fields = strdup(item->text), *save;
	size_t bytes = 0;

	assert_int_equal(sscanf(fields, "%15s", name), 1);
	assert_string_equal(name, trace_kind_name(item->schema.kind));
	for (char *f = strtok_r(fields + strlen(name), ",", &save); f;
	     f = strtok_r(NULL, ",", &save)) {
		char type[16], field[64];

		assert_int_equal(sscanf(f, "%15s %63s", type, field), 2);
		if (strcmp(type, "text"))
			bytes += field_bytes(type);
	}
	assert_int_equal(bytes, item->schema.payload_bytes);
	assert_int_equal(bytes, trace_kind_bytes(item->schema.kind));
	free(fields);
}

static void test_schemas(void **state)
{
	static unsigned char start[TRACE_START_BYTES];
	const struct trace_head head = { .host = "h" };
	struct trace_record record;
	struct trace_item item;
	size_t at = sizeof(head), used;
	uint64_t count;

	trace_put_start(start, &head, &count);
	assert_int_equal(count, TRACE_KIND_COUNT - TRACE_SCHEMA);
	for (unsigned kind = TRACE_SCHEMA; kind < TRACE_KIND_COUNT; kind++, at += used) {
		assert_int_equal(trace_read_record(start + at, sizeof(start) - at, &record, &used),
				 0);
		assert_int_equal(trace_decode(&record, &item), 0);
		assert_int_equal(item.schema.kind, kind);
		check_schema(&item);
	}
	assert_null(trace_kind_name(TRACE_PAD));
	assert_null(trace_kind_name(TRACE_KIND_COUNT));
}

static void test_text(void **state)
{
	static unsigned char buf[TRACE_RECORD_MAX];
	static char huge[TRACE_RECORD_MAX + 100];
	struct trace_mark mark = { .of = TRACE_MARK_DUMP };
	struct trace_record record;
	struct trace_item item;
	size_t used;

	memset(huge, 'x', sizeof(huge) - 1);
	assert_int_equal(trace_put(buf, TRACE_MARK, 1, &mark, sizeof(mark), huge),
			 TRACE_RECORD_MAX);
	trace_seal(buf);
	assert_int_equal(trace_read_record(buf, sizeof(buf), &record, &used), 0);
	assert_int_equal(trace_decode(&record, &item), 0);
	assert_int_equal(strlen(item.text), TRACE_PAYLOAD_MAX - sizeof(mark) - 1);
	/* A text that is not there, and one that does not end. */
	record.payload_bytes = sizeof(mark);
	assert_int_equal(trace_decode(&record, &item), 0);
	assert_string_equal(item.text, "");
	record.payload_bytes = TRACE_PAYLOAD_MAX;
	buf[TRACE_RECORD_MAX - 1] = 'x';
	assert_int_equal(trace_decode(&record, &item), 0);
	assert_string_equal(item.text, "");
}

static void test_look(void **state)
{
	pn_mem_state s = { .host_avail_bytes = 3, .n_dies = 2, .level = PN_MEM_LEVEL_TIGHT }, s2;
	pn_mem_ext e = { .reasons = PN_REASON_CGROUP, .live_psi_some_avg10 = 1.5 }, e2;
	struct trace_look look, again;

	e.n_more_dies = 1;
	e.source_ns[PN_SRC_DIES] = 4;
	e.source_state[PN_SRC_CGROUP] = PN_SRC_STALE;
	trace_look_make(&look, 9, &s, &e);
	assert_int_equal(look.view, 9);
	assert_int_equal(look.n_dies, 3);
	trace_look_unmake(&look, &s2, &e2);
	assert_int_equal(s2.host_avail_bytes, 3);
	assert_int_equal(s2.level, PN_MEM_LEVEL_TIGHT);
	assert_int_equal(e2.source_ns[PN_SRC_DIES], 4);
	trace_look_make(&again, 9, &s2, &e2);
	again.n_dies = look.n_dies; /* the dies are records of their own */
	assert_memory_equal(&look, &again, sizeof(look));
	look.level = 77;
	trace_look_unmake(&look, &s2, &e2);
	assert_int_equal(s2.level, PN_MEM_LEVEL_CRITICAL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_damage_anywhere),
		cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_newer),
		cmocka_unit_test(test_schemas),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_look),
	};

	return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
