/* SPDX-License-Identifier: BSD-2-Clause */
/* The words of a report. See words.h. */
#include "cli/trace/report/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/format.h"
#include "pn_admission.h"

char *report_at(char buf[static REPORT_TEXT], const struct story *story, uint64_t ts_ns)
{
	if (ts_ns < story->first_ns)
		snprintf(buf, REPORT_TEXT, "?");
	else
		snprintf(buf, REPORT_TEXT, "+%.3f s", (double)(ts_ns - story->first_ns) / 1e9);
	return buf;
}

char *report_cgroup(char buf[static REPORT_TEXT], const struct story *story, uint64_t cgroup_id)
{
	const char *name = trace_names_get(story->names, TRACE_NAME_CGROUP, cgroup_id);

	if (name)
		snprintf(buf, REPORT_TEXT, "%s", name);
	else if (cgroup_id)
		snprintf(buf, REPORT_TEXT, "cgroup %llu", (unsigned long long)cgroup_id);
	else
		snprintf(buf, REPORT_TEXT, "cgroup unknown");
	return buf;
}

char *report_view(char buf[static REPORT_TEXT], const struct story *story, uint32_t view)
{
	char label[TRACE_VIEWS_LABEL];

	snprintf(buf, REPORT_TEXT, "%s", trace_views_label(story->views, view, label));
	return buf;
}

/* A text in a buffer of REPORT_TEXT bytes, `used` of which are in use. */
struct text {
	char *buf;
	int used;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *text, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text->buf + text->used, (size_t)(REPORT_TEXT - text->used), format, args);
	va_end(args);
	text->used = n < REPORT_TEXT - text->used ? text->used + n : REPORT_TEXT - 1;
}

/* Begins another way to admit it. */
static void or_else(struct text *text)
{
	if (text->used)
		say(text, ", or ");
}

/* Rounds up, so that the printed number suffices. */
static char *enough_bytes(char buf[static FORMAT_BYTES], uint64_t bytes)
{
	uint64_t unit = 1, tenth;

	while (bytes / unit >= 1024 && unit < 1ull << 60)
		unit *= 1024;
	tenth = unit < 10 ? 1 : unit / 10;
	return format_bytes(buf, bytes + (tenth - bytes % tenth) % tenth);
}

bool report_has_settings(const struct refusal *refusal)
{
	return refusal->with.given && !refusal->no_settings && !refusal->unsure;
}

static void say_settings(struct text *text, const struct refusal *refusal)
{
	const struct replay_policy *with = &refusal->with;
	const char *and = "";

	if (!report_has_settings(refusal))
		return;
	if (refusal->estimate)
		say(text, "about ");
	if (with->given & REPLAY_PSI_FULL_REJECT) {
		say(text, "PN_PSI_FULL_REJECT=%.2f", with->with.psi_full_reject_pct);
		and = " and ";
	}
	if (with->given & REPLAY_HOST_RESERVE) {
		say(text, "%sPN_HOST_RESERVE_BYTES=%lluM", and,
		    (unsigned long long)with->with.host_reserve_bytes >> 20);
		and = " and ";
	}
	if (with->given & REPLAY_DIE_RESERVE)
		say(text, "%sPN_DIE_RESERVE_BYTES=%lluM", and,
		    (unsigned long long)with->with.die_reserve_bytes >> 20);
}

/* Says how many bytes less in use would have sufficed, and where. */
static void say_freed(struct text *text, const struct refusal *refusal)
{
	char bytes[FORMAT_BYTES];

	if (!refusal->freed_bytes || refusal->unsure)
		return;
	or_else(text);
	if (refusal->first.check == PN_CHECK_PSI_FULL)
		say(text, "no stalls and ");
	say(text, "%s less in use%s", enough_bytes(bytes, refusal->freed_bytes),
	    refusal->first.check == PN_CHECK_DIE      ? " on the die"
	    : refusal->first.check == PN_CHECK_CGROUP ? " there, or memory.max higher"
						      : "");
}

/* Says what would have admitted it where the cause is not a number of bytes. */
static void say_check(struct text *text, const struct refusal *refusal)
{
	switch (refusal->first.check) {
	case PN_CHECK_NONE:
		say(text, "a level below CRITICAL");
		break;
	case PN_CHECK_NO_DIE:
		say(text, "the die in the snapshot");
		break;
	case PN_CHECK_WINDOW:
		say(text, "a window of %d tokens%s", refusal->most_tokens,
		    report_has_settings(refusal) || refusal->freed_bytes ? " and " : "");
		break;
	default:
		break;
	}
}

char *report_prevented(char buf[static REPORT_TEXT], const struct story *story,
		       const struct refusal *refusal)
{
	struct text text = { buf, 0 };
	char wait[FORMAT_BYTES];

	buf[0] = 0;
	say_check(&text, refusal);
	say_settings(&text, refusal);
	if (refusal->first.check != PN_CHECK_WINDOW || !report_has_settings(refusal))
		say_freed(&text, refusal);
	if (refusal->claimed_count == refusal->count)
		say(&text, "smaller reservations by others");
	if (refusal->least_fit_tokens > 0 && refusal->first.check != PN_CHECK_WINDOW) {
		or_else(&text);
		say(&text, "a window of %d tokens", refusal->least_fit_tokens);
	}
	if (refusal->admitted_ns) {
		or_else(&text);
		say(&text, "a wait of %s%s",
		    format_duration(wait, refusal->admitted_ns - refusal->first_ns),
		    refusal->count > 1 ? " for the first" : "");
	}
	if (!text.used)
		say(&text, "not known");
	if (refusal->claimed_count && refusal->claimed_count < refusal->count)
		say(&text, "; %llu of them with smaller reservations by others",
		    (unsigned long long)refusal->claimed_count);
	return buf;
}
