/* SPDX-License-Identifier: BSD-2-Clause */
/* Sources in, snapshot out: worst-of, reasons, validity, the cgroup level, saturation, trend. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/merge.h"
#include "core/trend.h"

#define GIB (1ull << 30)
#define MIB (1ull << 20)
#define S   1000000000ull

/* A machine with all to spare: 64 GiB, no pressure, no limit, no die. */
struct setup {
	pn_host_sample sample;
	struct die_table dies;
	struct merge_input in;
	struct merge_state carry;
	struct level_config config;
	pn_mem_state state;
	pn_mem_ext ext;
};

static void setup_init(struct setup *t)
{
	memset(t, 0, sizeof(*t));
	t->config = level_config_default;
	t->config.hold_ns = 0;
	t->sample.total_bytes = 64 * GIB;
	t->sample.avail_bytes = 60 * GIB;
	t->sample.cgroup_headroom_bytes = UINT64_MAX;
	for (int i = PN_SRC_MEMINFO; i <= PN_SRC_CGROUP_PSI; i++) {
		t->sample.source_state[i] = PN_SRC_OK;
		t->sample.source_ns[i] = S;
	}
	t->in = (struct merge_input){
		.now_ns = S, .host = &t->sample, .cgroup = &t->sample, .dies = &t->dies
	};
}

static pn_mem_level look(struct setup *t)
{
	t->in.n_dies = die_table_count(&t->dies);
	return merge_look(&t->carry, &t->config, &t->in, &t->state, &t->ext);
}

static void expect(struct setup *t, pn_mem_level level, uint32_t reasons)
{
	assert_int_equal(look(t), level);
	assert_int_equal(t->state.level, level);
	assert_int_equal(t->ext.reasons, reasons);
}

static void test_ok(void **state)
{
	struct setup t;

	setup_init(&t);
	expect(&t, PN_MEM_LEVEL_OK, 0);
	assert_int_equal(t.state.host_total_bytes, 64 * GIB);
	assert_int_equal(t.state.host_avail_bytes, 60 * GIB);
	assert_int_equal(t.ext.host_reserve_bytes, 64 * GIB * 15 / 100);
	assert_int_equal(t.ext.source_state[PN_SRC_DIES], PN_SRC_ABSENT);
	assert_int_equal(t.ext.cgroup_headroom_bytes, UINT64_MAX);
	assert_int_equal(t.ext.exhaustion_ns, UINT64_MAX);
}

static void test_worst_of(void **state)
{
	struct setup t;

	setup_init(&t);
	t.sample.psi_some_avg10 = 0.5; /* WATCH */
	expect(&t, PN_MEM_LEVEL_WATCH, PN_REASON_PSI_SOME);
	t.sample.avail_bytes = 15 * GIB; /* WATCH too: both are reasons */
	expect(&t, PN_MEM_LEVEL_WATCH, PN_REASON_PSI_SOME | PN_REASON_HOST_BYTES);
	t.dies.die[1] = (struct die){ .free_bytes = GIB / 2, .budget_bytes = 16 * GIB }; /* TIGHT */
	expect(&t, PN_MEM_LEVEL_TIGHT, PN_REASON_DIE0 << 1);
	t.sample.psi_full_avg10 = 15; /* CRITICAL */
	expect(&t, PN_MEM_LEVEL_CRITICAL, PN_REASON_PSI_FULL);
	assert_int_equal(t.state.n_dies, 2);
	assert_int_equal(t.state.per_die_free[1], GIB / 2);
}

/* Levels use the larger of file and live; the SPEC's fields stay what the file says. */
static void test_live_psi(void **state)
{
	struct setup t;

	setup_init(&t);
	t.in.live_full_pct = 0.01;
	expect(&t, PN_MEM_LEVEL_TIGHT, PN_REASON_PSI_FULL);
	assert_true(t.state.host_psi_full_avg10 == 0);
	assert_true(t.ext.live_psi_full_avg10 == 0.01);
	t.in.live_full_pct = 0;
	t.sample.psi_full_avg10 = 0.01; /* the file still says so */
	expect(&t, PN_MEM_LEVEL_TIGHT, PN_REASON_PSI_FULL);
}

