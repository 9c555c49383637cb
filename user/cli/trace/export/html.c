/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A trace as one page of HTML that needs no network: the lines of timeline.h as JSON in the
 * middle of a template (page.html) with its script (page*.js), built in.
 */
#include "cli/trace/export/html.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace/export/timeline.h"
#include "cli/trace/words.h"
#include "trace_page.inc"

/* The page shows so many of the most, and says how many it leaves out. */
#define CGROUPS_SHOWN 8
#define TASKS_SHOWN   16

#define MIB (1 << 20)

/* Writes pairs of a bin and the value from there on, divided by scale; null for no value. */
static void write_data(FILE *out, const struct timeline *timeline, const struct timeline_line *line,
		       double scale)
{
	static float bins[TIMELINE_BINS];
	float before = line->last ? NAN : 0;
	const char *comma = "";

	timeline_fill(timeline, line, bins);
	fputs("\"data\":[", out);
	for (unsigned i = 0; i < timeline_bins(timeline); i++) {
		if (bins[i] == before || (isnan(bins[i]) && isnan(before)))
			continue;
		fprintf(out, "%s%u,", comma, i);
		if (isnan(bins[i]))
			fputs("null", out);
		else
			fprintf(out, "%.6g", words_finite((double)bins[i] / scale));
		comma = ",";
		before = bins[i];
	}
	putc(']', out);
}

static void write_name(FILE *out, const struct timeline *timeline, const struct timeline_line *line)
{
	bool view = line->of <= TIMELINE_LIMIT;
	const char *name = view ? trace_views_name(timeline->views, (uint32_t)line->a)
				: trace_names_get(timeline->names, TRACE_NAME_CGROUP, line->a);
	char text[32];

	fputs("\"name\":", out);
	if (line->rest)
		name = "all others";
	else if (line->label[0])
		name = line->label;
	else if (view && !line->a)
		name = "host";
	if (!name) {
		uint64_t id = view ? trace_views_id(timeline->views, (uint32_t)line->a) : line->a;

		snprintf(text, sizeof(text), "%s %llu", view ? "view" : "cgroup",
			 (unsigned long long)id);
		name = text;
	}
	words_json(out, name);
}

static const struct timeline_line *find(const struct timeline *timeline, enum timeline_of of,
					uint64_t a, bool rest)
{
	for (unsigned i = 0; i < timeline->line_count; i++)
		if (timeline->line[i].of == of && timeline->line[i].a == a &&
		    timeline->line[i].rest == rest)
			return &timeline->line[i];
	return NULL;
}

/* Writes objects with a name, the data and, under another key, the data of a second line. */
static void write_lines(FILE *out, const struct timeline *timeline, const char *key,
			enum timeline_of of, double scale, const char *with_key,
			enum timeline_of with)
{
	const char *comma = "";

	fprintf(out, ",\n\"%s\":[", key);
	for (unsigned i = 0; i < timeline->line_count; i++) {
		const struct timeline_line *line = &timeline->line[i], *other;

		if (line->of != of)
			continue;
		fprintf(out, "%s\n{", comma);
		write_name(out, timeline, line);
		putc(',', out);
		write_data(out, timeline, line, scale);
		other = with_key ? find(timeline, with, line->a, line->rest) : NULL;
		if (other) {
			fprintf(out, ",\"%s\":{", with_key);
			write_data(out, timeline, other, scale);
			putc('}', out);
		}
		putc('}', out);
		comma = ",";
	}
	putc(']', out);
}

static int by_total(const void *a, const void *b)
{
	const struct timeline_line *x = *(const struct timeline_line *const *)a;
	const struct timeline_line *y = *(const struct timeline_line *const *)b;

	if (x->rest != y->rest)
		return x->rest - y->rest;
	return x->total < y->total ? 1 : x->total > y->total ? -1 : x < y ? -1 : x > y;
}

/* Writes the lines with most stall time, and one number for those that are not shown. */
static void write_stalls(FILE *out, const struct timeline *timeline, const char *key,
			 enum timeline_of of, unsigned shown)
{
	static const struct timeline_line *lines[TIMELINE_LINES];
	unsigned n = 0;
	double rest_ms = 0;

	for (unsigned i = 0; i < timeline->line_count; i++)
		if (timeline->line[i].of == of)
			lines[n++] = &timeline->line[i];
	qsort(lines, n, sizeof(lines[0]), by_total);
	fprintf(out, ",\n\"%s\":[", key);
	for (unsigned i = 0; i < n; i++) {
		if (i >= shown) {
			rest_ms += lines[i]->total / 1e6;
			continue;
		}
		fprintf(out, "%s\n{", i ? "," : "");
		write_name(out, timeline, lines[i]);
		if (of == TIMELINE_TASK_STALL && !lines[i]->rest) {
			const char *cgroup =
				trace_names_get(timeline->names, TRACE_NAME_CGROUP, lines[i]->a);

			fputs(",\"of\":", out);
			words_json(out, cgroup ? cgroup : "");
		}
		fprintf(out, ",\"total_ms\":%.6g,", lines[i]->total / 1e6);
		write_data(out, timeline, lines[i], 1e6);
		putc('}', out);
	}
	fprintf(out, "],\n\"%s_left\":%u,\"%s_left_ms\":%.6g", key, n > shown ? n - shown : 0, key,
		rest_ms);
}

