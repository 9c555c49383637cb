/* SPDX-License-Identifier: BSD-2-Clause */
/* A PSI file (/proc/pressure/memory, memory.pressure): the parser alone. */
#ifndef PNMEM_HOST_PRESSURE_H
#define PNMEM_HOST_PRESSURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pressure_line {
	double avg10; /* percent, 0..100, two decimals as the kernel prints them */
	double avg60;
	double avg300;
	uint64_t total_us;
};

struct pressure {
	struct pressure_line some;
	struct pressure_line full; /* all 0 without has_full */
	bool has_full;
};

/*
 * Parses the whole file. The "full" line may be missing; a line that is there must have its four
 * values, in any order; unknown lines and values are ignored.
 * Returns 0, or -EBADMSG with *ret untouched.
 */
int pressure_parse(const char *buf, size_t len_bytes, struct pressure *ret);

#endif
