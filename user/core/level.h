/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pressure level from the numbers: the SPEC's tables, then DESIGN's cgroup level and hold.
 * Pure: no clock, no I/O. Which numbers to feed in is merge.c's business.
 */
#ifndef PNMEM_CORE_LEVEL_H
#define PNMEM_CORE_LEVEL_H

#include <stdbool.h>
#include <stdint.h>

#include "pn_mem_state.h"

struct level_config {
	uint64_t host_reserve_bytes; /* 0: the rule, max(1 GiB, 15 % of MemTotal) */
	double psi_full_reject_pct;  /* full avg10 at and above which it is CRITICAL */
	uint64_t die_reserve_bytes;
	uint64_t hold_ns;  /* a lower level must hold this long before it is taken */
	bool cgroup_level; /* false: host and dies only, exactly the SPEC */
};

/* The SPEC's defaults. */
extern const struct level_config level_config_default;

/* Host reserve for a machine of total_bytes; override_bytes != 0 wins. */
uint64_t level_reserve_bytes(uint64_t total_bytes, uint64_t override_bytes);

/* Reserve inside a limit: min(1 GiB, 15 % of it), so that a small group is not all reserve. */
uint64_t level_cgroup_reserve_bytes(uint64_t limit_bytes);

/* Bytes available against a reserve: the host table, also used for a cgroup's headroom. */
pn_mem_level level_from_bytes(uint64_t avail_bytes, uint64_t reserve_bytes);

/* The PSI rows, in percent. `some` and `full` apart, so that each can be named as the reason. */
pn_mem_level level_from_psi_some(double some_avg10_pct);
pn_mem_level level_from_psi_full(double full_avg10_pct, double reject_pct);

/* One die; budget 0 is no die at all and gives OK. */
pn_mem_level level_from_die(uint64_t free_bytes, uint64_t budget_bytes);

/*
 * The line that avail_bytes would cross next on its way down: the bytes between it and that
 * line. UINT64_MAX where there is none left (CRITICAL already).
 */
uint64_t level_slack_to_next_line_bytes(uint64_t avail_bytes, uint64_t reserve_bytes);

/* The hold: up at once, down only after a lower level has held for hold_ns. */
struct level_hold {
	pn_mem_level level;     /* the level in force */
	bool pending;           /* a lower one is waiting */
	pn_mem_level candidate; /* highest level wanted since it began to wait */
	uint64_t since_ns;      /* when it began to wait */
};

/* Takes the level that the numbers want at now_ns; returns the level in force. */
pn_mem_level level_hold_apply(struct level_hold *hold, pn_mem_level wanted, uint64_t now_ns,
			      uint64_t hold_ns);

/* When to look again so that the hold ends on time; UINT64_MAX if nothing is waiting. */
uint64_t level_hold_deadline_ns(const struct level_hold *hold, uint64_t hold_ns);

#endif
