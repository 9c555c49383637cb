/* SPDX-License-Identifier: BSD-2-Clause */
/* The die table: names of dies, pushes remembered and laid over samples, places. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/dies.h"

#define GIB (1ull << 30)

static struct die_id id(uint8_t uuid0, const char *pci)
{
	struct die_id ret = { .uuid = { uuid0 } };

	strcpy(ret.pci, pci);
	return ret;
}

static struct die_push push_of(int index, struct die_id name, uint64_t free_bytes, uint64_t push_ns)
{
	return (struct die_push){
		.index = index,
		.id = name,
		.free_bytes = free_bytes,
		.budget_bytes = 10 * GIB,
		.used_bytes = GIB,
		.push_ns = push_ns,
	};
}

static void test_pci(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "0000:3b:00.0", "0000:3b:00.0" },
		{ "3B:00.0", "0000:3b:00.0" },
		{ "00000000:3B:00.0", "0000:3b:00.0" },
		{ "1:a:1f.7", "0001:0a:1f.7" },
		{ "ffff:ff:1f.0", "ffff:ff:1f.0" },
		{ "", NULL },
		{ "3b", NULL },
		{ "3b:00", NULL },
		{ "3b:00.", NULL },
		{ ":00.0", NULL },
		{ "3b:20.0", NULL },
		{ "3b:00.8", NULL },
		{ "3b:00.0 ", NULL },
		{ "100:00.0", NULL },
		{ "10000:3B:00.0", "10000:3b:00.0" },
		{ "0fffffff:ff:1f.7", "fffffff:ff:1f.7" },
		{ "10000000:3b:00.0", NULL },
		{ "000000000:3b:00.0", NULL },
		{ "0:0:0:0.0", NULL },
		{ "GPU-1234", NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char pci[DIE_PCI_BYTES] = "unchanged";
		int r = die_pci_parse(cases[i].text, pci);

		assert_int_equal(r, cases[i].want ? 0 : -EINVAL);
		assert_string_equal(pci, cases[i].want ? cases[i].want : "unchanged");
	}
}

static void test_names(void **state)
{
	struct die_id none = { 0 }, a = id(1, ""), a_at = id(1, "0000:3b:00.0"),
		      at = id(0, "0000:3b:00.0"), b_at = id(2, "0000:3b:00.0");

	assert_false(die_id_is_known(&none));
	assert_true(die_id_is_known(&a) && die_id_is_known(&at));
	assert_true(die_id_is_same(&a, &a_at));
	assert_true(die_id_is_same(&at, &a_at));
	assert_false(die_id_is_same(&a, &at));      /* nothing in common */
	assert_false(die_id_is_same(&a_at, &b_at)); /* MIG: two UUIDs on one PCI id */
	assert_false(die_id_is_same(&none, &none));
	assert_false(die_id_is_same(&none, &at));
}

