/* SPDX-License-Identifier: BSD-2-Clause */
/* The answers of pnmem admit, for people and as JSON. */
#ifndef PNMEM_CLI_ADMIT_PRINT_H
#define PNMEM_CLI_ADMIT_PRINT_H

#include <jansson.h>

#include "cli/admit.h"

void admit_print(const struct admit_question *question, const struct admit_answer *answer);
/* The caller frees it. */
json_t *admit_json(const struct admit_question *question, const struct admit_answer *answer);

#endif
