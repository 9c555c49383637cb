/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pnmem admit: the options of its four questions, and the snapshot, live or from a file, that
 * answers them. admit_ask.c finds the answer and admit_print.c prints it.
 */
#include "cli/admit.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/admit_ask.h"
#include "cli/admit_print.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/snapshot_json.h"
#include "pn_memwatch.h"

enum {
	OPT_STATE = 256,
	OPT_TOKENS,
	OPT_MAX_WINDOW,
	OPT_KV,
	OPT_GPU_RESIDENT,
	OPT_DIE,
	OPT_LUT,
	OPT_WEIGHTS,
	OPT_GGUF,
	OPT_CTX,
	OPT_ACTIVATION,
	OPT_KV_BYTES,
	OPT_SPLIT,
	OPT_BYTES,
};

#define BIT(option) (1u << ((option)-OPT_STATE))
#define STATE_OPTION                                                                               \
	{                                                                                          \
		"state", OPT_STATE, "FILE", 0,                                                     \
			"Ask it of this snapshot, as 'pnmem status --json' "                       \
			"prints it, instead of this host's",                                       \
			8                                                                          \
	}
#define DIE_OPTION(text)                                                                           \
	{                                                                                          \
		"die", OPT_DIE, "N", 0, text, 0                                                    \
	}
#define KV_OPTION                                                                                  \
	{                                                                                          \
		"kv", OPT_KV, "q4|q8|f16|f32", 0, "Type of the KV cache (default: f32)", 0         \
	}
#define WEIGHTS_OPTION                                                                             \
	{                                                                                          \
		"weights", OPT_WEIGHTS, "BYTES", 0, "Bytes of weights", 0                          \
	}
#define GGUF_OPTION                                                                                \
	{                                                                                          \
		"gguf", OPT_GGUF, "FILE", 0,                                                       \
			"The model: weights, KV cache and state from its "                         \
			"header",                                                                  \
			0                                                                          \
	}

static const struct argp_option request_options[] = {
	{ "tokens", OPT_TOKENS, "N", 0, "Tokens of the prompt", 0 },
	{ "max-window", OPT_MAX_WINDOW, "N", 0, "Largest window that is allowed (default: any)",
	  0 },
	{ "kv", OPT_KV, "q4|f32", 0, "Type of the KV cache (default: f32)", 0 },
	{ "gpu-resident", OPT_GPU_RESIDENT, 0, 0, "The prefill runs on a GPU", 0 },
	DIE_OPTION("Compare with this die too (default: none)"),
	{ "lut", OPT_LUT, "TABLE", 0,
	  "Activation peaks, as PN_ADMIT_LUT: TOKENS:BYTES six times "
	  "with commas between",
	  0 },
	STATE_OPTION,
	{ 0 },
};

static const struct argp_option load_options[] = {
	WEIGHTS_OPTION,
	GGUF_OPTION,
	{ "ctx", OPT_CTX, "N", 0, "Tokens of context (default: the model file's)", 0 },
	KV_OPTION,
	{ "activation", OPT_ACTIVATION, "BYTES", 0,
	  "What the engine keeps for activations on the "
	  "die (default: 1536M)",
	  0 },
	DIE_OPTION("The die to load to (default: 0)"),
	STATE_OPTION,
	{ 0 },
};

static const struct argp_option load_die_options[] = {
	WEIGHTS_OPTION,
	{ "kv-bytes", OPT_KV_BYTES, "BYTES", 0, "Bytes of the die's slice of the KV cache", 0 },
	DIE_OPTION("The die (default: 0)"),
	GGUF_OPTION,
	{ "split", OPT_SPLIT, 0, 0, "Lay the model file over all dies of the snapshot", 0 },
	{ "ctx", OPT_CTX, "N", 0, "With --split, tokens of context (default: the model file's)",
	  0 },
	KV_OPTION,
	STATE_OPTION,
	{ 0 },
};

static const struct argp_option spike_options[] = {
	{ "bytes", OPT_BYTES, "BYTES", 0, "The burst (default: PN_LOAD_SPIKE_BYTES, else 2.4 GiB)",
	  0 },
	STATE_OPTION,
	{ 0 },
};

#define DOC_END                                                                                    \
	"\vBYTES may end in K, M, G or T (1024 each). PN_* settings of the environment count. "    \
	"Exit status: 0 admit, 1 cannot tell, 2 usage, 3 cap, 4 reject."

