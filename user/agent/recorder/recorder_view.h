/* SPDX-License-Identifier: BSD-2-Clause */
/* The flight recorder's part of a view. */
#ifndef PNMEM_AGENT_RECORDER_RECORDER_VIEW_H
#define PNMEM_AGENT_RECORDER_RECORDER_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "core/dies.h"

struct recorder_user;

/* What the recorder keeps of each view; all zero at first. */
struct recorder_view {
	struct recorder_user *user; /* NULL: not known yet */
	uint32_t id;                /* 0: no record of it yet, and the host's own */
	uint64_t begin_ns;          /* from when on the number is this one's */
	uint64_t name_pos;          /* of its newest name in the ring of names */
	bool known;
	bool in_episode; /* it is CRITICAL, and counted in its user's episode */
	uint32_t level;
	uint32_t wanted_level;
	uint32_t reasons;
	uint64_t look_ns;                  /* of its newest record */
	uint64_t dies_ns;                  /* when all dies were recorded, changed or not */
	uint32_t die_check[DIE_TABLE_MAX]; /* of the newest record of each die, 0 none */
};

#endif
