/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The formula of core/spared.h on generated stalls. Groups stall and run on CPUs in slots of time.
 * From that the test works out what the kernel's file would say of the host, what of it belongs to
 * the groups that are not spared, and what the two clocks of the hooks would say. After every look
 * the result must lie between the second and the first. PN_SPARED_RUNS: random runs, 400.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/spared.h"

#define CPUS_MAX   4
#define GROUPS_MAX 5
#define WEIGHTS    1000 /* the weights of the CPUs add up to that */
#define SLOT_NS    100700ull
#define SKEW_SLOTS 2
#define NS_PER_US  1000ull
/* A look can lose the fraction of a microsecond that its readings are rounded by. */
#define TOLERANCE_US 1

struct host {
	unsigned n_cpus;
	unsigned spared; /* a bit for each group */
	uint64_t weight[CPUS_MAX];
	uint32_t stalls[CPUS_MAX]; /* in this slot: a bit for each group */
	bool runs[CPUS_MAX];       /* a task that does not stall runs there */
	/* Sums, in ns; those of a pressure file times WEIGHTS. */
	uint64_t some, full, true_some, true_full, own_some;
	uint64_t any_ns, others_ns;
	uint64_t now_ns;
	bool hooks_miss; /* the clocks do not see this slot */
};

/* Lets one slot of time pass. */
static void pass_slot(struct host *host)
{
	bool any = false, others = false;

	for (unsigned cpu = 0; cpu < host->n_cpus; cpu++) {
		uint64_t weighted = host->weight[cpu] * SLOT_NS;
		bool stalls = host->stalls[cpu];
		bool others_stall = host->stalls[cpu] & ~host->spared;

		host->some += stalls ? weighted : 0;
		host->full += stalls && !host->runs[cpu] ? weighted : 0;
		host->true_some += others_stall ? weighted : 0;
		host->true_full += others_stall && !host->runs[cpu] ? weighted : 0;
		host->own_some += host->stalls[cpu] & 1 ? weighted : 0;
		any |= stalls;
		others |= others_stall;
	}
	if (any && !host->hooks_miss)
		host->any_ns += SLOT_NS;
	if (others && !host->hooks_miss)
		host->others_ns += SLOT_NS;
	host->now_ns += SLOT_NS;
}

static uint64_t file_us(uint64_t sum)
{
	return sum / WEIGHTS / NS_PER_US;
}

static struct stall_time file_time(const struct host *host)
{
	return (struct stall_time){ file_us(host->some), file_us(host->full) };
}

/* A look in two steps, since the agent reads the clocks after the file. */
struct look {
	struct spared_reading reading;
	struct stall_time truth;
	uint64_t file_ns;
};

static struct look read_file(const struct host *host)
{
	return (struct look){
		.reading.host = file_time(host),
		.truth = { file_us(host->true_some), file_us(host->true_full) },
		.file_ns = host->now_ns,
	};
}

static void read_clocks(const struct host *host, struct look *look)
{
	look->reading.any_ns = host->any_ns;
	look->reading.others_ns = host->others_ns;
	look->reading.skew_ns = host->now_ns - look->file_ns;
}

static void expect_between(uint64_t low_us, uint64_t us, uint64_t high_us, unsigned looks)
{
	if (us + (uint64_t)looks * TOLERANCE_US < low_us || us > high_us)
		fail_msg("look %u: %llu us is not between %llu and %llu", looks,
			 (unsigned long long)us, (unsigned long long)low_us,
			 (unsigned long long)high_us);
}

static void expect_bounds(const struct spared_psi *psi, const struct look *look, unsigned looks)
{
	expect_between(look->truth.some_us, psi->total.some_us, look->reading.host.some_us, looks);
	expect_between(look->truth.full_us, psi->total.full_us, look->reading.host.full_us, looks);
}

/* ---- every short run ------------------------------------------------------------------------- */

/* Three groups on two CPUs, of which two groups are spared; the third bit set is the other one. */
#define EXHAUSTIVE_SLOTS  3
#define EXHAUSTIVE_STATES 64 /* of a slot: which groups stall on which CPU */

