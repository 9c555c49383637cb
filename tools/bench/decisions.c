/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a decision costs an engine: admission with the state in hand, the ladder's plan, and
 * pn_admit with its snapshot read. Each beside an empty call with the same arguments, which is
 * the least that any function could cost, and beside a memcpy of the state, which is the least
 * that looking at it could.
 */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "ops.h"
#include "pn_admission.h"
#include "pn_engine.h"
#include "pn_ladder.h"

#define GIB (1ull << 30)

struct decision {
	int n_tokens;
	pn_mem_state state;
	pn_mem_state copy;
	pn_engine engine;
	pn_ladder_config ladder;
};

/* The argument list of pn_admit_request, the longest of the three. */
__attribute__((noinline)) static void empty_call(int n_prompt, bool kv_q4, bool gpu_resident,
						 int die_id, int max_window,
						 const pn_mem_state *state, pn_admit_result *out)
{
	op_keep(out);
}

static void loop_empty(void *arg, size_t n)
{
	struct decision *d = arg;
	pn_admit_result result;

	while (n--)
		empty_call(d->n_tokens, true, false, 0, 0, &d->state, &result);
}

static void loop_memcpy(void *arg, size_t n)
{
	struct decision *d = arg;
	size_t bytes = sizeof(d->state);

	__asm__("" : "+r"(bytes)); /* libc's memcpy, not one that the compiler makes up */
	while (n--) {
		memcpy(&d->copy, &d->state, bytes);
		op_keep(&d->copy);
	}
}

static void loop_request(void *arg, size_t n)
{
	struct decision *d = arg;
	pn_admit_result result;

	while (n--) {
		pn_admit_request(d->n_tokens, true, false, 0, 0, &d->state, &result);
		op_keep(&result);
	}
}

static void loop_ladder(void *arg, size_t n)
{
	struct decision *d = arg;

	while (n--) {
		pn_ladder_plan plan = pn_ladder_plan_for((pn_mem_level)(n % 4), &d->ladder);

		op_keep(&plan);
	}
}

static void loop_admit(void *arg, size_t n)
{
	struct decision *d = arg;
	int fit_tokens;

	while (n--) {
		pn_admit(&d->engine, d->n_tokens, &fit_tokens);
		op_keep(&fit_tokens);
	}
}

/*
 * A 64 GiB host with one die. `fits`: the prompt is admitted. `capped`: memory for a part of it,
 * so that the largest window has to be searched, the longest way through the function.
 */
static struct decision decision_make(int n_tokens, uint64_t avail_bytes)
{
	return (struct decision){
		.n_tokens = n_tokens,
		.state = {
			.host_total_bytes = 64 * GIB,
			.host_avail_bytes = avail_bytes,
			.n_dies = 1,
			.per_die_free = { 20 * GIB },
			.per_die_budget = { 23 * GIB },
		},
		.engine = { .max_window = 32768, .kv_q4 = true, .die_mask = 1 },
		.ladder = { .max_slots = 8, .prefill_window = 16384 },
	};
}

/* PN_ADMIT_LUT and its like could change what is measured. */
static bool decision_is(const struct decision *d, pn_admit_verdict verdict)
{
	pn_admit_result result;

	pn_admit_request(d->n_tokens, true, false, 0, 0, &d->state, &result);
	return result.verdict == verdict;
}

void decisions_bench(struct bench *bench)
{
	static struct op ops[6];
	static struct decision fits, capped;
	enum { EMPTY, MEMCPY, FITS, CAPPED, LADDER, ADMIT };
	static const struct {
		int op;
		const char *name;
		double goal_ns;
	} figures[] = {
		{ FITS, "pn_admit_request, admitted", 150 },
		{ CAPPED, "pn_admit_request, capped", 150 },
		{ LADDER, "pn_ladder_plan_for", 20 },
		{ ADMIT, "pn_admit with its snapshot read", 300 },
	};
	struct agent_proc agent;
	int r = watch_start(&agent);

	if (r) {
		rows_add_failed(&bench->rows, "decisions", "no agent to read from: %s",
				bench_why(r));
		return;
	}
	fits = decision_make(4096, 48 * GIB);
	capped = decision_make(30000, 12 * GIB);
	if (!decision_is(&fits, PN_VERDICT_ADMIT) || !decision_is(&capped, PN_VERDICT_CAP)) {
		rows_add_failed(&bench->rows, "decisions",
				"the example states are judged otherwise");
		watch_stop(&agent);
		return;
	}
	ops[EMPTY] = (struct op){ loop_empty, &fits, { 0 } };
	ops[MEMCPY] = (struct op){ loop_memcpy, &fits, { 0 } };
	ops[FITS] = (struct op){ loop_request, &fits, { 0 } };
	ops[CAPPED] = (struct op){ loop_request, &capped, { 0 } };
	ops[LADDER] = (struct op){ loop_ladder, &fits, { 0 } };
	ops[ADMIT] = (struct op){ loop_admit, &fits, { 0 } };
	ops_measure(ops, sizeof(ops) / sizeof(ops[0]),
		    bench->quick ? OPS_ROUNDS_QUICK : OPS_ROUNDS);
	watch_stop(&agent);
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
		const struct samples *ns = &ops[figures[i].op].ns;
		char name[64];

		rows_add_samples(&bench->rows, figures[i].name, "ns", ns, "an empty call",
				 &ops[EMPTY].ns, GOAL_VALUE, figures[i].goal_ns);
		snprintf(name, sizeof(name), "%s, by memcpy", figures[i].name);
		rows_add_samples(&bench->rows, name, "ns", ns, "libc's memcpy, 464 B",
				 &ops[MEMCPY].ns, GOAL_NONE, 0);
	}
}
