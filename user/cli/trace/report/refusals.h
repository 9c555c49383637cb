/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What was refused or capped in a trace, and what would have admitted it. It is found by asking
 * core's admission again, as pnmem trace replay does: a replay with these settings says the same.
 */
#ifndef PNMEM_CLI_TRACE_REPORT_REFUSALS_H
#define PNMEM_CLI_TRACE_REPORT_REFUSALS_H

#include "cli/trace/views.h"
#include "core/replay.h"
#include "core/trace_decode.h"

/* Verdicts of one kind and cause, of one engine. The view in them is a place. */
struct refusal {
	struct trace_verdict first, newest;
	uint64_t first_ns;
	uint64_t count;
	int32_t least_fit_tokens, most_tokens;

	/* What would have admitted all of them. */
	struct replay_policy with; /* these settings, where some are given ... */
	bool no_settings;          /* ... and there are some */
	uint64_t freed_bytes; /* so much less in use would have admitted those that lacked bytes */
	bool estimate;        /* what they cost is not known exactly */
	bool unsure;          /* one of them cannot be asked again */

	/* Refusals although the snapshot had room: others had reserved it, or took it since. */
	uint64_t claimed_count;
	uint64_t room_bytes; /* of the first of them */

	struct replay_question *question; /* the first one's, NULL if it cannot be asked again */
	bool waiting;                     /* no later look would have admitted that one so far */
	uint64_t admitted_ns;             /* when one did, 0 never */
};

#define REFUSALS_MAX 32

struct refusals {
	struct replay_policy policy; /* as recorded, or the defaults */
	struct replay_view
		*view[TRACE_VIEWS_MAX]; /* by place; NULL: nothing is known, or no memory */
	uint64_t verdict_count[3];      /* by verdict */
	struct refusal refusal[REFUSALS_MAX];
	unsigned count;
	uint64_t rest_count; /* refusals for which there was no room */
};

void refusals_open(struct refusals *refusals);
void refusals_close(struct refusals *refusals);

void refusals_config(struct refusals *refusals, const struct trace_config *config);

/* The view of a die, a look and a verdict is a place; TRACE_VIEW_NONE: it has none. */
void refusals_die(struct refusals *refusals, uint32_t place, const struct trace_die *die);
/* The view may now have room for a request that was refused before. */
void refusals_look(struct refusals *refusals, const struct trace_look *look, uint64_t ts_ns);
void refusals_verdict(struct refusals *refusals, const struct trace_verdict *verdict,
		      uint64_t ts_ns);

#endif