static void test_pushes(void **state)
{
	struct die_pushes pushes = { 0 };
	struct die_push p;

	p = push_of(2, (struct die_id){ 0 }, 5 * GIB, 7);
	assert_int_equal(die_pushes_set(&pushes, &p, GIB), 0);
	/* More free or used than there is: clamped to budget + reserve. */
	p.free_bytes = p.used_bytes = 99 * GIB;
	assert_int_equal(die_pushes_set(&pushes, &p, GIB), 0);
	assert_int_equal(pushes.count, 1);
	assert_int_equal(pushes.push[0].free_bytes, 11 * GIB);
	assert_int_equal(p.used_bytes, 11 * GIB);
	p.budget_bytes = UINT64_MAX;
	p.free_bytes = 3;
	assert_int_equal(die_pushes_set(&pushes, &p, GIB), 0);
	assert_int_equal(pushes.push[0].free_bytes, 3);
	/* By id is another push than by index, and the same one under either half of its name. */
	p = push_of(-1, id(9, "0000:01:00.0"), 1, 8);
	assert_int_equal(die_pushes_set(&pushes, &p, GIB), 0);
	p = push_of(-1, id(9, ""), 2, 9);
	assert_int_equal(die_pushes_set(&pushes, &p, GIB), 0);
	assert_int_equal(pushes.count, 2);
	assert_int_equal(pushes.push[1].free_bytes, 2);
	/* Taken back, once and again. */
	p.budget_bytes = 0;
	assert_int_equal(die_pushes_set(&pushes, &p, GIB), 0);
	assert_int_equal(pushes.count, 1);
	assert_int_equal(die_pushes_set(&pushes, &p, GIB), 0);
	assert_int_equal(pushes.count, 1);

	p = push_of(PN_MEM_MAX_DIES, (struct die_id){ 0 }, 1, 1);
	assert_int_equal(die_pushes_set(&pushes, &p, GIB), -EINVAL);
	p = push_of(-1, (struct die_id){ 0 }, 1, 1);
	assert_int_equal(die_pushes_set(&pushes, &p, GIB), -EINVAL);
	for (int i = 0; i < PN_MEM_MAX_DIES; i++) {
		p = push_of(i, (struct die_id){ 0 }, 1, 1);
		assert_int_equal(die_pushes_set(&pushes, &p, GIB), 0);
	}
	p = push_of(-1, id(3, ""), 1, 1);
	assert_int_equal(die_pushes_set(&pushes, &p, GIB), -ENOSPC);
	assert_int_equal(pushes.count, PN_MEM_MAX_DIES);
	assert_int_equal(die_budget_bytes(12 * GIB, GIB), 11 * GIB);
	assert_int_equal(die_budget_bytes(GIB / 2, GIB), 0);
}

static void sampled(struct die *die, struct die_id name, uint64_t free_bytes, uint64_t sample_ns)
{
	*die = (struct die){
		.id = name,
		.free_bytes = free_bytes,
		.budget_bytes = 11 * GIB,
		.sample_ns = sample_ns,
		.limit_ns = 100,
	};
}

/* If a die's total is known, no engine can push more than it, and none can set its budget. */
static void test_push_is_bounded(void **state)
{
	struct die_table table = { 0 };
	struct die_push p;

	sampled(&table.die[0], id(1, "0000:01:00.0"), 8 * GIB, 50);
	table.die[0].total_bytes = 12 * GIB;
	p = push_of(-1, id(1, ""), 7 * GIB, 60);
	p.budget_bytes = 3 * GIB;
	assert_int_equal(die_table_push(&table, &p), 0);
	assert_int_equal(table.die[0].free_bytes, 7 * GIB);
	p = push_of(0, (struct die_id){ 0 }, UINT64_MAX, 61);
	p.budget_bytes = p.used_bytes = UINT64_MAX;
	assert_int_equal(die_table_push(&table, &p), 0);
	assert_int_equal(table.die[0].free_bytes, 12 * GIB);
	assert_int_equal(table.die[0].used_bytes, 12 * GIB);
	assert_int_equal(table.die[0].budget_bytes, 11 * GIB);
	assert_int_equal(die_table_declared(&table), 0);
	/* One that has but an index is declared; a name is as good as a sample. */
	p.index = 3;
	assert_int_equal(die_table_push(&table, &p), 3);
	p = push_of(-1, id(9, ""), 1, 61);
	assert_int_equal(die_table_push(&table, &p), 1);
	assert_int_equal(die_table_declared(&table), 1 << 3);
}

