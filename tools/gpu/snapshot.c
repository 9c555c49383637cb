/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gpu-probe snapshot: the dies as they are published, and what the agent tells of them, in lines
 *
 *	now NS
 *	die INDEX PCI UUID STATE FREE_BYTES BUDGET_BYTES SAMPLE_NS
 *	line STATE SUBJECT: HOOK: WHY
 *
 * Times are CLOCK_MONOTONIC. STATE of a die is ok, stale, unsupported or absent; of a line active,
 * refused or untried. No agent is an exit status of 1.
 */
#include <stdio.h>

#include "probe.h"
#include "host/clock.h"
#include "pn_memwatch.h"

static void print_die(const pn_mem_state *state, const pn_mem_ext *ext, int i)
{
	static const char *const states[] = { "absent", "ok", "stale", "unsupported" };
	unsigned die_state = ext->die_state[i];

	printf("die %d %s ", i, ext->die_pci[i][0] ? ext->die_pci[i] : "-");
	for (size_t k = 0; k < sizeof(ext->die_uuid[i]); k++)
		printf("%02x", ext->die_uuid[i][k]);
	printf(" %s %llu %llu %llu\n", die_state < 4 ? states[die_state] : "?",
	       (unsigned long long)state->per_die_free[i],
	       (unsigned long long)state->per_die_budget[i],
	       (unsigned long long)ext->die_sample_ns[i]);
}

int probe_snapshot(char **argv)
{
	static const char *const states[] = { "active", "refused", "untried" };
	pn_hook_status lines[64];
	pn_mem_state state;
	pn_mem_ext ext;
	int n;

	if (!probe_attach() || pn_memwatch_read_ext(&state, &ext))
		return 1;
	printf("now %llu\n", (unsigned long long)clock_now_ns());
	for (int i = 0; i < state.n_dies; i++)
		print_die(&state, &ext, i);
	n = pn_memwatch_dies(lines, sizeof(lines) / sizeof(lines[0]));
	for (int i = 0; i < n; i++)
		printf("line %s %s: %s: %s\n",
		       (unsigned)lines[i].state < 3 ? states[lines[i].state] : "?",
		       lines[i].subject, lines[i].hook, lines[i].why);
	pn_memwatch_stop();
	return n < 0;
}