static const struct {
	const char *name;
	const char *full_name;
	const struct argp_option *options;
	const char *summary;
	const char *doc;
} kinds[] = {
	[ASK_REQUEST] = { "request", "admit request", request_options, "a prompt",
			  "May a prompt be prefilled now, and how much of it? The ladder's clamp "
			  "of the window is not applied." DOC_END },
	[ASK_LOAD] = { "load", "admit load", load_options, "a model on one die",
		       "May a model be loaded to a die? Needs --gguf, or --weights and --ctx. "
		       "Without a model file the KV cache is counted as that of the model of "
		       "pn_admission.h." DOC_END },
	[ASK_LOAD_DIE] = { "load-die", "admit load-die", load_die_options,
			   "a slice of a model, or a model split over all dies",
			   "May a die take its slice of a model? Needs --weights and --kv-bytes, "
			   "or --gguf and --split." DOC_END },
	[ASK_SPIKE] = { "spike", "admit spike", spike_options, "the burst of a weight upload",
			"May a weight upload begin, which takes host memory for a "
			"while?" DOC_END },
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/*
 * Prints one line and exits with the usage status. argp's own function would print a second line.
 */
#define USAGE(state, ...) argp_failure(state, CLI_USAGE, 0, __VA_ARGS__)

static int parse_count(struct argp_state *state, const char *option, const char *text, int max)
{
	long long value = 0;
	const char *p = text;

	for (; *p >= '0' && *p <= '9' && value <= max; p++)
		value = value * 10 + (*p - '0');
	if (p == text || *p || value > max)
		USAGE(state, "%s %s: not a whole number from 0 to %d", option, text, max);
	return (int)value;
}

static uint64_t parse_bytes(struct argp_state *state, const char *option, const char *text)
{
	static const char units[] = "KMGT";
	uint64_t value = 0;
	const char *p = text, *unit = NULL;
	bool bad = *p < '0' || *p > '9';

	for (; *p >= '0' && *p <= '9' && !bad; p++)
		bad = __builtin_mul_overflow(value, 10, &value) ||
		      __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value);
	if (!bad && *p) {
		unit = strchr(units, *p);
		bad = !unit || p[1] ||
		      __builtin_mul_overflow(value, 1ull << 10 * (unit - units + 1), &value);
	}
	if (bad)
		USAGE(state, "%s %s: not bytes, as in 512M", option, text);
	return value;
}

