/* SPDX-License-Identifier: BSD-2-Clause */
/* The ledger of reservations: entries and their ends, sums, and what a view makes of them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "admission_fixture.h"
#include "core/ledger_view.h"

static const struct ledger_where host = { .die = LEDGER_HOST };
static struct ledger ledger;
static int owners[8];

static int setup(void **state)
{
	memset(&ledger, 0, sizeof(ledger));
	return 0;
}

static struct ledger_entry entry(int owner, uint64_t id, uint64_t bytes, uint64_t expiry_ns)
{
	return (struct ledger_entry){
		.owner = &owners[owner],
		.id = id,
		.bytes = bytes,
		.expiry_ns = expiry_ns,
		.where = host,
		.uid = 1000u + (unsigned)owner,
	};
}

static int add(int owner, uint64_t id, uint64_t bytes, uint64_t expiry_ns)
{
	struct ledger_entry e = entry(owner, id, bytes, expiry_ns);

	return ledger_add(&ledger, &e, UINT64_MAX);
}

static void adding(void **state)
{
	static const struct {
		int owner;
		uint64_t id, bytes, room_bytes;
		int r;
	} rows[] = {
		{ 0, 0, 1, 10, -EINVAL },
		{ 0, 1, 0, 10, -EINVAL },
		{ 0, 1, 11, 10, -ENOSPC },
		{ 0, 1, 10, 10, 0 },
		{ 0, 1, 1, 10, -EEXIST }, /* an id is its owner's own */
		{ 1, 1, 1, 10, 0 },
		{ 0, 2, 1, 0, -ENOSPC },
		{ 0, UINT64_MAX, UINT64_MAX, UINT64_MAX, 0 },
	};

	for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
		struct ledger_entry e = entry(rows[i].owner, rows[i].id, rows[i].bytes, 100);

		assert_int_equal(ledger_add(&ledger, &e, rows[i].room_bytes), rows[i].r);
	}
	assert_int_equal(ledger.count, 3);
	assert_int_equal(ledger_sum_bytes(&ledger, &host), UINT64_MAX); /* does not wrap */
	assert_int_equal(ledger_owner_bytes(&ledger, &host, &owners[1]), 1);
	assert_null(ledger_find(&ledger, &owners[1], 2));
	assert_int_equal(ledger_find(&ledger, &owners[0], 1)->bytes, 10);
	assert_int_equal(ledger_find(&ledger, &owners[1], 1)->bytes, 1);
}

/* Until each bound is met; what is freed can be had again. */
static void bounds(void **state)
{
	struct ledger_entry e;
	uint64_t id = 0;
	int r;

	while (!(r = add(0, ++id, 1, 100)))
		;
	assert_int_equal(r, -EDQUOT);
	assert_int_equal(ledger.count, LEDGER_OWNER_MAX);
	/* The same user through another process, as far as a user may go. */
	for (int owner = 1; owner < 8; owner++) {
		e = entry(owner, 1, 1, 100);
		e.uid = 1000;
		for (e.id = 1; !(r = ledger_add(&ledger, &e, 9)); e.id++)
			;
		assert_int_equal(r, -EDQUOT);
	}
	assert_int_equal(ledger.count, LEDGER_USER_MAX);
	assert_int_equal(ledger_remove_owner(&ledger, &owners[1]), LEDGER_OWNER_MAX);
	e.id = 1;
	assert_int_equal(ledger_add(&ledger, &e, 9), 0);
}

/* As many as this user can add, each by an owner of its own. */
static uint32_t fill_as(uint32_t uid, const void *group)
{
	static uint64_t id = 1000;
	struct ledger_entry e = entry(0, ++id, 1, 100);
	uint32_t n = 0;
	int r;

	e.uid = uid;
	e.group = group;
	do {
		e.owner = (const char *)owners + e.id;
		r = ledger_add(&ledger, &e, 9);
		n += !r;
		e.id = ++id;
	} while (!r);
	assert_int_equal(r, -EDQUOT);
	return n;
}