static void test_cgroup_level(void **state)
{
	struct setup t;

	setup_init(&t);
	t.sample.cgroup_current_bytes = 19 * GIB;
	t.sample.cgroup_max_bytes = 20 * GIB;
	t.sample.cgroup_limit_bytes = 20 * GIB;
	t.sample.cgroup_headroom_bytes = GIB; /* the reserve is min(1 GiB, 3 GiB) */
	expect(&t, PN_MEM_LEVEL_CRITICAL, PN_REASON_CGROUP);
	t.sample.cgroup_headroom_bytes = GIB + GIB / 4;
	expect(&t, PN_MEM_LEVEL_WATCH, PN_REASON_CGROUP);
	t.config.cgroup_level = false; /* PN_CGROUP_LEVEL=0: exactly the SPEC */
	expect(&t, PN_MEM_LEVEL_OK, 0);
	assert_int_equal(t.state.cgroup_max_bytes, 20 * GIB);
	/* field.md case 5: 25.69 GiB used of 26, of which 25.03 GiB inactive file: not small. */
	t.config.cgroup_level = true;
	t.sample.cgroup_limit_bytes = 26 * GIB;
	t.sample.cgroup_headroom_bytes = 25 * GIB;
	expect(&t, PN_MEM_LEVEL_OK, 0);
}

/* A source that never was good says nothing; one that went stale keeps its last value. */
static void test_validity(void **state)
{
	struct setup t;

	setup_init(&t);
	t.sample.total_bytes = t.sample.avail_bytes = 0;
	t.sample.source_ns[PN_SRC_MEMINFO] = 0;
	t.sample.source_state[PN_SRC_MEMINFO] = PN_SRC_STALE;
	expect(&t, PN_MEM_LEVEL_OK, PN_REASON_STALE);

	setup_init(&t);
	t.sample.avail_bytes = GIB;
	t.sample.source_state[PN_SRC_MEMINFO] = PN_SRC_STALE;
	expect(&t, PN_MEM_LEVEL_CRITICAL, PN_REASON_HOST_BYTES | PN_REASON_STALE);

	/* A group that was removed has no bytes: it must not hold a level up for ever. */
	setup_init(&t);
	t.config.cgroup_level = true;
	t.sample.cgroup_limit_bytes = GIB;
	t.sample.cgroup_headroom_bytes = t.sample.cgroup_current_bytes = 0;
	expect(&t, PN_MEM_LEVEL_CRITICAL, PN_REASON_CGROUP);
	setup_init(&t);
	t.config.cgroup_level = true;
	t.sample.cgroup_limit_bytes = t.sample.cgroup_max_bytes = GIB;
	t.sample.cgroup_headroom_bytes = 0;
	t.sample.source_state[PN_SRC_CGROUP] = PN_SRC_GONE;
	expect(&t, PN_MEM_LEVEL_OK, 0);
	assert_int_equal(t.state.cgroup_max_bytes, 0);
	assert_true(t.ext.cgroup_headroom_bytes == UINT64_MAX);

	/* PSI off: bytes alone decide. */
	setup_init(&t);
	t.sample.source_state[PN_SRC_PSI] = PN_SRC_UNSUPPORTED;
	t.sample.psi_full_avg10 = t.in.live_full_pct = 99;
	expect(&t, PN_MEM_LEVEL_OK, 0);
	t.sample.avail_bytes = GIB;
	expect(&t, PN_MEM_LEVEL_CRITICAL, PN_REASON_HOST_BYTES);

	/* An estimate of some counts as some does, and is marked. */
	setup_init(&t);
	t.sample.source_state[PN_SRC_PSI] = PN_SRC_ESTIMATED;
	t.in.live_some_pct = 10;
	expect(&t, PN_MEM_LEVEL_TIGHT, PN_REASON_PSI_SOME);
	assert_true(t.ext.live_psi_some_avg10 == 10);
	assert_int_equal(t.ext.source_state[PN_SRC_PSI], PN_SRC_ESTIMATED);
}