/* Checks that a question has the options that it needs, and none that exclude each other. */
static void check_options(struct argp_state *state, const struct admit_question *q)
{
	uint32_t given = q->given;
	bool weights = given & BIT(OPT_WEIGHTS), gguf = given & BIT(OPT_GGUF);

	switch (q->kind) {
	case ASK_REQUEST:
		if (!(given & BIT(OPT_TOKENS)))
			USAGE(state, "--tokens N is needed");
		if (q->kv != PN_KV_Q4_0 && q->kv != PN_KV_F32)
			USAGE(state, "--kv of a request is q4 or f32");
		break;
	case ASK_LOAD:
		if (weights == gguf)
			USAGE(state, "either --weights BYTES or --gguf FILE is needed");
		if (weights && !(given & BIT(OPT_CTX)))
			USAGE(state, "--weights needs --ctx N");
		break;
	case ASK_LOAD_DIE:
		if (weights == gguf || weights != !!(given & BIT(OPT_KV_BYTES)) || gguf != q->split)
			USAGE(state, "either --weights and --kv-bytes or --gguf and --split are "
				     "needed");
		if (gguf && (given & BIT(OPT_DIE)))
			USAGE(state, "--split is over all dies: no --die");
		if (weights && (given & (BIT(OPT_CTX) | BIT(OPT_KV))))
			USAGE(state, "--ctx and --kv go with --split");
		break;
	case ASK_SPIKE:
		break;
	}
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct admit_question *q = state->input;
	char bytes[32];

	if (key >= OPT_STATE && key <= OPT_BYTES)
		q->given |= BIT(key);
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &q->common;
		return 0;
	case OPT_STATE:
		q->state_path = arg;
		return 0;
	case OPT_TOKENS:
		q->n_tokens = parse_count(state, "--tokens", arg, INT_MAX);
		return 0;
	case OPT_CTX:
		q->n_tokens = parse_count(state, "--ctx", arg, INT_MAX);
		return 0;
	case OPT_MAX_WINDOW:
		q->max_window = parse_count(state, "--max-window", arg, INT_MAX);
		return 0;
	case OPT_DIE:
		q->die_id = parse_count(state, "--die", arg, PN_MEM_MAX_DIES - 1);
		return 0;
	case OPT_KV:
		if (pn_kv_type_parse(arg, &q->kv))
			USAGE(state, "--kv %s: not q4, q8, f16 or f32", arg);
		return 0;
	case OPT_GPU_RESIDENT:
		q->gpu_resident = true;
		return 0;
	case OPT_SPLIT:
		q->split = true;
		return 0;
	case OPT_GGUF:
		q->gguf_path = arg;
		return 0;
	case OPT_WEIGHTS:
		q->weights_bytes = parse_bytes(state, "--weights", arg);
		return 0;
	case OPT_KV_BYTES:
		q->kv_bytes = parse_bytes(state, "--kv-bytes", arg);
		return 0;
	case OPT_ACTIVATION:
		q->activation_bytes = parse_bytes(state, "--activation", arg);
		return 0;
	/* The library takes these two only from the environment, and reads it later. */
	case OPT_LUT:
		setenv("PN_ADMIT_LUT", arg, 1);
		return 0;
	case OPT_BYTES:
		snprintf(bytes, sizeof(bytes), "%llu",
			 (unsigned long long)parse_bytes(state, "--bytes", arg));
		setenv("PN_LOAD_SPIKE_BYTES", bytes, 1);
		return 0;
	case ARGP_KEY_END:
		check_options(state, q);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Reports settings that the library refused. A bad --lut is a usage error. */
static int check_settings(const struct admit_question *q)
{
	char warnings[512], *rest = warnings, *line;

	pn_admit_settings_check(warnings, sizeof(warnings));
	if ((q->given & BIT(OPT_LUT)) && strstr(warnings, "PN_ADMIT_LUT=")) {
		fprintf(stderr,
			"pnmem %s: --lut: not TOKENS:BYTES six times, tokens rising and "
			"bytes not falling\n",
			kinds[q->kind].full_name);
		return CLI_USAGE;
	}
	while ((line = strsep(&rest, "\n")))
		if (*line)
			fprintf(stderr, "pnmem: %s\n", line);
	return CLI_OK;
}

static int read_live(pn_mem_state *ret_state, pn_mem_ext *ret_ext)
{
	int r = cli_start();

	if (r)
		return r;
	r = pn_memwatch_read_ext(ret_state, ret_ext);
	pn_memwatch_stop();
	if (!r)
		return CLI_OK;
	fprintf(stderr, "pnmem: cannot read the snapshot: %s\n", strerror(-r));
	return CLI_FAILED;
}

static int ask(const struct admit_question *q)
{
	static const int statuses[] = { [PN_VERDICT_ADMIT] = CLI_OK,
					[PN_VERDICT_CAP] = CLI_CAPPED,
					[PN_VERDICT_REJECT] = CLI_REJECTED };
	struct admit_answer answer;
	pn_mem_state state;
	pn_mem_ext ext;
	pn_model model;
	int r;

	r = check_settings(q);
	if (!r)
		r = q->state_path ? snapshot_load(q->state_path, &state, &ext)
				  : read_live(&state, &ext);
	if (!r)
		r = admit_ask(q, &state, &ext, &model, &answer);
	if (r)
		return r;
	if (q->common.json) {
		r = json_print(admit_json(q, &answer), true);
	} else {
		admit_print(q, &answer);
		r = fflush(stdout) ? CLI_FAILED : CLI_OK;
	}
	return r ? r : statuses[answer.verdict];
}

static void usage(FILE *out)
{
	fprintf(out, "Usage: pnmem admit QUESTION [OPTION...]\nMay this begin, or does memory not "
		     "allow it? The verdict and the numbers compared.\n\n");
	for (size_t i = 0; i < N_KINDS; i++)
		fprintf(out, "  %-10s %s\n", kinds[i].name, kinds[i].summary);
	fprintf(out, "\nEvery question takes --state FILE, --json and --socket PATH; 'pnmem admit "
		     "QUESTION --help' tells the others.\n");
}

int cmd_admit(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, 0, 0 }, { 0 } };
	struct admit_question question = { .die_id = -1,
					   .n_tokens = -1,
					   .kv = PN_KV_F32,
					   .activation_bytes = PN_ADMIT_DIE_SCRATCH_BYTES };
	struct argp argp = { .parser = parse_option, .children = children };

	if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-?"))) {
		usage(stdout);
		return CLI_OK;
	}
	if (argc >= 2 && (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))) {
		printf("%s\n", argp_program_version);
		return CLI_OK;
	}
	for (size_t i = 0; argc >= 2 && i < N_KINDS; i++) {
		if (strcmp(argv[1], kinds[i].name))
			continue;
		question.kind = (enum admit_kind)i;
		question.name = kinds[i].name;
		argp.options = kinds[i].options;
		argp.doc = kinds[i].doc;
		argv[1] = (char *)kinds[i].full_name; /* only read */
		cli_parse(&argp, argc - 1, argv + 1, &question);
		return ask(&question);
	}
	if (argc >= 2)
		fprintf(stderr, "pnmem admit: no such question: %s\n", argv[1]);
	else
		usage(stderr);
	return CLI_USAGE;
}
