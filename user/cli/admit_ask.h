/* SPDX-License-Identifier: BSD-2-Clause */
/* The questions of pnmem admit, put to the library. */
#ifndef PNMEM_CLI_ADMIT_ASK_H
#define PNMEM_CLI_ADMIT_ASK_H

#include "cli/admit.h"

/*
 * Returns 0; CLI_FAILED with a message; CLI_USAGE if the context is not given and the model file
 * does not say it. ret->arch lives as long as *model.
 */
int admit_ask(const struct admit_question *question, const pn_mem_state *state,
	      const pn_mem_ext *ext, pn_model *model, struct admit_answer *ret);

#endif