/* However many users take what they can, another one finds places, and so does uid 0. */
static void shares(void **state)
{
	assert_int_equal(fill_as(1, NULL), LEDGER_USER_MAX);
	for (uint32_t uid = 2; uid < 6; uid++)
		assert_true(fill_as(uid, NULL) > 0);
	assert_true(ledger.count < LEDGER_MAX - LEDGER_ROOT_KEPT);
	/* Of uid 0 each group is a user. */
	assert_true(fill_as(0, &owners[0]) >= LEDGER_ROOT_KEPT / 2);
	assert_true(fill_as(0, &owners[1]) > 0);
	assert_int_equal(fill_as(0, &owners[0]), 0);
	assert_true(ledger.count < LEDGER_MAX);
}

/* What one user says of a die that nobody samples is not another's, up to what it then has. */
static void unsampled(void **state)
{
	const struct die_id id = { .uuid = { 1 } };
	struct die_table dies = { .die[0] = { .id = id, .free_bytes = 50, .budget_bytes = 90 } };
	struct ledger_view theirs = { .name = &owners[0], .dies = &dies, .uid = 1 };
	struct ledger_view ours = { .name = &owners[1], .dies = &dies, .uid = 2 };
	struct ledger_entry e = entry(0, 1, UINT64_MAX / 2, 100);
	struct ledger_where where;
	pn_mem_ext ext = { 0 };

	assert_int_equal(ledger_where_find(&theirs, 0, &id, &e.where), 0);
	assert_int_equal(ledger_add(&ledger, &e, UINT64_MAX), 0);
	e = entry(0, 2, 30, 100);
	assert_int_equal(ledger_where_find(&theirs, 0, &id, &e.where), 0);
	assert_int_equal(ledger_add(&ledger, &e, UINT64_MAX), 0);
	assert_int_equal(ledger_where_find(&ours, 0, &id, &where), 0);
	assert_int_equal(ledger_room_bytes(&ledger, &where, NULL, &ours, NULL, NULL), 50);
	ledger_figures(&ledger, &ours, 0, &ext);
	assert_int_equal(ext.die_reserved_bytes[0], 0);
	ledger_figures(&ledger, &theirs, 0, &ext);
	assert_int_equal(ext.die_reserved_bytes[0], UINT64_MAX / 2 + 30);

	/* The agent samples it: what fits counts for all, and the rest for its user alone. */
	dies.die[0].total_bytes = 100;
	assert_true(ledger_share(&ledger, &dies));
	assert_false(ledger_share(&ledger, &dies));
	assert_int_equal(ledger_where_find(&ours, 0, &id, &where), 0);
	assert_int_equal(ledger_room_bytes(&ledger, &where, NULL, &ours, NULL, NULL), 20);
	ledger_figures(&ledger, &ours, 0, &ext);
	assert_int_equal(ext.die_reserved_bytes[0], 30);
	ledger_figures(&ledger, &theirs, 0, &ext);
	assert_int_equal(ext.die_reserved_bytes[0], UINT64_MAX / 2 + 30);
}

static void expiry(void **state)
{
	assert_int_equal(ledger_next_expiry_ns(&ledger), UINT64_MAX);
	add(0, 1, 10, 300);
	add(1, 1, 20, 100);
	add(0, 2, 40, 200);
	assert_int_equal(ledger_next_expiry_ns(&ledger), 100);
	assert_int_equal(ledger_expire(&ledger, 99), 0);
	assert_int_equal(ledger_expire(&ledger, 100), 1);
	assert_int_equal(ledger_sum_bytes(&ledger, &host), 50);
	assert_int_equal(ledger_next_expiry_ns(&ledger), 200);
	ledger_remove(&ledger, ledger_find(&ledger, &owners[0], 1));
	assert_int_equal(ledger.count, 1);
	assert_int_equal(ledger.entry[0].id, 2);
	assert_int_equal(ledger.entry[0].serial, 3);
	assert_int_equal(ledger_expire(&ledger, UINT64_MAX), 1);
	assert_int_equal(add(1, 1, 1, 1), 0);
	assert_int_equal(ledger.entry[0].serial, 4); /* never used again */
}

