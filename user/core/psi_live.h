/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Live PSI: avg10 at any instant, from the exact total= of each read.
 *
 * The kernel folds the stall time of the last 2 s into avg10 at ticks 2 s apart, so the file lags
 * by up to that. This keeps the same average with the same decay (EXP_10s = 1677/2048 per 2 s)
 * but folds at every read, and takes the file's own value over whenever the kernel has just
 * updated it, so that the two cannot drift apart. Pure.
 */
#ifndef PNMEM_CORE_PSI_LIVE_H
#define PNMEM_CORE_PSI_LIVE_H

#include <stdbool.h>
#include <stdint.h>

/* The values of one read of a pressure file. */
struct psi_reading {
	double some_avg10_pct;
	double full_avg10_pct;
	double some_avg60_pct; /* with some_avg300: they show that the kernel updated */
	double some_avg300_pct;
	uint64_t some_total_us;
	uint64_t full_total_us;
};

struct psi_live {
	bool valid;
	uint64_t at_ns; /* time of the last reading */
	struct psi_reading last;
	double some_pct; /* not rounded; psi_live_shown() rounds */
	double full_pct;
};

/* Folds a reading in. now_ns must not go backwards; a total that does restarts from the file. */
void psi_live_update(struct psi_live *live, uint64_t now_ns, const struct psi_reading *reading);

/*
 * The averages at now_ns, without a new reading: decayed since, plus the stall time that the
 * hooks' clock counted since (never more than the time passed). Rounded as psi_live_shown().
 * The estimate is not kept: the next reading's total= is exact and replaces it.
 */
void psi_live_at(const struct psi_live *live, uint64_t now_ns, uint64_t clock_some_ns,
		 double *ret_some_pct, double *ret_full_pct);

/* As the kernel would print it: its fixed point, two decimals, cut off (so > 0 means >= 0.01). */
double psi_live_shown(double pct);

#endif