static void run_all_slots(unsigned run, unsigned looks_at, const uint64_t weight[2], bool runs)
{
	struct host host = { .n_cpus = 2, .spared = 3, .weight = { weight[0], weight[1] } };
	struct spared_psi psi = { 0 };
	struct look look = read_file(&host);
	unsigned looks = 0;

	host.runs[1] = runs;
	read_clocks(&host, &look);
	spared_psi_update(&psi, &look.reading);
	for (unsigned slot = 0; slot < EXHAUSTIVE_SLOTS; slot++) {
		host.stalls[0] = run & 7;
		host.stalls[1] = run >> 3 & 7;
		run /= EXHAUSTIVE_STATES;
		pass_slot(&host);
		if (!(looks_at & 1u << slot))
			continue;
		look = read_file(&host);
		read_clocks(&host, &look);
		spared_psi_update(&psi, &look.reading);
		expect_bounds(&psi, &look, ++looks);
	}
}

static void test_every_short_run(void **state)
{
	static const uint64_t weights[][2] = { { 500, 500 }, { 1000, 0 }, { 300, 700 } };
	unsigned runs = EXHAUSTIVE_STATES * EXHAUSTIVE_STATES * EXHAUSTIVE_STATES;

	/* The last slot always ends with a look. */
	for (unsigned looks_at = 4; looks_at < 8; looks_at++)
		for (unsigned run = 0; run < runs; run++)
			run_all_slots(run, looks_at, weights[run % 3], run & 4096);
}

/* ---- random runs ----------------------------------------------------------------------------- */

static uint64_t seed;

static unsigned draw(unsigned below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)((seed >> 33) % below);
}

static void draw_weights(struct host *host)
{
	uint64_t left = WEIGHTS;

	for (unsigned cpu = 0; cpu < host->n_cpus; cpu++) {
		host->weight[cpu] = cpu + 1 < host->n_cpus ? draw((unsigned)left + 1) : left;
		left -= host->weight[cpu];
	}
}

/* Stalls begin and end at random; in some runs often, in others rarely. */
static void draw_stalls(struct host *host, unsigned n_groups, unsigned rarely, uint32_t allowed)
{
	for (unsigned cpu = 0; cpu < host->n_cpus; cpu++) {
		for (unsigned group = 0; group < n_groups; group++)
			if (!draw(rarely))
				host->stalls[cpu] ^= 1u << group;
		host->stalls[cpu] &= allowed;
		if (!draw(rarely))
			host->runs[cpu] = draw(2);
	}
}

struct run {
	struct host host;
	struct spared_psi psi;
	struct look look;
	struct spared_own own; /* of group 0 */
	unsigned n_groups;
	unsigned rarely;
	unsigned looks;
	bool hooks_miss_some;
	bool always_takes; /* bytes are never short */
};

static void run_slots(struct run *run, unsigned slots, uint32_t allowed)
{
	while (slots--) {
		draw_stalls(&run->host, run->n_groups, run->rarely, allowed);
		run->host.hooks_miss = run->hooks_miss_some && draw(2);
		pass_slot(&run->host);
	}
}

/* Some slots, then a look. Returns by how much the host's and the others' `some` have grown. */
static void run_look(struct run *run, uint32_t allowed, uint64_t *ret_host_us, uint64_t *ret_us)
{
	struct stall_time own = run->own.total, total = run->psi.total, host = run->own.host;
	struct stall_time group = { 0 };

	draw_weights(&run->host);
	run_slots(run, draw(30) + 1, allowed);
	run->look = read_file(&run->host);
	group.some_us = group.full_us = file_us(run->host.own_some);
	/* While these pass, the file has been read and the clocks have not. */
	run_slots(run, draw(SKEW_SLOTS + 1), allowed);
	read_clocks(&run->host, &run->look);
	if (run->always_takes || draw(20))
		spared_psi_update(&run->psi, &run->look.reading);
	else
		spared_psi_follow(&run->psi, &run->look.reading);
	run->looks++;
	*ret_host_us = run->look.reading.host.some_us - host.some_us;
	*ret_us = run->psi.total.some_us - total.some_us;
	spared_own_update(&run->own, run->look.reading.host, run->psi.total, group);
	assert_true(run->own.total.some_us - own.some_us >= *ret_us);
	assert_true(run->own.total.some_us - own.some_us <= *ret_host_us);
}

static void run_start(struct run *run)
{
	memset(run, 0, sizeof(*run));
	run->host.n_cpus = draw(CPUS_MAX) + 1;
	run->n_groups = draw(GROUPS_MAX - 1) + 2;
	run->host.spared = draw(1u << run->n_groups);
	run->rarely = 2 + draw(60);
	run->look = read_file(&run->host);
	spared_psi_update(&run->psi, &run->look.reading);
}

static unsigned random_runs(void)
{
	const char *text = getenv("PN_SPARED_RUNS");

	return text ? (unsigned)atoi(text) : 400;
}