static void same_memory(void **state)
{
	const struct ledger_where x = { .die = 0, .id = { .uuid = { 1 } } };
	const struct ledger_where y = { .die = 0, .id = { .uuid = { 2 } } };
	const struct ledger_where moved = { .die = 7, .id = { .uuid = { 1 } } };
	const struct ledger_where by_place = { .die = 0, .view = &x }, other_place = { .die = 7 };
	const struct ledger_where elsewhere = { .die = 0, .view = &y };
	const struct {
		const struct ledger_where *a, *b;
		bool same;
	} rows[] = {
		{ &host, &host, true },
		{ &host, &by_place, false },
		{ &x, &x, true },
		{ &x, &y, false },
		{ &x, &moved, true }, /* a die is its id, wherever it is shown */
		{ &x, &by_place, false },
		{ &by_place, &by_place, true },
		{ &by_place, &elsewhere, false }, /* each view's own */
		{ &x, &other_place, false },
		{ &by_place, &other_place, false },
	};

	for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
		assert_int_equal(ledger_where_same(rows[i].a, rows[i].b), rows[i].same);
		assert_int_equal(ledger_where_same(rows[i].b, rows[i].a), rows[i].same);
	}
}

static bool is_visible(void *arg, const struct ledger_entry *e)
{
	return e->done_ns <= *(uint64_t *)arg;
}

static void commit(void **state)
{
	uint64_t seen_ns = 49;
	struct ledger_entry *e;

	add(0, 1, 10, 1000);
	add(0, 2, 20, 1000);
	e = ledger_find(&ledger, &owners[0], 1);
	e->made_ns = 20;
	/* When it was allocated is its owner's word, within what can be. */
	ledger_commit(e, 10, 50);
	assert_int_equal(e->done_ns, 20);
	ledger_commit(e, 60, 50);
	assert_int_equal(e->done_ns, 50);
	assert_int_equal(e->expiry_ns, 50 + LEDGER_SETTLE_NS);
	/* It counts, and cannot be ended again. */
	assert_null(ledger_find(&ledger, &owners[0], 1));
	assert_int_equal(ledger_sum_bytes(&ledger, &host), 30);
	assert_int_equal(add(0, 1, 1, 1), -EEXIST);
	assert_int_equal(ledger_settle(&ledger, is_visible, &seen_ns), 0);
	seen_ns = 50;
	assert_int_equal(ledger_settle(&ledger, is_visible, &seen_ns), 1); /* not the held one */
	assert_int_equal(ledger_sum_bytes(&ledger, &host), 20);
}

/* ---- a view ---------------------------------------------------------------------------------- */

static struct ledger_view view_of(const struct die_table *dies)
{
	return (struct ledger_view){ .name = owners, .dies = dies };
}

static struct die_table two_dies(void)
{
	return (struct die_table){ .die = {
					   [0] = { .id = { .uuid = { 1 } },
						   .free_bytes = 20 * GIB,
						   .budget_bytes = 23 * GIB },
					   [1] = { .free_bytes = 9 * GIB,
						   .budget_bytes = 23 * GIB },
					   [20] = { .id = { .uuid = { 3 } },
						    .free_bytes = 5 * GIB,
						    .budget_bytes = 23 * GIB },
					   [21] = { .id = { .uuid = { 4 } }, .closed = true },
				   } };
}

static void finding(void **state)
{
	const struct die_table dies = two_dies();
	const struct ledger_view view = view_of(&dies);
	const struct {
		int die;
		uint8_t uuid;
		int r, place;
	} rows[] = {
		{ LEDGER_HOST, 0, 0, LEDGER_HOST },
		{ 0, 0, 0, 0 },
		{ 1, 0, 0, 1 },
		{ 20, 0, 0, 20 },
		{ 2, 0, -ENODEV, 0 },
		{ 21, 0, -ENODEV, 0 }, /* nothing is known of its bytes */
		{ -2, 0, -EINVAL, 0 },
		{ DIE_TABLE_MAX, 0, -EINVAL, 0 },
		{ LEDGER_HOST, 3, 0, 20 },
		{ 0, 3, 0, 20 }, /* the id says which, not the place */
		{ 0, 9, -ENODEV, 0 },
		{ LEDGER_HOST, 4, -ENODEV, 0 },
	};

	for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
		const struct die_id id = { .uuid = { rows[i].uuid } };
		struct ledger_where where;

		assert_int_equal(ledger_where_find(&view, rows[i].die, &id, &where), rows[i].r);
		if (!rows[i].r)
			assert_int_equal(where.die, rows[i].place);
	}
}

