/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The figures: one row each, printed as a line of the table as soon as it is known and kept for
 * the JSON file. A figure that could not be had is a row too, which says why.
 */
#ifndef PNMEM_BENCH_ROWS_H
#define PNMEM_BENCH_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "samples.h"

#define ROWS_MAX 64

/* What the goal limits; every goal is an upper one. */
enum goal_of {
	GOAL_NONE,
	GOAL_VALUE, /* the value, in the row's unit */
	GOAL_RATIO, /* value / baseline */
};

struct row {
	char name[64];
	const char *unit;
	double value;        /* the median, unless the name says otherwise; NAN: none, see why */
	double value_p99;    /* NAN: not meaningful here */
	const char *against; /* what the baseline is, static; NULL: there is none */
	double baseline;     /* in the same unit and from the same run; NAN: none */
	double baseline_p99;
	enum goal_of goal_of;
	double goal;
	size_t count; /* samples behind the value */
	char why[128];
};

struct rows {
	struct row row[ROWS_MAX];
	size_t count;
	bool failed; /* some row has no value because something could not run */
};

/* Median and p99 of `value`, beside those of `baseline` unless that is NULL. */
void rows_add_samples(struct rows *rows, const char *name, const char *unit,
		      const struct samples *value, const char *against,
		      const struct samples *baseline, enum goal_of goal_of, double goal);

/* A row made by the caller: what rows_add_samples cannot say. */
void rows_add(struct rows *rows, const struct row *row);

/* Could not run, and why: a row without a value. */
__attribute__((format(printf, 3, 4))) void rows_add_failed(struct rows *rows, const char *name,
							   const char *why, ...);

/* Value over baseline, NAN without either; and whether the goal, if there is one, is met. */
double row_ratio(const struct row *row);
bool row_is_ok(const struct row *row);

/* Writes all rows as a JSON list. 0 or -errno. */
int rows_write_json(const struct rows *rows, const char *path);

#endif
