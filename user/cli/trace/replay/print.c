/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The words of a replay. They depend on the file and the settings only, and not on the time of day
 * or the locale. See print.h.
 */
#include "cli/trace/replay/print.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/format.h"
#include "cli/trace/names.h"
#include "cli/trace/words.h"
#include "pn_memwatch.h"

typedef unsigned long long ull;

/* Has a change been written? The next one then needs a comma before it. */
static bool any_change;

static const char *level_name(uint32_t level)
{
	return pn_mem_level_name((pn_mem_level)level);
}

/* ---- for people ----------------------------------------------------------------------------- */

static void print_settings(const char *what, const struct level_config *config)
{
	char reserve[FORMAT_BYTES] = "the rule", die[FORMAT_BYTES];

	if (config->host_reserve_bytes)
		format_bytes(reserve, config->host_reserve_bytes);
	printf("%-9s host reserve %s, PSI full reject %.2f, die reserve %s, hold %llu ms, cgroup "
	       "level %s\n",
	       what, reserve, words_finite(config->psi_full_reject_pct),
	       format_bytes(die, config->die_reserve_bytes), (ull)(config->hold_ns / 1000000),
	       config->cgroup_level ? "on" : "off");
}

static void print_verdict(const struct replay_change *c)
{
	const struct trace_verdict *v = c->verdict;
	char comm[16], bytes[FORMAT_BYTES];

	trace_printable(comm, sizeof(comm), v->comm);
	printf("%s of %s (%u): %s", words_ask(v->ask), comm, v->pid, words_verdict(v->verdict));
	if (v->verdict == PN_VERDICT_CAP)
		printf(" at %d", v->fit_tokens);
	if (v->check)
		printf(" (%s)", words_check(v->check));
	printf(" -> %s%s", c->estimate ? "about " : "", words_verdict(c->result->verdict));
	if (c->result->verdict == PN_VERDICT_CAP)
		printf(" at %d", c->result->fit_tokens);
	if (v->ask == TRACE_ASK_SLOT)
		printf(" (level %s)\n", level_name(c->result->level));
	else if (c->result->check == PN_CHECK_PSI_FULL)
		printf(" (psi_full %.2f, limit %.2f)\n", words_finite(c->result->psi_full_pct),
		       words_finite(c->result->psi_limit_pct));
	else
		printf(" (%s%shas %s above the reserve)\n",
		       c->result->check ? words_check(c->result->check) : "",
		       c->result->check ? " " : "", format_bytes(bytes, c->result->have_bytes));
}

static void print_change(const struct replay_change *c)
{
	char was[160], is[160];

	printf("+%llu.%03u s  %s  ", (ull)(c->ts_ns / 1000000000),
	       (unsigned)(c->ts_ns / 1000000 % 1000), c->view);
	if (c->verdict)
		print_verdict(c);
	else if (c->over)
		printf("%s, as recorded again\n", level_name(c->level));
	else
		printf("%s (%s) -> %s (%s)\n", level_name(c->level),
		       format_reasons(was, sizeof(was), c->reasons), level_name(c->with.level),
		       format_reasons(is, sizeof(is), c->with.reasons));
}

static void print_end(const struct replay_summary *s, enum trace_file_end end)
{
	char a[FORMAT_BYTES], b[FORMAT_BYTES];

	printf("levels    %llu looks in %s, file %s: they differ %llu times, for %s of all views' "
	       "time\n",
	       (ull)s->look_count, format_duration(a, s->span_ns), words_end(end),
	       (ull)s->change_count, format_duration(b, s->differ_ns));
	for (int level = 3; level >= 0; level--)
		if (s->level_ns[level] || s->with_ns[level])
			printf("          %s for %s -> %s\n", level_name((uint32_t)level),
			       format_duration(a, s->level_ns[level]),
			       format_duration(b, s->with_ns[level]));
	if (s->unknown_count)
		printf("          %llu looks taken as recorded: a die was not known yet, or too "
		       "many views\n",
		       (ull)s->unknown_count);
	printf("verdicts  %llu, %llu of them differ", (ull)s->verdict_count,
	       (ull)s->verdict_differ_count);
	for (uint32_t from = 0; from < 3; from++)
		for (uint32_t to = 0; to < 3; to++)
			if (s->verdict_from_to[from][to])
				printf(", %llu %s -> %s", (ull)s->verdict_from_to[from][to],
				       words_verdict(from), words_verdict(to));
	putchar('\n');
	if (s->verdict_unknown_count)
		printf("          %llu could not be replayed: their cost or their snapshot is not "
		       "in the file\n",
		       (ull)s->verdict_unknown_count);
}

/* ---- JSON: one value, written piece by piece ------------------------------------------------ */

