/* SPDX-License-Identifier: BSD-2-Clause */
/* Table and JSON. See rows.h. */
#include "rows.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

double row_ratio(const struct row *row)
{
	return row->baseline > 0 ? row->value / row->baseline : NAN;
}

bool row_is_ok(const struct row *row)
{
	if (isnan(row->value))
		return false;
	if (row->goal_of == GOAL_NONE)
		return true;
	return (row->goal_of == GOAL_RATIO ? row_ratio(row) : row->value) <= row->goal;
}

/* A number in at most seven characters, "-" for none. */
static const char *number(char text[static 24], double value)
{
	if (isnan(value))
		return "-";
	snprintf(text, 24, value >= 1000 ? "%.0f" : value >= 10 ? "%.1f" : "%.2f", value);
	return text;
}

static void print_header(void)
{
	printf("%-46s %6s %8s %8s   %-21s %8s %8s %7s %6s  %-10s %s\n", "", "unit", "median", "p99",
	       "beside", "median", "p99", "ratio", "n", "goal", "ok");
}

static void print_row(const struct row *row)
{
	char a[24], b[24], c[24], d[24], e[24], f[24], goal[40] = "-";

	if (isnan(row->value)) {
		printf("%-46s %s\n", row->name, row->why);
		return;
	}
	if (row->goal_of != GOAL_NONE)
		snprintf(goal, sizeof(goal), "<= %s%s", number(f, row->goal),
			 row->goal_of == GOAL_RATIO ? "x" : "");
	printf("%-46s %6s %8s %8s   %-21s %8s %8s %7s %6zu  %-10s %s\n", row->name, row->unit,
	       number(a, row->value), number(b, row->value_p99), row->against ? row->against : "-",
	       number(c, row->baseline), number(d, row->baseline_p99), number(e, row_ratio(row)),
	       row->count, goal,
	       row->goal_of == GOAL_NONE ? "-"
	       : row_is_ok(row)          ? "yes"
					 : "NO");
}

void rows_add(struct rows *rows, const struct row *row)
{
	assert(rows->count < ROWS_MAX);
	rows->row[rows->count] = *row;
	if (!rows->count)
		print_header();
	print_row(row);
	fflush(stdout);
	rows->count++;
}

void rows_add_samples(struct rows *rows, const char *name, const char *unit,
		      const struct samples *value, const char *against,
		      const struct samples *baseline, enum goal_of goal_of, double goal)
{
	struct row row = {
		.unit = unit,
		.value = samples_percentile(value, 50),
		.value_p99 = samples_percentile(value, 99),
		.against = baseline ? against : NULL,
		.baseline = baseline ? samples_percentile(baseline, 50) : NAN,
		.baseline_p99 = baseline ? samples_percentile(baseline, 99) : NAN,
		.goal_of = goal_of,
		.goal = goal,
		.count = value->count,
	};

	if (!value->count || (baseline && !baseline->count)) {
		rows_add_failed(rows, name, "no sample of %s",
				value->count ? against : "what was to be measured");
		return;
	}
	snprintf(row.name, sizeof(row.name), "%s", name);
	rows_add(rows, &row);
}

void rows_add_failed(struct rows *rows, const char *name, const char *why, ...)
{
	struct row row = { .unit = "",
			   .value = NAN,
			   .value_p99 = NAN,
			   .baseline = NAN,
			   .baseline_p99 = NAN,
			   .goal_of = GOAL_NONE };
	va_list ap;

	snprintf(row.name, sizeof(row.name), "%s", name);
	va_start(ap, why);
	vsnprintf(row.why, sizeof(row.why), why, ap);
	va_end(ap);
	rows->failed = true;
	rows_add(rows, &row);
}

static json_t *real_or_null(double value)
{
	return isnan(value) ? json_null() : json_real(value);
}

static json_t *text_or_null(const char *text)
{
	return text && *text ? json_string(text) : json_null();
}

int rows_write_json(const struct rows *rows, const char *path)
{
	static const char *const goal_names[] = { NULL, "value", "ratio" };
	json_t *list = json_array();
	int r = 0;

	for (size_t i = 0; i < rows->count; i++) {
		const struct row *row = &rows->row[i];
		bool has_goal = row->goal_of != GOAL_NONE;

		json_array_append_new(
			list, json_pack("{ss so ss so so so sb sI so so so so so}", "name",
					row->name, "value", real_or_null(row->value), "unit",
					row->unit, "baseline", real_or_null(row->baseline), "ratio",
					real_or_null(row_ratio(row)), "goal",
					has_goal ? json_real(row->goal) : json_null(), "ok",
					row_is_ok(row), "samples", (json_int_t)row->count,
					"goal_of", text_or_null(goal_names[row->goal_of]),
					"value_p99", real_or_null(row->value_p99), "baseline_p99",
					real_or_null(row->baseline_p99), "baseline_is",
					text_or_null(row->against), "why", text_or_null(row->why)));
	}
	if (json_array_size(list) != rows->count)
		r = -ENOMEM;
	else if (json_dump_file(list, path, JSON_INDENT(1) | JSON_REAL_PRECISION(6)))
		r = errno ? -errno : -EIO;
	json_decref(list);
	return r;
}
