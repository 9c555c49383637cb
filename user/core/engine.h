/* SPDX-License-Identifier: BSD-2-Clause */
/* pn_admit without the live snapshot, the settings, the clock and the log: steps 3 to 5, pure. */
#ifndef PNMEM_CORE_ENGINE_H
#define PNMEM_CORE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/admission.h"
#include "pn_engine.h"

/* The ladder's change of the window; to_tokens 0: no change. */
struct engine_clamp {
	int from_tokens;
	int to_tokens;
};

/* Decides. ext may be NULL. Fills *out and *ret_clamp. */
pn_admit_status engine_decide(const struct admission_config *config, const pn_engine *model,
			      int n_tokens, bool ladder_off, const pn_mem_state *state,
			      const pn_mem_ext *ext, pn_admit_result *out,
			      struct engine_clamp *ret_clamp);

/* The known die of the mask with the fewest free bytes, the lowest of equals; -1: none. */
int engine_worst_die(uint32_t die_mask, const pn_mem_state *state);

/*
 * True if a clamp at this level may be logged at now_ns: one a second for each level, whichever
 * thread comes first. now_ns is monotonic and not 0.
 */
bool engine_log_due(pn_engine *model, pn_mem_level level, uint64_t now_ns);

/* Writes the SPEC's "[ladder] ..." line. */
void engine_clamp_line(const struct engine_clamp *clamp, const pn_mem_state *state, char *buf,
		       size_t buf_bytes);

#endif
