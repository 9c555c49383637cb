/* SPDX-License-Identifier: BSD-2-Clause */
/* A PSI file from anywhere: no crash, and what is accepted is a percentage. */
#include <errno.h>
#include <stdlib.h>

#include "host/pressure.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

static void check_pct(double pct)
{
	if (!(pct >= 0.0 && pct <= 100.0))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
	struct pressure p = { .some = { .total_us = 7 } };
	int err = pressure_parse((const char *)data, len_bytes, &p);

	if (err && (err != -EBADMSG || p.some.total_us != 7))
		abort();
	check_pct(p.some.avg10);
	check_pct(p.some.avg60);
	check_pct(p.some.avg300);
	check_pct(p.full.avg10);
	check_pct(p.full.avg60);
	check_pct(p.full.avg300);
	if (!p.has_full && p.full.total_us)
		abort();
	return 0;
}