static struct die sampled_die(uint64_t free_bytes, uint64_t sample_ns)
{
	struct die die = {
		.free_bytes = free_bytes,
		.budget_bytes = 16 * GIB,
		.sample_ns = sample_ns,
		.limit_ns = 10 * S,
	};

	strcpy(die.id.pci, "0000:3b:00.0");
	die.id.uuid[0] = 7;
	return die;
}

/* Stale is stale, and never 0: the last numbers stay, and so does their level. */
static void test_die_ages(void **state)
{
	struct setup t;

	setup_init(&t);
	t.dies.die[0] = sampled_die(GIB / 2, S);
	expect(&t, PN_MEM_LEVEL_TIGHT, PN_REASON_DIE0);
	assert_int_equal(t.ext.die_state[0], PN_SRC_OK);
	assert_int_equal(t.ext.source_state[PN_SRC_DIES], PN_SRC_OK);
	t.in.now_ns = 11 * S;
	expect(&t, PN_MEM_LEVEL_TIGHT, PN_REASON_DIE0);
	t.in.now_ns++;
	expect(&t, PN_MEM_LEVEL_TIGHT, PN_REASON_DIE0 | PN_REASON_STALE);
	assert_int_equal(t.ext.die_state[0], PN_SRC_STALE);
	assert_int_equal(t.ext.source_state[PN_SRC_DIES], PN_SRC_STALE);
	assert_int_equal(t.state.per_die_free[0], GIB / 2);
	assert_int_equal(t.ext.die_sample_ns[0], S);
	assert_string_equal(t.ext.die_pci[0], "0000:3b:00.0");
	assert_int_equal(t.ext.die_uuid[0][0], 7);
	/* What an engine pushed has no limit. */
	t.dies.die[0].limit_ns = 0;
	expect(&t, PN_MEM_LEVEL_TIGHT, PN_REASON_DIE0);
	/* A sample from after this look's clock reading is fresh. */
	t.dies.die[0] = sampled_die(GIB / 2, 99 * S);
	expect(&t, PN_MEM_LEVEL_TIGHT, PN_REASON_DIE0);
}

/* One that must not be sampled, and one that never could be: there, without numbers or level. */
static void test_die_without_numbers(void **state)
{
	struct setup t;

	setup_init(&t);
	t.dies.die[2].closed = true;
	strcpy(t.dies.die[2].id.pci, "0000:5e:00.0");
	expect(&t, PN_MEM_LEVEL_OK, 0);
	assert_int_equal(t.state.n_dies, 3);
	assert_int_equal(t.ext.die_state[2], PN_SRC_UNSUPPORTED);
	assert_int_equal(t.ext.die_state[1], PN_SRC_ABSENT);
	assert_int_equal(t.ext.source_state[PN_SRC_DIES], PN_SRC_UNSUPPORTED);
	t.dies.die[2].closed = false;
	expect(&t, PN_MEM_LEVEL_OK, PN_REASON_STALE);
	assert_int_equal(t.ext.die_state[2], PN_SRC_STALE);
	memset(&t.dies, 0, sizeof(t.dies));
	expect(&t, PN_MEM_LEVEL_OK, 0);
	assert_int_equal(t.state.n_dies, 0);
	assert_int_equal(t.ext.die_pci[2][0], 0); /* nothing is left behind */
	assert_int_equal(t.ext.die_state[2], PN_SRC_ABSENT);
}

