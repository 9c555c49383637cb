/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When to look next, and how soon the pressure file may be read again. Events say when to look;
 * this covers what no event announces: a line crossed by memory that is not page-faulted, a
 * level that falls after pressure, and the heartbeat. Pure.
 */
#ifndef PNMEM_CORE_SCHEDULE_H
#define PNMEM_CORE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/level.h"
#include "pn_mem_state.h"

/* Looked at and beaten at least this often, so that readers can tell a hung publisher. */
#define SCHEDULE_HEARTBEAT_NS 2000000000ull

/*
 * Fastest plausible fill by one thread that no page-fault sample sees (MAP_POPULATE, pinned driver
 * memory): about what one core zeroes. Several threads that fault are seen by the sample.
 */
#define SCHEDULE_FILL_BYTES_PER_S (8ull << 30)

/* Never look more often than this for a crossing, however near the line. */
#define SCHEDULE_CROSSING_MIN_NS 10000000ull

/*
 * A raised level is looked at as often as the SPEC's poll would: nothing announces that memory was
 * freed or that PSI has decayed.
 */
#define SCHEDULE_RAISED_NS 250000000ull

/*
 * Pace of reads of /proc/pressure/memory: at once on the first stall after quiet, often for as
 * long as that is young, then every 100 ms at most. One read at the onset would not do: a stall
 * that begins has no duration yet, and the level rises with the first millisecond of it. Steady
 * fast reading would starve other programs' PSI triggers, which are in danger only around the
 * kernel's 2 s ticks; an onset comes after a second of quiet.
 */
struct psi_pace {
	uint64_t read_ns;  /* last read */
	uint64_t stall_ns; /* newest stall told of */
	uint64_t onset_ns; /* first stall after quiet */
};

#define PSI_PACE_ONSET_NS      60000000ull /* how long an onset is young */
#define PSI_PACE_ONSET_GAP_NS  2000000ull
#define PSI_PACE_STEADY_GAP_NS 100000000ull
#define PSI_PACE_QUIET_NS      1000000000ull

/* Reports a stall at stall_ns (it began, ended or still goes on). */
void psi_pace_stall(struct psi_pace *pace, uint64_t stall_ns);

/* Least time from one read to the next, as of now_ns. */
uint64_t psi_pace_gap_ns(const struct psi_pace *pace, uint64_t now_ns);

/* True if the file may be read at now_ns; the reader then sets read_ns. */
bool psi_pace_allows(const struct psi_pace *pace, uint64_t now_ns);

/* The values that decide when the next look is due, after a look. */
struct schedule_input {
	uint64_t now_ns;
	pn_mem_level level;
	uint64_t slack_bytes;      /* to the nearest line below, host or cgroup; UINT64_MAX: none */
	uint64_t hold_deadline_ns; /* level_hold_deadline_ns() */
	const struct psi_pace *pace;
};

/* Absolute time of the next look that no event need cause; always after now_ns. */
uint64_t schedule_next_look_ns(const struct schedule_input *in);

/* Least time in which slack_bytes can be filled at bytes_per_s; UINT64_MAX for no line. */
uint64_t schedule_fill_ns(uint64_t slack_bytes, uint64_t bytes_per_s);

#endif