/* Room and sums of a snapshot with 10 GiB above the reserve and 6 within a cgroup's limit. */
static void rooms(void **state)
{
	const struct admission_config config = default_config();
	struct die_table dies = two_dies();
	const struct ledger_view view = view_of(&dies);
	pn_mem_state s = big_host(10 * GIB, 0);
	pn_mem_ext ext = { .cgroup_limit_bytes = 20 * GIB, .cgroup_headroom_bytes = 7 * GIB };
	struct ledger_where die0, die1;
	struct ledger_entry e = entry(0, 1, 3 * GIB, 100);

	assert_int_equal(ledger_where_find(&view, 0, &(struct die_id){ 0 }, &die0), 0);
	assert_int_equal(ledger_where_find(&view, 1, &(struct die_id){ 0 }, &die1), 0);
	ledger_add(&ledger, &e, UINT64_MAX);
	e.id = 2;
	e.where = die0;
	ledger_add(&ledger, &e, UINT64_MAX);
	e.id = 3;
	e.bytes = 30 * GIB;
	e.where = die1;
	ledger_add(&ledger, &e, UINT64_MAX);
	e.id = 4;
	e.where = (struct ledger_where){ .die = 20, .id = { .uuid = { 3 } } };
	ledger_add(&ledger, &e, UINT64_MAX);

	/* Someone else's on the host: outside of the group's limit. */
	ledger_figures(&ledger, &view, 0, &ext);
	assert_int_equal(ext.host_reserved_bytes, 3 * GIB);
	assert_int_equal(ext.die_reserved_bytes[0], 3 * GIB);
	assert_int_equal(ext.die_reserved_bytes[1], 30 * GIB);
	assert_int_equal(ext.die_reserved_bytes[2], 0);
	assert_int_equal(ledger_room_bytes(&ledger, &host, &config, &view, &s, &ext), 6 * GIB);
	assert_int_equal(ledger_room_bytes(&ledger, &die0, &config, &view, &s, &ext), 17 * GIB);
	assert_int_equal(ledger_room_bytes(&ledger, &die1, &config, &view, &s, &ext), 0);
	/* Within it. */
	ledger_figures(&ledger, &view, 3 * GIB, &ext);
	assert_int_equal(ledger_room_bytes(&ledger, &host, &config, &view, &s, &ext), 3 * GIB);
	/* The host is what is short. */
	s.host_avail_bytes -= 6 * GIB;
	assert_int_equal(ledger_room_bytes(&ledger, &host, &config, &view, &s, &ext), 1 * GIB);

	/* A nameless die is not another view's of that place. */
	ledger_figures(&ledger, &(struct ledger_view){ .name = &ledger, .dies = &dies }, 0, &ext);
	assert_int_equal(ext.die_reserved_bytes[0], 3 * GIB);
	assert_int_equal(ext.die_reserved_bytes[1], 0);

	/* In a view that shows die 0 elsewhere, and another die at its place. */
	dies.die[5] = dies.die[0];
	dies.die[0].id.uuid[0] = 8;
	ledger_figures(&ledger, &view, 0, &ext);
	assert_int_equal(ext.die_reserved_bytes[0], 0);
	assert_int_equal(ext.die_reserved_bytes[5], 3 * GIB);
	memset(&ledger, 0, sizeof(ledger));
	ledger_figures(&ledger, &view, 0, &ext);
	assert_int_equal(ext.die_reserved_bytes[5] | ext.host_reserved_bytes, 0);
}

static void visible(void **state)
{
	struct die_table dies = two_dies();
	const struct ledger_view view = view_of(&dies);
	struct ledger_entry e = entry(0, 1, 1, 100);

	e.done_ns = 50;
	assert_false(ledger_visible(&e, &view, 49));
	assert_true(ledger_visible(&e, &view, 50));
	e.where = (struct ledger_where){ .die = 0, .id = { .uuid = { 1 } } };
	assert_false(ledger_visible(&e, &view, 1000));
	dies.die[0].sample_ns = 50;
	assert_true(ledger_visible(&e, &view, 0));
	/* No such die here: nothing to wait for. */
	e.where = (struct ledger_where){ .die = 0, .view = &ledger };
	assert_true(ledger_visible(&e, &view, 0));
}

/* ---- property ----------------------------------------------------------------------------------
 * Anything in any order, beside a model that is an array with a used flag. At every step the sum
 * is the model's, the bounds hold, and never is more promised than there is room.
 */