static void test_random_runs(void **state)
{
	unsigned runs = random_runs();

	for (unsigned i = 0; i < runs; i++) {
		struct run run;
		uint64_t host_us, us;

		seed = i;
		run_start(&run);
		for (unsigned look = 0; look < 100; look++) {
			run_look(&run, ~0u, &host_us, &us);
			expect_bounds(&run.psi, &run.look, run.looks);
		}
	}
}

/*
 * The attack that hid a victim: many spared groups stall at the same time for long, and end. From
 * the second look on whatever the others stall counts, but for what may have been counted too
 * early: in all of that time no more than what passes once between reading the file and the clocks.
 */
static void test_nothing_is_kept(void **state)
{
	unsigned runs = random_runs();

	for (unsigned i = 0; i < runs; i++) {
		struct run run;
		uint64_t host_us, us, hidden_us = 0;

		seed = i;
		run_start(&run);
		run.host.spared = (1u << run.n_groups) - 2; /* all but group 0 */
		for (unsigned look = 0; look < 50; look++)
			run_look(&run, run.host.spared, &host_us, &us);
		for (unsigned look = 0; look < 50; look++) {
			run_look(&run, 1, &host_us, &us);
			hidden_us += look ? host_us - us : 0;
			expect_bounds(&run.psi, &run.look, run.looks);
		}
		assert_in_range(hidden_us, 0, SKEW_SLOTS * SLOT_NS / NS_PER_US + 50 * TOLERANCE_US);
	}
}

/* And the other way round: the others stall for long, and then spared groups do. */
static void test_nothing_is_owed(void **state)
{
	unsigned runs = random_runs();

	for (unsigned i = 0; i < runs; i++) {
		struct run run;
		uint64_t host_us, us;

		seed = i;
		run_start(&run);
		run.always_takes = true;
		run.host.spared = (1u << run.n_groups) - 2; /* all but group 0 */
		for (unsigned look = 0; look < 50; look++)
			run_look(&run, 1, &host_us, &us);
		for (unsigned look = 0; look < 50; look++) {
			run_look(&run, run.host.spared, &host_us, &us);
			if (look > 1)
				assert_in_range(us, 0, 2 * TOLERANCE_US);
		}
	}
}

/* One look takes off no more than the time in which spared groups alone were seen to stall. */
static void test_hooks_that_miss_stalls(void **state)
{
	unsigned runs = random_runs();

	for (unsigned i = 0; i < runs; i++) {
		struct run run;
		uint64_t host_us, us;

		seed = i;
		run_start(&run);
		for (unsigned look = 0; look < 100; look++) {
			struct spared_reading last = run.psi.last;
			uint64_t spared_us;

			run.hooks_miss_some = draw(3);
			run_look(&run, ~0u, &host_us, &us);
			spared_us = (run.look.reading.any_ns - last.any_ns -
				     (run.look.reading.others_ns - last.others_ns)) /
				    NS_PER_US;
			assert_true(us <= host_us);
			assert_true(host_us - us <= spared_us + spared_us / 8 +
							    last.skew_ns / NS_PER_US +
							    4 /* rounding */);
		}
	}
}

/* Three groups stall for all of a second at the same time, on one CPU: a second is taken off. */
static void test_union(void **state)
{
	struct host host = { .n_cpus = 1, .spared = 7, .weight = { WEIGHTS } };
	struct spared_psi psi = { 0 };
	struct look look = read_file(&host);
	uint64_t host_us, before_us;

	spared_psi_update(&psi, &look.reading);
	host.stalls[0] = 7;
	for (unsigned i = 0; i < 10000; i++)
		pass_slot(&host);
	look = read_file(&host);
	read_clocks(&host, &look);
	assert_true(spared_psi_update(&psi, &look.reading));
	assert_in_range(psi.total.some_us, 0, TOLERANCE_US);
	before_us = psi.total.some_us;
	host_us = look.reading.host.some_us;

	host.stalls[0] = 8;
	pass_slot(&host);
	look = read_file(&host);
	read_clocks(&host, &look);
	assert_false(spared_psi_update(&psi, &look.reading));
	assert_int_equal(psi.total.some_us - before_us, look.reading.host.some_us - host_us);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_short_run),
		cmocka_unit_test(test_random_runs),
		cmocka_unit_test(test_nothing_is_kept),
		cmocka_unit_test(test_nothing_is_owed),
		cmocka_unit_test(test_hooks_that_miss_stalls),
		cmocka_unit_test(test_union),
	};

	return cmocka_run_group_tests_name("spared", tests, NULL, NULL);
}
