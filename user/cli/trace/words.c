/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers of trace records in words. See words.h. */
#include "cli/trace/words.h"

#include <math.h>
#include <stdio.h>

#include "core/trace_format.h"

static const char *pick(const char *const *names, unsigned count, uint32_t i)
{
	return i < count ? names[i] : "?";
}

static void memcg_words(char *buf, size_t buf_bytes, uint64_t bits)
{
	static const char *const names[PN_MEMCG_COUNT] = { "low", "high", "max", "oom",
							   "oom_kill" };
	size_t n = (size_t)snprintf(buf, buf_bytes, "memory.events");
	const char *before = " ";

	for (unsigned bit = 0; bit < PN_MEMCG_COUNT && n < buf_bytes; bit++) {
		if (!(bits & 1u << bit))
			continue;
		n += (size_t)snprintf(buf + n, buf_bytes - n, "%s%s", before, names[bit]);
		before = ",";
	}
}

char *words_event(char *buf, size_t buf_bytes, const struct pn_event *event)
{
	static const char *const names[PN_EVENT_KIND_COUNT] = {
		[0] = "?",
		[PN_EVENT_STALL] = "stall begins",
		[PN_EVENT_STALL_END] = "last stall ends",
		[PN_EVENT_RECLAIM] = "reclaim at a limit",
		[PN_EVENT_OOM_KILL] = "OOM kill",
		[PN_EVENT_KSWAPD_WAKE] = "kswapd wakes",
		[PN_EVENT_FAULTS] = "page faults",
		[PN_EVENT_CUDA_CALL] = "CUDA memory call",
		[PN_EVENT_CUDA_EXIT] = "CUDA process ends",
		[PN_EVENT_MEMCG] = "memory.events",
	};

	if (event->kind == PN_EVENT_MEMCG)
		memcg_words(buf, buf_bytes, event->value);
	else
		snprintf(buf, buf_bytes, "%s", pick(names, PN_EVENT_KIND_COUNT, event->kind));
	return buf;
}

const char *words_verdict(uint32_t verdict)
{
	static const char *const names[] = { "admitted", "capped", "refused" };

	return pick(names, 3, verdict);
}

const char *words_end(enum trace_file_end end)
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

const char *words_ask(uint32_t ask)
{
	static const char *const names[] = { "?", "request", "load", "load-die", "spike", "slot" };

	return names[ask < 6 ? ask : 0];
}

const char *words_check(uint32_t check)
{
	static const char *const names[] = { "none", "psi_full", "host",  "cgroup",
					     "die",  "no_die",   "window" };

	return check < 7 ? names[check] : "?";
}

const char *words_mark(uint32_t of)
{
	static const char *const names[] = { "?",
					     "recorder written",
					     "command begins",
					     "command ends",
					     "process of the command",
					     "last engine left" };

	return pick(names, 6, of);
}

void words_json(FILE *out, const char *text)
{
	putc('"', out);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\' || c == '<' || c == '>' || c == '&')
			fprintf(out, "\\u%04x", c);
		else
			putc(c < 0x20 || c >= 0x7f ? '?' : c, out);
	}
	putc('"', out);
}

double words_finite(double value)
{
	return isfinite(value) ? value : 0;
}