static void test_more_than_16_dies(void **state)
{
	struct setup t;

	setup_init(&t);
	for (int i = 0; i < DIE_TABLE_MAX; i++)
		t.dies.die[i] = sampled_die(15 * GIB + (uint64_t)i, S);
	expect(&t, PN_MEM_LEVEL_OK, 0);
	assert_int_equal(t.state.n_dies, 16);
	assert_int_equal(t.ext.n_more_dies, 16);
	assert_int_equal(t.state.per_die_free[15], 15 * GIB + 15);
	assert_int_equal(t.ext.more_die[0].free_bytes, 15 * GIB + 16);
	assert_int_equal(t.ext.more_die[15].free_bytes, 15 * GIB + 31);
	assert_string_equal(t.ext.more_die[15].pci, "0000:3b:00.0");
	assert_int_equal(t.ext.more_die[15].state, PN_SRC_OK);
	t.dies.die[20].free_bytes = GIB; /* TIGHT is below 1 GiB, WATCH below 2 */
	t.dies.die[3].free_bytes = GIB;
	expect(&t, PN_MEM_LEVEL_WATCH, PN_REASON_MORE_DIES | PN_REASON_DIE0 << 3);
	memset(&t.dies.die[17], 0, sizeof(t.dies.die[17]) * 15);
	t.dies.die[3].free_bytes = 15 * GIB;
	expect(&t, PN_MEM_LEVEL_OK, 0);
	assert_int_equal(t.ext.n_more_dies, 1);
	assert_int_equal(t.ext.more_die[1].budget_bytes, 0);
}

static void test_hold_and_changes(void **state)
{
	struct setup t;

	setup_init(&t);
	t.config.hold_ns = S / 4;
	t.sample.psi_full_avg10 = 1;
	expect(&t, PN_MEM_LEVEL_TIGHT, PN_REASON_PSI_FULL);
	assert_int_equal(t.ext.level_changes, 1);
	t.sample.psi_full_avg10 = 0;
	t.in.now_ns += 1;
	expect(&t, PN_MEM_LEVEL_TIGHT, PN_REASON_HELD);
	assert_int_equal(t.ext.wanted_level, PN_MEM_LEVEL_OK);
	assert_int_equal(t.ext.level_since_ns, S);
	t.in.now_ns += S / 4;
	expect(&t, PN_MEM_LEVEL_OK, 0);
	assert_int_equal(t.ext.level_changes, 2);
	assert_int_equal(t.ext.level_since_ns, t.in.now_ns);
}

static void test_saturation_and_trend(void **state)
{
	struct setup t;

	setup_init(&t);
	t.config.host_reserve_bytes = 4 * GIB;
	t.sample.avail_bytes = 34 * GIB;
	look(&t);
	assert_true(fabs(t.ext.saturation - 0.5) < 1e-9);
	t.sample.avail_bytes = 4 * GIB;
	look(&t);
	assert_true(t.ext.saturation == 1);

	/* Falling at 1 GiB a second for long enough: 10 GiB above the reserve last 10 s. */
	setup_init(&t);
	t.config.host_reserve_bytes = 4 * GIB;
	for (int i = 0; i <= 100; i++) {
		t.in.now_ns = S + (uint64_t)i * S / 10;
		t.sample.avail_bytes = 24 * GIB - (uint64_t)i * GIB / 10;
		look(&t);
	}
	assert_true(fabs((double)t.ext.exhaustion_ns / 1e9 - 10) < 0.1);
	/* field.md case 13: rising again, no underflow. */
	t.in.now_ns += 10 * S;
	t.sample.avail_bytes = 60 * GIB;
	look(&t);
	assert_int_equal(t.ext.exhaustion_ns, UINT64_MAX);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ok),
		cmocka_unit_test(test_worst_of),
		cmocka_unit_test(test_live_psi),
		cmocka_unit_test(test_cgroup_level),
		cmocka_unit_test(test_validity),
		cmocka_unit_test(test_die_ages),
		cmocka_unit_test(test_die_without_numbers),
		cmocka_unit_test(test_more_than_16_dies),
		cmocka_unit_test(test_hold_and_changes),
		cmocka_unit_test(test_saturation_and_trend),
	};

	return cmocka_run_group_tests_name("merge", tests, NULL, NULL);
}
