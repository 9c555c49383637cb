/* SPDX-License-Identifier: BSD-2-Clause */
/* The words of a report. See trace_report.h. */
#include <string.h>

#include "cli/cli.h"
#include "cli/trace_report.h"
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
	uint32_t id = story->view[view].id;
	const char *name = trace_names_get(story->names, TRACE_NAME_VIEW, id);

	if (!view)
		snprintf(buf, REPORT_TEXT, "the host");
	else if (name)
		snprintf(buf, REPORT_TEXT, "%s", name);
	else
		snprintf(buf, REPORT_TEXT, "view %u", id);
	return buf;
}

const char *report_end(enum trace_file_end end)
{
	switch (end) {
	case TRACE_FILE_WHOLE:
		return "whole";
	case TRACE_FILE_CUT:
		return "cut";
	case TRACE_FILE_DAMAGED:
		return "damaged";
	default:
		return "unreadable";
	}
}

const char *report_ask(uint32_t ask)
{
	static const char *const names[] = { "?", "request", "load", "load-die", "spike", "slot" };

	return names[ask < 6 ? ask : 0];
}

const char *report_check(uint32_t check)
{
	static const char *const names[] = { "none", "psi_full", "host",  "cgroup",
					     "die",  "no_die",   "window" };

	return check < 7 ? names[check] : "?";
}

/* What its reserve would have had to be, or how much less others would have had to use. */
static int say_bytes(char *buf, const struct story_refusal *refusal, const char *whose)
{
	char bytes[FORMAT_BYTES];
	uint64_t reserve_bytes = refusal->first.reserve_bytes;

	if (reserve_bytes >= refusal->worst_lack_bytes && reserve_bytes)
		return snprintf(buf, REPORT_TEXT, "%s reserve of %s", whose,
				format_bytes(bytes, reserve_bytes - refusal->worst_lack_bytes));
	return snprintf(buf, REPORT_TEXT, "%s less in use",
			format_bytes(bytes, refusal->worst_lack_bytes));
}

char *report_prevented(char buf[static REPORT_TEXT], const struct story *story,
		       const struct story_refusal *refusal)
{
	const struct trace_verdict *first = &refusal->first;
	char wait[FORMAT_BYTES];
	int n = 0;

	switch (first->check) {
	case PN_CHECK_NONE:
		n = snprintf(buf, REPORT_TEXT, "a level below CRITICAL");
		break;
	case PN_CHECK_PSI_FULL:
		n = snprintf(buf, REPORT_TEXT, "PN_PSI_FULL_REJECT above %.2f",
			     first->psi_full_pct);
		break;
	case PN_CHECK_HOST:
		n = say_bytes(buf, refusal, "a");
		break;
	case PN_CHECK_CGROUP:
		/* Its reserve follows from its limit. */
		n = snprintf(buf, REPORT_TEXT, "%s less in use there, or memory.max higher",
			     format_bytes(wait, refusal->worst_lack_bytes));
		break;
	case PN_CHECK_DIE:
		n = say_bytes(buf, refusal, "a die");
		break;
	case PN_CHECK_NO_DIE:
		n = snprintf(buf, REPORT_TEXT, "the die in the snapshot");
		break;
	default:
		n = snprintf(buf, REPORT_TEXT, "a window of %d tokens", first->n_tokens);
		break;
	}
	if (first->fit_tokens > 0 && first->check != PN_CHECK_WINDOW)
		n += snprintf(buf + n, REPORT_TEXT - (size_t)n, ", a window of %d tokens",
			      first->fit_tokens);
	if (refusal->admitted_ns)
		snprintf(buf + n, REPORT_TEXT - (size_t)n, ", holding it %s",
			 format_duration(wait, refusal->admitted_ns - refusal->first_ns));
	return buf;
}
