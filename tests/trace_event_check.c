// SPDX-License-Identifier: BSD-2-Clause
/*
 * trace_event_check TRACE JSON: the JSON is what the trace-event format allows, with a name for
 * every track, and holds what the trace does, no more and no less.
 */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/trace_decode.h"

static unsigned n_wrong;

#define WRONG(...)                                                                                 \
	do {                                                                                       \
		if (n_wrong++ < 20) {                                                              \
			printf(__VA_ARGS__);                                                       \
			putchar('\n');                                                             \
		}                                                                                  \
	} while (0)

/* The numbers that are counted in the trace and in the JSON. */
struct counts {
	long long slices, begins, ends, instants, verdicts, marks;
	long long slice_ns;
	long long available, current, dies, reclaim, levels;
	long long level_ns;
};

/* ---- of the trace --------------------------------------------------------------------------- */

/* used: the view has not ended. The next view with its number is another one. */
struct source_view {
	uint32_t id;
	bool used;
	uint32_t level;
	uint64_t last_ns;
};

static struct source_view *view_of(uint64_t id)
{
	static struct source_view *views;
	static size_t count;

	for (size_t i = 0; i < count; i++)
		if (views[i].id == id)
			return &views[i];
	views = realloc(views, (count + 1) * sizeof(*views));
	if (!views)
		exit(2);
	views[count] = (struct source_view){ .id = (uint32_t)id };
	return &views[count++];
}

static void count_look(const struct trace_item *item, struct counts *ret)
{
	const struct trace_look *look = &item->look;
	struct source_view *view = view_of(look->view);

	*(look->view ? &ret->current : &ret->available) += 1;
	if (!view->used || view->level != look->level)
		ret->levels++;
	if (view->used)
		ret->level_ns += (long long)(item->ts_ns - view->last_ns);
	view->used = true;
	view->level = look->level;
	view->last_ns = item->ts_ns;
}

static void count_item(const struct trace_item *item, struct counts *ret)
{
	static bool vmstat_before;
	const struct pn_event *event = &item->event;

	switch (item->kind) {
	case TRACE_EVENT:
		if (event->value &&
		    (event->kind == PN_EVENT_STALL || event->kind == PN_EVENT_STALL_END)) {
			ret->slices++;
			ret->slice_ns += (long long)event->value;
		} else {
			ret->instants++;
		}
		break;
	case TRACE_LOOK:
		count_look(item, ret);
		break;
	case TRACE_DIE:
		ret->dies++;
		break;
	case TRACE_VMSTAT:
		ret->reclaim += vmstat_before ? 2 : 0; /* a rate takes two */
		vmstat_before = true;
		break;
	case TRACE_VERDICT:
		ret->verdicts++;
		break;
	case TRACE_MARK:
		if (item->mark.of == TRACE_MARK_VIEW_END) {
			view_of(item->mark.value)->used = false;
			ret->current++; /* to 0 */
		}
		ret->marks++;
		break;
	default:
		break;
	}
}

static int count_source(const char *path, struct counts *ret)
{
	FILE *f = fopen(path, "re");
	struct trace_record record;
	struct trace_item item;
	struct trace_head head;
	unsigned char *bytes;
	size_t at = 0, n, used;

	if (!f || fseek(f, 0, SEEK_END))
		return -1;
	n = (size_t)ftell(f);
	rewind(f);
	bytes = malloc(n);
	if (!bytes || fread(bytes, 1, n, f) != n || trace_read_head(bytes, n, &head, &used))
		return -1;
	for (at = used; !trace_read_record(bytes + at, n - at, &record, &used); at += used)
		if (!trace_decode(&record, &item))
			count_item(&item, ret);
	ret->begins = ret->ends = ret->slices;
	free(bytes);
	fclose(f);
	return 0;
}

/* ---- of the JSON ---------------------------------------------------------------------------- */

/* Names of tracks, times of counters and ends of slices, by "PID:TID" or "PID NAME". */
static json_t *named, *newest, *open_async;

static long long ns_of(const json_t *event, const char *key)
{
	return llround(json_number_value(json_object_get(event, key)) * 1000);
}

static const char *text_of(const json_t *event, const char *key)
{
	const char *text = json_string_value(json_object_get(event, key));

	return text ? text : "";
}

static const char *track_of(const json_t *event, bool with_tid)
{
	static char text[64];
	long long pid = json_integer_value(json_object_get(event, "pid"));

	if (with_tid)
		snprintf(text, sizeof(text), "%lld:%lld", pid,
			 (long long)json_integer_value(json_object_get(event, "tid")));
	else
		snprintf(text, sizeof(text), "%lld", pid);
	return text;
}

/* On one track, times do not go back, and a slice does not begin in the one before. */
static void check_order(const char *track, long long ns)
{
	const json_t *before = json_object_get(newest, track);

	if (before && json_integer_value(before) > ns)
		WRONG("%s: %lld ns comes after %lld ns", track, ns, json_integer_value(before));
	json_object_set_new(newest, track, json_integer(ns));
}

static void check_named(const json_t *event)
{
	if (!json_object_get(named, track_of(event, false)))
		WRONG("process %s has no name", track_of(event, false));
	if (!json_object_get(named, track_of(event, true)))
		WRONG("track %s has no name", track_of(event, true));
}

