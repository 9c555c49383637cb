/* SPDX-License-Identifier: BSD-2-Clause */
/* Live PSI averages. See psi_live.h; the kernel's side is kernel/sched/psi.c and loadavg.h. */
#include "core/psi_live.h"

#include <math.h>

#define FIXED_1   2048.0
#define EXP_10S   1677.0 /* 1/exp(2s/10s) in that fixed point, as the kernel has it */
#define PERIOD_NS 2e9    /* what EXP_10S is for */

/* The share of an average that is left after dt_ns. */
static double decay(uint64_t dt_ns)
{
	return pow(EXP_10S / FIXED_1, (double)dt_ns / PERIOD_NS);
}

/* pct decayed over dt_ns in which stall_us microseconds were stalled. */
static double fold(double pct, uint64_t dt_ns, double stall_us)
{
	double left, stalled_pct;

	if (!dt_ns)
		return pct;
	left = decay(dt_ns);
	stalled_pct = 100.0 * stall_us * 1000.0 / (double)dt_ns;
	if (stalled_pct > 100)
		stalled_pct = 100;
	return pct * left + stalled_pct * (1 - left);
}

static bool kernel_updated(const struct psi_reading *a, const struct psi_reading *b)
{
	return a->some_avg10_pct != b->some_avg10_pct || a->full_avg10_pct != b->full_avg10_pct ||
	       a->some_avg60_pct != b->some_avg60_pct || a->some_avg300_pct != b->some_avg300_pct;
}

void psi_live_update(struct psi_live *live, uint64_t now_ns, const struct psi_reading *reading)
{
	const struct psi_reading *last = &live->last;
	bool restarted = reading->some_total_us < last->some_total_us ||
			 reading->full_total_us < last->full_total_us;

	if (!live->valid || restarted || kernel_updated(last, reading)) {
		live->some_pct = reading->some_avg10_pct;
		live->full_pct = reading->full_avg10_pct;
	} else {
		uint64_t dt_ns = now_ns - live->at_ns;

		live->some_pct = fold(live->some_pct, dt_ns,
				      (double)(reading->some_total_us - last->some_total_us));
		live->full_pct = fold(live->full_pct, dt_ns,
				      (double)(reading->full_total_us - last->full_total_us));
	}
	live->valid = true;
	live->at_ns = now_ns;
	live->last = *reading;
}

void psi_live_at(const struct psi_live *live, uint64_t now_ns, uint64_t clock_some_ns,
		 double *ret_some_pct, double *ret_full_pct)
{
	uint64_t dt_ns = now_ns > live->at_ns ? now_ns - live->at_ns : 0;

	*ret_some_pct = psi_live_shown(fold(live->some_pct, dt_ns, (double)clock_some_ns / 1000));
	*ret_full_pct = psi_live_shown(fold(live->full_pct, dt_ns, 0));
}

double psi_live_shown(double pct)
{
	uint64_t fixed;

	if (!(pct > 0))
		return 0;
	fixed = (uint64_t)((pct > 100 ? 100 : pct) * FIXED_1);
	return (double)(fixed / 2048) + (double)(fixed % 2048 * 100 / 2048) / 100;
}
