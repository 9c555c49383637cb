/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of pnmem admit share: the question and its answer. */
#ifndef PNMEM_CLI_ADMIT_H
#define PNMEM_CLI_ADMIT_H

#include <limits.h>

#include "cli/cli.h"
#include "pn_admission.h"
#include "pn_model.h"

enum admit_kind { ASK_REQUEST, ASK_LOAD, ASK_LOAD_DIE, ASK_SPIKE };

/* The options. die_id -1, n_tokens -1: not given; max_window 0: no limit. */
struct admit_question {
	struct cli_common common;
	enum admit_kind kind;
	const char *name; /* "request" */
	const char *state_path, *gguf_path;
	uint32_t given; /* bits of the options that were */
	int n_tokens, max_window, die_id;
	pn_kv_type kv;
	bool gpu_resident, split;
	uint64_t weights_bytes, kv_bytes, activation_bytes;
};

/* A part of need_bytes. */
struct admit_part {
	const char *name; /* "weights"; NULL ends the list */
	uint64_t bytes;
};

struct admit_verdict {
	pn_admit_result result;
	struct admit_part parts[5];
	pn_model_slice slice; /* of a split model; n_layers 0 otherwise */
};

struct admit_answer {
	int n_tokens;             /* asked for; of a load: the context */
	const char *arch;         /* of the model file, NULL without one */
	int n_verdicts;           /* 1, or one for each die with a slice */
	pn_admit_verdict verdict; /* of all of them: the worst */
	struct admit_verdict verdicts[PN_MEM_MAX_DIES];
};

#endif