#define MODEL_MAX 2048
#define ROOM      1000000ull

struct model {
	bool used, done;
	int owner;
	uint64_t id, bytes, expiry_ns;
};

static struct model model[MODEL_MAX];
static int n_model;

static uint64_t model_sum(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < n_model; i++)
		sum += model[i].used ? model[i].bytes : 0;
	return sum;
}

static struct model *model_any(unsigned random)
{
	return n_model ? &model[random % (unsigned)n_model] : NULL;
}

static void model_step(unsigned what, unsigned random, uint64_t now_ns)
{
	struct model *m = model_any(random);
	struct ledger_entry *e;
	uint64_t bytes = random % 200000 + 1, room = ROOM - model_sum(), seen_ns = now_ns;

	if (what < 50 && n_model < MODEL_MAX) {
		struct model new = { true,
				     false,
				     (int)(random % 8),
				     (uint64_t)n_model + 1,
				     bytes,
				     now_ns + random % 50 + 1 };
		struct ledger_entry fresh = entry(new.owner, new.id, bytes, new.expiry_ns);
		int r = ledger_add(&ledger, &fresh, room);

		fresh.made_ns = now_ns;
		assert_int_equal(r, bytes > room ? -ENOSPC : 0);
		if (!r)
			model[n_model++] = new;
		return;
	}
	if (what < 80) {
		if (!m)
			return;
		e = ledger_find(&ledger, &owners[m->owner], m->id);
		assert_int_equal(!!e, m->used && !m->done);
		if (!e)
			return;
		assert_int_equal(e->bytes, m->bytes);
		if (what < 65) {
			ledger_remove(&ledger, e);
			m->used = false;
		} else {
			ledger_commit(e, now_ns, now_ns);
			m->done = true;
			m->expiry_ns = now_ns + LEDGER_SETTLE_NS;
		}
		return;
	}
	if (what < 90) {
		uint32_t n = 0;

		for (int i = 0; i < n_model; i++)
			if (model[i].used && model[i].done)
				model[i].used = false, n++;
		assert_int_equal(ledger_settle(&ledger, is_visible, &seen_ns), n);
	} else if (what < 93) {
		uint32_t n = 0;

		for (int i = 0; i < n_model; i++)
			if (model[i].used && model[i].owner == (int)(random % 8))
				model[i].used = false, n++;
		assert_int_equal(ledger_remove_owner(&ledger, &owners[random % 8]), n);
	}
}

static void anything(void **state)
{
	uint64_t now_ns = 1;

	srand(6);
	for (int round = 0; round < 20; round++) {
		memset(&ledger, 0, sizeof(ledger));
		n_model = 0;
		for (int i = 0; i < 2000; i++) {
			uint64_t next_ns = UINT64_MAX, serial = 0;

			model_step((unsigned)rand() % 100, (unsigned)rand(), now_ns);
			now_ns += (unsigned)rand() % 3;
			ledger_expire(&ledger, now_ns);
			for (int k = 0; k < n_model; k++) {
				if (model[k].used && model[k].expiry_ns <= now_ns)
					model[k].used = false;
				if (model[k].used && model[k].expiry_ns < next_ns)
					next_ns = model[k].expiry_ns;
			}
			assert_int_equal(ledger_sum_bytes(&ledger, &host), model_sum());
			assert_in_range(model_sum(), 0, ROOM);
			assert_int_equal(ledger_next_expiry_ns(&ledger), next_ns);
			for (uint32_t k = 0; k < ledger.count; k++) {
				assert_true(ledger.entry[k].serial > serial);
				serial = ledger.entry[k].serial;
			}
		}
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(adding, setup),   cmocka_unit_test_setup(bounds, setup),
		cmocka_unit_test_setup(shares, setup),   cmocka_unit_test_setup(unsampled, setup),
		cmocka_unit_test_setup(expiry, setup),   cmocka_unit_test(same_memory),
		cmocka_unit_test_setup(commit, setup),   cmocka_unit_test(finding),
		cmocka_unit_test_setup(rooms, setup),    cmocka_unit_test(visible),
		cmocka_unit_test_setup(anything, setup),
	};

	return cmocka_run_group_tests_name("ledger", tests, NULL, NULL);
}