static void check_metadata(const json_t *event)
{
	const json_t *args = json_object_get(event, "args");
	const char *name = text_of(event, "name");

	if (!strcmp(name, "process_sort_index")) {
		if (!json_is_integer(json_object_get(args, "sort_index")))
			WRONG("a sort index is no number");
		return;
	}
	if (strcmp(name, "process_name") && strcmp(name, "thread_name"))
		WRONG("metadata %s", name);
	if (!text_of(args, "name")[0])
		WRONG("an empty name");
	json_object_set_new(named, track_of(event, name[0] == 't'), json_true());
}

static void check_slice(const json_t *event, struct counts *ret)
{
	bool level = !strcmp(text_of(event, "cat"), "level");

	if (!json_is_number(json_object_get(event, "dur")) || ns_of(event, "dur") < 0)
		WRONG("a slice without dur");
	check_named(event);
	check_order(track_of(event, true), ns_of(event, "ts"));
	check_order(track_of(event, true), ns_of(event, "ts") + ns_of(event, "dur"));
	*(level ? &ret->levels : &ret->slices) += 1;
	*(level ? &ret->level_ns : &ret->slice_ns) += ns_of(event, "dur");
}

/* An end follows its begin, and nothing else of the same id comes between. */
static void check_async(const json_t *event, bool begins, struct counts *ret)
{
	const char *id = text_of(event, "id");
	json_t *since = json_object_get(open_async, id);

	if (!*id || !*text_of(event, "cat"))
		WRONG("an asynchronous event without id or cat");
	if (begins ? since != NULL : !since || json_integer_value(since) > ns_of(event, "ts"))
		WRONG("%s of %s at %lld ns", begins ? "begin" : "end", id, ns_of(event, "ts"));
	if (begins)
		json_object_set_new(open_async, id, json_integer(ns_of(event, "ts")));
	else
		json_object_del(open_async, id);
	*(begins ? &ret->begins : &ret->ends) += 1;
}

static void check_counter(const json_t *event, struct counts *ret)
{
	const char *name = text_of(event, "name"), *unit;
	json_t *args = json_object_get(event, "args"), *value;
	char series[128];

	if (json_object_size(args) != 1)
		WRONG("%s: not one value", name);
	json_object_foreach(args, unit, value)
	{
		if (!json_is_number(value))
			WRONG("%s is no number", name);
		snprintf(series, sizeof(series), "%s %s %s", track_of(event, false), name, unit);
		check_order(series, ns_of(event, "ts"));
	}
	ret->available += !strcmp(name, "MemAvailable");
	ret->current += !strcmp(name, "cgroup current");
	ret->dies += !strncmp(name, "die ", 4);
	ret->reclaim += !strcmp(name, "direct reclaim");
}

static void check_event(const json_t *event, struct counts *ret)
{
	const char *ph = text_of(event, "ph"), *cat = text_of(event, "cat");

	if (strlen(ph) != 1 || !strchr("XbeCiM", *ph)) {
		WRONG("ph is \"%s\"", ph);
		return;
	}
	if (!json_is_integer(json_object_get(event, "pid")) ||
	    !json_is_integer(json_object_get(event, "tid")) || !text_of(event, "name")[0])
		WRONG("pid, tid or name of a \"%s\" is missing", ph);
	if (*ph != 'M' && !json_is_number(json_object_get(event, "ts")))
		WRONG("a \"%s\" without ts", ph);
	switch (*ph) {
	case 'M':
		check_metadata(event);
		break;
	case 'X':
		check_slice(event, ret);
		break;
	case 'C':
		check_counter(event, ret);
		break;
	case 'i':
		if (strcmp(text_of(event, "s"), "t"))
			WRONG("an instant of scope \"%s\"", text_of(event, "s"));
		check_named(event);
		ret->verdicts += !strcmp(cat, "verdict");
		ret->marks += !strcmp(cat, "mark");
		ret->instants += !strcmp(cat, "event");
		break;
	default:
		check_async(event, *ph == 'b', ret);
		break;
	}
}

static void compare(const char *what, long long want, long long got)
{
	if (want != got)
		WRONG("%s: %lld in the trace, %lld in the JSON", what, want, got);
}

int main(int argc, char **argv)
{
	struct counts want = { 0 }, got = { 0 };
	json_error_t error;
	json_t *file, *event;
	size_t i;

	if (argc != 3 || count_source(argv[1], &want))
		return 2;
	file = json_load_file(argv[2], JSON_REJECT_DUPLICATES, &error);
	if (!file || !json_array_size(json_object_get(file, "traceEvents"))) {
		printf("no trace events: %s\n", error.text);
		return 1;
	}
	named = json_object();
	newest = json_object();
	open_async = json_object();
	json_array_foreach(json_object_get(file, "traceEvents"), i, event) check_event(event, &got);
	if (json_object_size(open_async))
		WRONG("%zu begin and do not end", json_object_size(open_async));
	compare("stalls", want.slices, got.slices);
	compare("their time", want.slice_ns, got.slice_ns);
	compare("begins", want.begins, got.begins);
	compare("ends", want.ends, got.ends);
	compare("events", want.instants, got.instants);
	compare("verdicts", want.verdicts, got.verdicts);
	compare("marks", want.marks, got.marks);
	compare("looks at the host", want.available, got.available);
	compare("looks at cgroups", want.current, got.current);
	compare("die samples", want.dies, got.dies);
	compare("reclaim rates", want.reclaim, got.reclaim);
	compare("levels", want.levels, got.levels);
	compare("time at levels", want.level_ns, got.level_ns);
	return n_wrong ? 1 : 0;
}
