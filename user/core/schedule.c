/* SPDX-License-Identifier: BSD-2-Clause */
/* The next look. See schedule.h. */
#include "core/schedule.h"

#include "core/u64.h"

/* A stall this young may still be going on, even where the hooks cannot tell. */
#define STALL_RECENT_NS 100000000ull
#define NEXT_MIN_NS     1000000ull

void psi_pace_stall(struct psi_pace *pace, uint64_t stall_ns)
{
	if (stall_ns <= pace->stall_ns)
		return;
	if (stall_ns - pace->stall_ns >= PSI_PACE_QUIET_NS)
		pace->onset_ns = stall_ns;
	pace->stall_ns = stall_ns;
}

uint64_t psi_pace_gap_ns(const struct psi_pace *pace, uint64_t now_ns)
{
	if (now_ns - pace->onset_ns >= PSI_PACE_ONSET_NS)
		return PSI_PACE_STEADY_GAP_NS;
	return pace->read_ns < pace->onset_ns ? 0 : PSI_PACE_ONSET_GAP_NS;
}

bool psi_pace_allows(const struct psi_pace *pace, uint64_t now_ns)
{
	return now_ns - pace->read_ns >= psi_pace_gap_ns(pace, now_ns);
}

uint64_t schedule_fill_ns(uint64_t slack_bytes, uint64_t bytes_per_s)
{
	if (slack_bytes == UINT64_MAX)
		return UINT64_MAX;
	return (uint64_t)((double)slack_bytes * 1e9 / (double)bytes_per_s);
}

uint64_t schedule_next_look_ns(const struct schedule_input *in)
{
	uint64_t now = in->now_ns, wait = SCHEDULE_HEARTBEAT_NS;

	wait = u64_min(wait, u64_max(schedule_fill_ns(in->slack_bytes, SCHEDULE_FILL_BYTES_PER_S),
				     SCHEDULE_CROSSING_MIN_NS));
	if (in->level > PN_MEM_LEVEL_OK)
		wait = u64_min(wait, SCHEDULE_RAISED_NS);
	if (in->hold_deadline_ns != UINT64_MAX)
		wait = u64_min(wait, in->hold_deadline_ns > now ? in->hold_deadline_ns - now : 0);
	if (now - in->pace->stall_ns < STALL_RECENT_NS) {
		uint64_t due = in->pace->read_ns + psi_pace_gap_ns(in->pace, now);

		wait = u64_min(wait, due > now ? due - now : 0);
	}
	return now + u64_max(wait, NEXT_MIN_NS);
}