/* Writes ,"key":value. */
static void put_json(const char *key, json_t *value)
{
	printf(",\n\"%s\":", key);
	json_dumpf(value, stdout, JSON_COMPACT);
	json_decref(value);
}

static json_t *settings_json(const struct level_config *config)
{
	return json_pack(
		"{sI sf sI sI sb}", "host_reserve_bytes", (json_int_t)config->host_reserve_bytes,
		"psi_full_reject", words_finite(config->psi_full_reject_pct), "die_reserve_bytes",
		(json_int_t)config->die_reserve_bytes, "level_hold_ms",
		(json_int_t)(config->hold_ns / 1000000), "cgroup_level", config->cgroup_level);
}

static json_t *level_json(uint32_t level, uint32_t reasons)
{
	char text[160];

	return json_pack("{si ss ss}", "level", (int)level, "level_name", level_name(level),
			 "reasons", format_reasons(text, sizeof(text), reasons));
}

static json_t *change_json(const struct replay_change *c)
{
	json_t *ret = json_pack("{sI ss}", "ts_ns", (json_int_t)c->ts_ns, "view", c->view);
	const struct trace_verdict *v = c->verdict;
	const pn_admit_result *r = c->result;
	char comm[16];

	if (!v) {
		json_object_set_new(ret, "what", json_string(c->over ? "same_again" : "level"));
		json_object_set_new(ret, "recorded", level_json(c->level, c->reasons));
		json_object_set_new(ret, "with", level_json(c->with.level, c->with.reasons));
		return ret;
	}
	json_object_set_new(ret, "what", json_string("verdict"));
	json_object_set_new(ret, "ask", json_string(words_ask(v->ask)));
	json_object_set_new(ret, "pid", json_integer(v->pid));
	json_object_set_new(ret, "comm", json_string(trace_printable(comm, sizeof(comm), v->comm)));
	json_object_set_new(ret, "estimate", json_boolean(c->estimate));
	json_object_set_new(ret, "recorded",
			    json_pack("{ss ss si sI sI}", "verdict", words_verdict(v->verdict),
				      "check", words_check(v->check), "fit_tokens", v->fit_tokens,
				      "have_bytes", (json_int_t)v->have_bytes, "reserve_bytes",
				      (json_int_t)v->reserve_bytes));
	json_object_set_new(ret, "with",
			    json_pack("{ss ss si sI sI}", "verdict", words_verdict(r->verdict),
				      "check", words_check(r->check), "fit_tokens", r->fit_tokens,
				      "have_bytes", (json_int_t)r->have_bytes, "reserve_bytes",
				      (json_int_t)r->reserve_bytes));
	return ret;
}

static json_t *times_json(const uint64_t ns[4])
{
	json_t *ret = json_object();

	for (uint32_t level = 0; level < 4; level++)
		json_object_set_new(ret, level_name(level), json_integer((json_int_t)ns[level]));
	return ret;
}

static void json_end(const struct replay_summary *s, enum trace_file_end end)
{
	fputs(any_change ? "\n]" : "]", stdout);
	put_json("summary",
		 json_pack("{ss sI sI sI sI sI so so sI sI sI}", "end", words_end(end), "span_ns",
			   (json_int_t)s->span_ns, "looks", (json_int_t)s->look_count,
			   "looks_not_replayed", (json_int_t)s->unknown_count, "level_changes",
			   (json_int_t)s->change_count, "differ_ns", (json_int_t)s->differ_ns,
			   "recorded_ns", times_json(s->level_ns), "with_ns",
			   times_json(s->with_ns), "verdicts", (json_int_t)s->verdict_count,
			   "verdicts_differ", (json_int_t)s->verdict_differ_count,
			   "verdicts_not_replayed", (json_int_t)s->verdict_unknown_count));
	puts("}");
}

/* ---- both ----------------------------------------------------------------------------------- */

void replay_begin(bool json, const char *path, const struct replay_policy *policy)
{
	if (!json) {
		print_settings("recorded", &policy->recorded);
		print_settings("with", &policy->with);
		return;
	}
	any_change = false;
	fputs("{\"file\":", stdout);
	words_json(stdout, path);
	put_json("recorded", settings_json(&policy->recorded));
	put_json("with", settings_json(&policy->with));
	fputs(",\n\"differences\":[", stdout);
}

void replay_change(bool json, const struct replay_change *change)
{
	json_t *value;

	if (!json) {
		print_change(change);
		return;
	}
	value = change_json(change);
	fputs(any_change ? ",\n" : "\n", stdout);
	any_change = true;
	json_dumpf(value, stdout, JSON_COMPACT);
	json_decref(value);
}

void replay_end(bool json, const struct replay_summary *summary, enum trace_file_end end)
{
	if (json)
		json_end(summary, end);
	else
		print_end(summary, end);
}
