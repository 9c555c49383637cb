/* SPDX-License-Identifier: BSD-2-Clause */
/* A whole snapshot for people, and what its numbers mean. */
#ifndef PNMEM_CLI_SNAPSHOT_H
#define PNMEM_CLI_SNAPSHOT_H

#include <stdint.h>
#include <stdio.h>

#include "pn_memwatch.h"

void snapshot_print(FILE *out, const pn_mem_state *state, const pn_mem_ext *ext,
		    const char *line_end);

/* How long ago t_ns (CLOCK_MONOTONIC) was; UINT64_MAX if t_ns is 0. */
uint64_t snapshot_age_ns(uint64_t t_ns);

/* The number of dies in a snapshot with its extension, and die 0..snapshot_die_count - 1. */
int snapshot_die_count(const pn_mem_state *state, const pn_mem_ext *ext);
pn_mem_die snapshot_die(const pn_mem_state *state, const pn_mem_ext *ext, int i);

/* The level that a die alone asks for; budget_bytes is not 0. */
pn_mem_level snapshot_die_level(uint64_t free_bytes, uint64_t budget_bytes);

#endif
