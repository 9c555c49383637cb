/* SPDX-License-Identifier: BSD-2-Clause */
/* Made-up numbers for the replay's tests, and their records. To be included after cmocka.h. */
#ifndef PNMEM_TESTS_REPLAY_FIXTURE_H
#define PNMEM_TESTS_REPLAY_FIXTURE_H

#include <string.h>

#include "core/replay.h"

#define GIB   (1ull << 30)
#define MS_NS 1000000ull
#define LOOKS 3000

/* The same numbers at every run. */
static uint64_t random_state;

static inline uint32_t random_below(uint32_t n)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(random_state >> 33) % n;
}

struct recorded {
	uint64_t ts_ns;
	bool die_changed;
	struct trace_die die[2];
	struct trace_look look;
};

struct run {
	struct merge_state carry;
	struct die_table dies;
	pn_mem_state state;
	pn_mem_ext ext;
	uint64_t now_ns;
	struct die_table next_dies;
	pn_host_sample sample;
};

/* Numbers that wander over all lines, sometimes jump, and sometimes cannot be read. */
static inline void step(struct run *run)
{
	pn_host_sample *s = &run->sample;
	uint64_t dt_ns = (random_below(4) ? random_below(30) : random_below(600)) * MS_NS + 12345;

	run->now_ns += dt_ns;
	s->total_bytes = 16 * GIB;
	s->avail_bytes = 3 * GIB / 2 + (uint64_t)random_below(5000) * (GIB / 1000);
	s->psi_some_avg10 = random_below(3) ? 0 : random_below(3000) / 100.0;
	s->psi_full_avg10 = s->psi_some_avg10 > 5 ? random_below(2500) / 100.0 : 0;
	s->cgroup_limit_bytes = random_below(10) ? 8 * GIB : 0;
	s->cgroup_headroom_bytes = (uint64_t)random_below(4000) * (GIB / 1000);
	s->cgroup_current_bytes = 8 * GIB - s->cgroup_headroom_bytes;
	for (int i = 0; i < PN_SRC_DIES; i++) {
		s->source_state[i] = random_below(40) ? PN_SRC_OK : PN_SRC_STALE;
		if (s->source_state[i] == PN_SRC_OK)
			s->source_ns[i] = run->now_ns;
	}
	if (random_below(10))
		return;
	for (int i = 0; i < 2; i++)
		run->next_dies.die[i] = (struct die){
			.id.uuid = { (uint8_t)(i + 1) },
			.free_bytes = (uint64_t)random_below(24) * GIB / 4,
			.budget_bytes = 23 * GIB,
			.sample_ns = run->now_ns,
			.limit_ns = 100 * MS_NS,
		};
	if (!random_below(4))
		run->next_dies.die[1] = (struct die){ 0 };
}

static inline void look_at(struct run *run, const struct level_config *config,
			   struct trace_look *ret)
{
	struct merge_input in = {
		.now_ns = run->now_ns,
		.host = &run->sample,
		.cgroup = &run->sample,
		.live_some_pct = run->sample.psi_some_avg10 / 2,
		.live_full_pct = run->sample.psi_full_avg10 / 2,
		.dies = &run->dies,
		.n_dies = die_table_count(&run->dies),
	};

	merge_look(&run->carry, config, &in, &run->state, &run->ext);
	trace_look_make(ret, 1, &run->state, &run->ext);
}

static inline void record_dies(const struct run *run, struct recorded *ret)
{
	for (int i = 0; i < 2; i++) {
		ret->die[i] = (struct trace_die){
			.view = 1,
			.index = (uint32_t)i,
			.free_bytes = run->state.per_die_free[i],
			.budget_bytes = run->state.per_die_budget[i],
			.sample_ns = run->ext.die_sample_ns[i],
			.state = run->ext.die_state[i],
		};
		memcpy(ret->die[i].uuid, run->ext.die_uuid[i], sizeof(ret->die[i].uuid));
	}
}

static inline void replay_one(struct replay_view *view, const struct replay_policy *policy,
			      const struct recorded *r, struct replay_level *ret)
{
	for (uint32_t i = 0; i < r->look.n_dies; i++)
		replay_die(view, policy, &r->die[i]);
	replay_look(view, policy, r->ts_ns, &r->look, ret);
}

static const struct level_config other_config = {
	.host_reserve_bytes = 2 * GIB,
	.psi_full_reject_pct = 5,
	.die_reserve_bytes = 20 * GIB,
	.hold_ns = 40 * MS_NS,
	.cgroup_level = false,
};

#endif
