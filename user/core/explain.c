/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lines of README's table as places on a scale, best first; the levels themselves are
 * level.c's. See explain.h.
 */
#include "core/explain.h"

#include <math.h>

/* Below this avg10 shows as 0.00. */
#define PCT_ZERO   0.005
#define AVG10_S    10.0
#define SOME_TIGHT 10.0

struct line {
	double at;
	pn_mem_level level; /* at the line and beyond it, away from ease */
};

static struct explain_line line_to(const struct explain_source *source, double at,
				   pn_mem_level level)
{
	return (struct explain_line){
		.exists = true,
		.level = level,
		.at = at,
		.distance = fabs(source->value - at),
	};
}

/*
 * lines: best first, each with the level that begins there. What is left falls towards them, what
 * stalls rises.
 */
static void find_lines(struct explain_source *source, const struct line *lines, int count)
{
	pn_mem_level best = PN_MEM_LEVEL_OK;

	for (int i = 0; i < count; i++) {
		if (source->level >= lines[i].level) {
			source->better = line_to(source, lines[i].at, best);
			best = lines[i].level;
		} else if (!source->worse.exists) {
			source->worse = line_to(source, lines[i].at, lines[i].level);
		}
	}
}

static void add_left(struct explain_source *source, uint64_t left_bytes, uint64_t of_bytes,
		     const struct line *lines)
{
	source->die = -1;
	source->value = (double)left_bytes;
	source->of = (double)of_bytes;
	find_lines(source, lines, 3);
}

/* The host's bytes, or a cgroup's. */
static void add_bytes(struct explain_source *source, uint64_t left_bytes, uint64_t of_bytes,
		      uint64_t reserve_bytes)
{
	double reserve = (double)reserve_bytes;
	const struct line lines[] = {
		{ reserve * 2, PN_MEM_LEVEL_WATCH },
		{ reserve * 1.25, PN_MEM_LEVEL_TIGHT },
		{ reserve, PN_MEM_LEVEL_CRITICAL },
	};

	source->level = level_from_bytes(left_bytes, reserve_bytes);
	add_left(source, left_bytes, of_bytes, lines);
}

static void add_die(struct explain_source *source, uint64_t free_bytes, uint64_t budget_bytes)
{
	const struct line lines[] = {
		{ (double)(budget_bytes / 8), PN_MEM_LEVEL_WATCH },
		{ (double)(budget_bytes / 16), PN_MEM_LEVEL_TIGHT },
		{ 0, PN_MEM_LEVEL_CRITICAL },
	};

	source->level = level_from_die(free_bytes, budget_bytes);
	add_left(source, free_bytes, budget_bytes, lines);
}

static void add_psi(struct explain_source *source, double file_pct, double live_pct,
		    const struct line *lines)
{
	source->die = -1;
	source->percent = true;
	source->file_value = file_pct;
	source->value = fmax(file_pct, live_pct);
	find_lines(source, lines, 2);
	if (source->better.exists && source->value > 0)
		source->better.seconds =
			fmax(0, AVG10_S * log(source->value / fmax(source->better.at, PCT_ZERO)));
}

static bool known(const pn_mem_ext *ext, int src)
{
	return ext->source_ns[src] &&
	       (ext->source_state[src] == PN_SRC_OK || ext->source_state[src] == PN_SRC_STALE ||
		ext->source_state[src] == PN_SRC_ESTIMATED);
}

static int add_dies(const pn_mem_state *state, const pn_mem_ext *ext, struct explain_source *ret)
{
	int n = 0;

	for (int i = 0; i < state->n_dies && i < PN_MEM_MAX_DIES; i++) {
		if (!state->per_die_budget[i])
			continue;
		ret[n].reason = (uint32_t)PN_REASON_DIE0 << i;
		add_die(&ret[n], state->per_die_free[i], state->per_die_budget[i]);
		ret[n++].die = i;
	}
	for (uint32_t i = 0; i < ext->n_more_dies && i < PN_MEM_MORE_DIES; i++) {
		if (!ext->more_die[i].budget_bytes)
			continue;
		ret[n].reason = PN_REASON_MORE_DIES;
		add_die(&ret[n], ext->more_die[i].free_bytes, ext->more_die[i].budget_bytes);
		ret[n++].die = PN_MEM_MAX_DIES + (int)i;
	}
	return n;
}

int explain(const pn_mem_state *state, const pn_mem_ext *ext, const struct level_config *config,
	    struct explain_source ret[static EXPLAIN_MAX])
{
	const struct line some[] = { { 0, PN_MEM_LEVEL_WATCH },
				     { SOME_TIGHT, PN_MEM_LEVEL_TIGHT } };
	const struct line full[] = {
		{ 0, PN_MEM_LEVEL_TIGHT },
		{ config->psi_full_reject_pct, PN_MEM_LEVEL_CRITICAL },
	};
	int n = 0;

	for (int i = 0; i < EXPLAIN_MAX; i++)
		ret[i] = (struct explain_source){ 0 };
	if (known(ext, PN_SRC_MEMINFO)) {
		ret[n].reason = PN_REASON_HOST_BYTES;
		add_bytes(&ret[n++], state->host_avail_bytes, state->host_total_bytes,
			  ext->host_reserve_bytes);
	}
	if (known(ext, PN_SRC_PSI)) {
		ret[n].reason = PN_REASON_PSI_SOME;
		ret[n].level = level_from_psi_some(
			fmax(state->host_psi_some_avg10, ext->live_psi_some_avg10));
		add_psi(&ret[n++], state->host_psi_some_avg10, ext->live_psi_some_avg10, some);
		ret[n].reason = PN_REASON_PSI_FULL;
		ret[n].level = level_from_psi_full(
			fmax(state->host_psi_full_avg10, ext->live_psi_full_avg10),
			config->psi_full_reject_pct);
		add_psi(&ret[n++], state->host_psi_full_avg10, ext->live_psi_full_avg10, full);
	}
	if (config->cgroup_level && known(ext, PN_SRC_CGROUP) && ext->cgroup_limit_bytes) {
		ret[n].reason = PN_REASON_CGROUP;
		add_bytes(&ret[n++], ext->cgroup_headroom_bytes, ext->cgroup_limit_bytes,
			  level_cgroup_reserve_bytes(ext->cgroup_limit_bytes));
	}
	n += add_dies(state, ext, ret + n);
	for (int i = 0; i < n; i++)
		ret[i].decides = ret[i].level != PN_MEM_LEVEL_OK &&
				 (uint32_t)ret[i].level == ext->wanted_level;
	return n;
}