static void write_lanes(FILE *out, const struct timeline *timeline)
{
	static const char *const names[LANE_COUNT] = {
		"OOM kills",     "refused", "capped",       "admitted",   "memory.events",
		"limit reclaim", "kswapd",  "fault bursts", "CUDA calls", "marks",
	};
	const char *comma = "";

	fputs(",\n\"lanes\":[", out);
	for (unsigned lane = 0; lane < LANE_COUNT; lane++) {
		const struct timeline_line *line = find(timeline, TIMELINE_EVENTS, lane, false);

		if (!line)
			continue;
		fprintf(out, "%s\n{\"name\":\"%s\",\"total\":%.0f,", comma, names[lane],
			line->total);
		write_data(out, timeline, line, 1);
		putc('}', out);
		comma = ",";
	}
	putc(']', out);
}

static int by_time(const void *a, const void *b)
{
	const struct timeline_note *x = a, *y = b;

	return x->ts_ns < y->ts_ns ? -1 : x->ts_ns > y->ts_ns;
}

static void write_notes(FILE *out, struct timeline *timeline)
{
	static const char *const words[LANE_COUNT + 1] = {
		"OOM kill", "refused", "capped",     "admitted", "memory.events", "limit reclaim",
		"kswapd",   "faults",  "CUDA calls", "mark",     "level",
	};
	uint64_t left = 0;

	qsort(timeline->note, timeline->note_count, sizeof(timeline->note[0]), by_time);
	fputs(",\n\"notes\":[", out);
	for (unsigned i = 0; i < timeline->note_count; i++) {
		const struct timeline_note *note = &timeline->note[i];
		double s = note->ts_ns < timeline->start_ns
				   ? 0
				   : (double)(note->ts_ns - timeline->start_ns) / 1e9;

		fprintf(out, "%s\n{\"s\":%.3f,\"what\":\"%s\",\"text\":", i ? "," : "", s,
			words[note->lane]);
		words_json(out, note->text);
		putc('}', out);
	}
	for (unsigned lane = 0; lane <= LANE_COUNT; lane++)
		left += timeline->noted[lane] > TIMELINE_NOTES
				? timeline->noted[lane] - TIMELINE_NOTES
				: 0;
	fprintf(out, "],\n\"notes_left\":%llu", (unsigned long long)left);
}

static void write_head(FILE *out, const struct timeline *timeline, const char *end)
{
	const struct trace_head *head = &timeline->head;
	const struct trace_drops *drops = &timeline->drops;
	/* Both may be any number. Unsigned overflow is defined. */
	uint64_t start_wall_ns = head->wall_ns + timeline->start_ns - head->mono_ns;

	fputs("{\"host\":", out);
	words_json(out, head->host);
	fputs(",\"kernel\":", out);
	words_json(out, head->kernel);
	fputs(",\"agent\":", out);
	words_json(out, head->agent);
	fprintf(out,
		",\"cpus\":%u,\"total\":%.6g,\"start_ms\":%llu,\"span_s\":%.6g,"
		"\"width_s\":%.9g,\"bins\":%u,\"end\":\"%s\",\"incomplete\":%s,\"lost\":%llu",
		head->n_cpus, (double)head->total_bytes / MIB,
		(unsigned long long)(start_wall_ns / 1000000),
		(double)(timeline->last_ns - timeline->start_ns) / 1e9,
		(double)timeline->width_ns / 1e9, timeline_bins(timeline), end,
		timeline->no_memory ? "true" : "false",
		(unsigned long long)(drops->kernel_count + drops->recorder_count +
				     drops->verdict_count));
}

void html_write(FILE *out, struct timeline *timeline, const char *end)
{
	const char *data = strstr(page_html, "@DATA@"), *script = strstr(page_html, "@SCRIPT@");

	fwrite(page_html, 1, (size_t)(data - page_html), out);
	write_head(out, timeline, end);
	write_lines(out, timeline, "levels", TIMELINE_LEVEL, 1, NULL, 0);
	write_lines(out, timeline, "memory", TIMELINE_AVAILABLE, MIB, "line", TIMELINE_RESERVE);
	write_lines(out, timeline, "psi_some", TIMELINE_PSI_SOME, 1, NULL, 0);
	write_lines(out, timeline, "psi_full", TIMELINE_PSI_FULL, 1, NULL, 0);
	write_lines(out, timeline, "groups", TIMELINE_CURRENT, MIB, "line", TIMELINE_LIMIT);
	write_lines(out, timeline, "dies", TIMELINE_DIE_FREE, MIB, "line", TIMELINE_DIE_BUDGET);
	write_lanes(out, timeline);
	write_stalls(out, timeline, "cgroups", TIMELINE_CGROUP_STALL, CGROUPS_SHOWN);
	write_stalls(out, timeline, "tasks", TIMELINE_TASK_STALL, TASKS_SHOWN);
	write_notes(out, timeline);
	putc('}', out);
	data += strlen("@DATA@");
	fwrite(data, 1, (size_t)(script - data), out);
	fputs(page_js, out);
	fputs(script + strlen("@SCRIPT@"), out);
}