/* The newer of sample and push says what is free, the newest push the budget; used adds up. */
static void test_push_over_sample(void **state)
{
	struct die_table table = { 0 };
	struct die_push p;

	sampled(&table.die[0], id(1, "0000:01:00.0"), 8 * GIB, 50);
	sampled(&table.die[1], id(2, "0000:02:00.0"), 9 * GIB, 50);
	p = push_of(-1, id(2, ""), 5 * GIB, 49);
	assert_int_equal(die_table_push(&table, &p), 1);
	assert_int_equal(table.die[1].free_bytes, 9 * GIB); /* the sample is newer */
	assert_int_equal(table.die[1].sample_ns, 50);
	assert_int_equal(table.die[1].budget_bytes, 10 * GIB);
	assert_int_equal(table.die[1].used_bytes, GIB);
	p = push_of(-1, id(0, "0000:02:00.0"), 4 * GIB, 51);
	p.budget_bytes = 9 * GIB;
	assert_int_equal(die_table_push(&table, &p), 1);
	assert_int_equal(table.die[1].free_bytes, 4 * GIB);
	assert_int_equal(table.die[1].sample_ns, 51);
	assert_int_equal(table.die[1].budget_bytes, 9 * GIB);
	assert_int_equal(table.die[1].used_bytes, 2 * GIB);
	/* An older push of another engine changes neither. */
	p = push_of(1, (struct die_id){ 0 }, 3 * GIB, 40);
	assert_int_equal(die_table_push(&table, &p), 1);
	assert_int_equal(table.die[1].free_bytes, 4 * GIB);
	assert_int_equal(table.die[1].budget_bytes, 9 * GIB);
	assert_int_equal(table.die[1].used_bytes, 3 * GIB);
	assert_int_equal(table.die[1].id.uuid[0], 2);
	/* One that is not sampled comes behind; its numbers have no limit. */
	p = push_of(-1, id(3, ""), GIB, 60);
	assert_int_equal(die_table_push(&table, &p), 2);
	assert_int_equal(table.die[2].limit_ns, 0);
	assert_int_equal(die_source_state(&table.die[2], 1000000), PN_SRC_OK);
	assert_int_equal(die_source_state(&table.die[1], 151), PN_SRC_OK);
	assert_int_equal(die_source_state(&table.die[1], 152), PN_SRC_STALE);
	assert_int_equal(die_table_count(&table), 3);
	assert_int_equal(die_table_shared(&table), 1 << 1);
	/* Closed to the sampler, opened by an engine. */
	memset(&table.die[2], 0, sizeof(table.die[2]));
	table.die[2].closed = true;
	table.die[2].id = id(3, "");
	assert_int_equal(die_source_state(&table.die[2], 9), PN_SRC_UNSUPPORTED);
	assert_int_equal(die_table_push(&table, &p), 2);
	assert_int_equal(die_source_state(&table.die[2], 9), PN_SRC_OK);
	assert_int_equal(table.die[2].free_bytes, GIB);
}

static void test_places(void **state)
{
	struct die_table table = { 0 };
	struct die_push p;
	struct die_id name;

	assert_int_equal(die_table_count(&table), 0);
	assert_int_equal(die_table_place(&table, 5), 5);
	assert_int_equal(die_table_place(&table, -1), 0);
	assert_int_equal(die_table_place(&table, DIE_TABLE_MAX), 0);
	for (int i = 0; i < DIE_TABLE_MAX; i++) {
		sampled(&table.die[i], id((uint8_t)(i + 1), ""), 1, 1);
		assert_int_equal(die_table_count(&table), i + 1);
	}
	assert_int_equal(die_table_place(&table, 3), -ENOSPC);
	p = push_of(-1, id(200, ""), 1, 1);
	assert_int_equal(die_table_push(&table, &p), -ENOSPC);
	name = id(DIE_TABLE_MAX, "");
	assert_int_equal(die_table_find(&table, &name), DIE_TABLE_MAX - 1);
	name = id(200, "");
	assert_int_equal(die_table_find(&table, &name), -ENOENT);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_push_is_bounded),
		cmocka_unit_test(test_pci),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_pushes),
		cmocka_unit_test(test_push_over_sample),
		cmocka_unit_test(test_places),
	};

	return cmocka_run_group_tests_name("dies", tests, NULL, NULL);
}
