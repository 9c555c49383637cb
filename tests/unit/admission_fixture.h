/* SPDX-License-Identifier: BSD-2-Clause */
/* The settings and the host that the tests of admission start from. */
#ifndef PNMEM_TESTS_ADMISSION_FIXTURE_H
#define PNMEM_TESTS_ADMISSION_FIXTURE_H

#include "core/admission.h"

#define MIB             (1ull << 20)
#define GIB             (1ull << 30)
#define ARRAY_LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static inline struct admission_config default_config(void)
{
	struct admission_config config;

	admission_settings(&config, NULL, NULL, NULL, NULL);
	return config;
}

/* 64 GiB of host with the reserve's rule (15 %: 9.6 GiB), and one die. */
static inline pn_mem_state big_host(uint64_t above_reserve_bytes, uint64_t die_free_bytes)
{
	return (pn_mem_state){
		.host_total_bytes = 64 * GIB,
		.host_avail_bytes = 64 * GIB * 15 / 100 + above_reserve_bytes,
		.n_dies = 1,
		.per_die_free = { die_free_bytes },
		.per_die_budget = { 11 * GIB },
	};
}

#endif
