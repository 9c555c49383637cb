/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reference engine: a server without a model, but with an engine's threads, its memory, and
 * every call of pnmem where the SPEC's tables have it. For engine authors to read (completion.c
 * first, then guard.c), and for tests to load. --no-guard is the same without pnmem.
 */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "completion.h"
#include "http.h"

#define EXIT_USAGE   2
#define EXIT_REFUSED 4 /* as `pnmem admit` */
#define DRAIN_S      30

const char *argp_program_version = "engine " PNMEM_VERSION;

struct options {
	struct weights_options weights;
	unsigned port;
	unsigned step_us;
	unsigned queue_ms;
	bool kv_q4;
	bool kv_evict;
	bool no_guard;
};

enum { KEY_WEIGHTS = 256, KEY_KV_BYTES, KEY_KV, KEY_EVICT, KEY_DIE, KEY_STEP, KEY_QUEUE, KEY_OFF };

static const struct argp_option argp_options[] = {
	{ "model", 'm', "FILE", 0, "A GGUF file's geometry instead of a made-up one", 1 },
	{ "weights", KEY_WEIGHTS, "BYTES", 0, "Weights (K, M, G allowed; 64M)", 1 },
	{ "kv-bytes-per-token", KEY_KV_BYTES, "BYTES", 0, "KV cache in f32 (40960)", 1 },
	{ "kv", KEY_KV, "f32|q4", 0, "Format of the KV cache (f32)", 2 },
	{ "kv-evict", KEY_EVICT, 0, 0, "Evict from long sequences always, not from TIGHT on", 2 },
	{ "slots", 's', "N", 0, "Requests that run at a time (16)", 2 },
	{ "ctx", 'c', "TOKENS", 0, "Longest request (16384)", 2 },
	{ "die", KEY_DIE, "BYTES", 0, "A die that holds weights and KV; once for each", 2 },
	{ "step-us", KEY_STEP, "US", 0, "Time of a decode step (1000)", 3 },
	{ "queue-ms", KEY_QUEUE, "MS", 0, "Longest wait for a slot, guarded (10000)", 3 },
	{ "port", 'p', "PORT", 0, "On 127.0.0.1 (8080; 0: any free one)", 3 },
	{ "no-guard", KEY_OFF, 0, 0, "Without pnmem", 4 },
	{ 0 },
};

static uint64_t parse_number(struct argp_state *state, const char *text, uint64_t min, uint64_t max)
{
	static const char suffixes[] = "KMG";
	const char *suffix;
	uint64_t number;
	char *end;

	errno = 0;
	number = strtoull(text, &end, 10);
	suffix = *end ? strchr(suffixes, *end) : NULL;
	if (suffix) {
		unsigned shift = 10 * (unsigned)(suffix - suffixes + 1);

		number = number << shift >> shift == number ? number << shift : UINT64_MAX;
		end++;
	}
	if (errno || end == text || *end || *text == '-' || number < min || number > max)
		argp_error(state, "%s: want a number from %llu to %llu", text,
			   (unsigned long long)min, (unsigned long long)max);
	return number;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	const uint64_t bytes_max = 1ull << 50;

	switch (key) {
	case 'm':
		o->weights.gguf_path = arg;
		return 0;
	case KEY_WEIGHTS:
		o->weights.bytes = parse_number(state, arg, 0, bytes_max);
		return 0;
	case KEY_KV_BYTES:
		o->weights.kv_f32_bytes_per_token =
			parse_number(state, arg, WEIGHTS_KV_F32_MIN_BYTES, 4u << 20) /
			WEIGHTS_KV_F32_MIN_BYTES * WEIGHTS_KV_F32_MIN_BYTES;
		return 0;
	case KEY_KV:
		if (strcmp(arg, "f32") && strcmp(arg, "q4"))
			argp_error(state, "--kv: want f32 or q4");
		o->kv_q4 = !strcmp(arg, "q4");
		return 0;
	case KEY_EVICT:
		o->kv_evict = true;
		return 0;
	case 's':
		o->weights.slots = (int)parse_number(state, arg, 1, PLAIN_SLOTS_MAX);
		return 0;
	case 'c':
		o->weights.ctx_tokens = (int)parse_number(state, arg, 2, 1u << 24);
		return 0;
	case KEY_DIE:
		if (o->weights.n_dies == PN_MEM_MAX_DIES)
			argp_error(state, "--die: at most %d dies", PN_MEM_MAX_DIES);
		o->weights.die_bytes[o->weights.n_dies++] = parse_number(state, arg, 1, bytes_max);
		return 0;
	case KEY_STEP:
		o->step_us = (unsigned)parse_number(state, arg, 0, 10000000);
		return 0;
	case KEY_QUEUE:
		o->queue_ms = (unsigned)parse_number(state, arg, 0, 3600000);
		return 0;
	case 'p':
		o->port = (unsigned)parse_number(state, arg, 0, UINT16_MAX);
		return 0;
	case KEY_OFF:
		o->no_guard = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument: %s", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int fail(const char *what, int err)
{
	fprintf(stderr, "engine: %s: %s\n", what, strerror(-err));
	return EXIT_FAILURE;
}

/* Loads behind the open door: /healthz answers at once, /readyz when this is done. */
static int load_and_serve(struct engine *engine, const struct options *options,
			  const struct http *http, const sigset_t *ends)
{
	struct refusal why;
	int signal_number;
	int r = weights_load(&engine->weights, &options->weights, &engine->guard, &why);

	if (r) {
		fprintf(stderr, "engine: not loaded: %s\n", why.reason);
		return r == -EAGAIN ? EXIT_REFUSED : EXIT_FAILURE;
	}
	engine->loaded = true;
	printf("ready on http://127.0.0.1:%u, %s, %s KV\n", http_port(http),
	       guard_name(&engine->guard), engine->weights.kv_q4 ? "Q4" : "f32");
	fflush(stdout);
	sigwait(ends, &signal_number);
	return EXIT_SUCCESS;
}

static int serve(struct engine *engine, const struct options *options, const sigset_t *ends)
{
	struct http *http;
	int r = http_start(&http, engine, options->port);

	if (r)
		return fail("cannot listen", r);
	r = load_and_serve(engine, options, http, ends);
	/* Unready first; queued requests are answered, running ones finish. */
	engine->stopping = true;
	slots_shutdown(&engine->slots);
	http_drain(http, DRAIN_S);
	engine->cut = true;
	http_stop(http);
	printf("finished %llu, of them shortened %llu; refused %llu, failed %llu\n",
	       (unsigned long long)engine->finished, (unsigned long long)engine->shortened,
	       (unsigned long long)engine->refused, (unsigned long long)engine->failed);
	weights_free(&engine->weights);
	return r;
}

static int run(struct engine *engine, const struct options *options, const sigset_t *ends)
{
	int r = guard_start(&engine->guard);

	if (r)
		return fail("cannot watch memory", r);
	r = forward_start(&engine->forward, engine->guard.on, options->step_us);
	if (r) {
		guard_stop(&engine->guard);
		return fail("cannot start the device", r);
	}
	r = slots_start(&engine->slots, &engine->guard);
	if (r) {
		forward_stop(&engine->forward);
		guard_stop(&engine->guard);
		return fail("cannot start the scheduler", r);
	}
	r = serve(engine, options, ends);
	guard_stop(&engine->guard);
	slots_stop(&engine->slots);
	forward_stop(&engine->forward);
	return r;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = argp_options,
		.parser = parse_option,
		.doc = "A server with an LLM engine's threads and memory, and no model.",
	};
	static struct engine engine;
	struct options options = {
		.weights = {
			.bytes = 64ull << 20,
			.kv_f32_bytes_per_token = PN_ADMIT_KV_BYTES_PER_TOKEN_FP32,
			.ctx_tokens = 16384,
			.slots = 16,
		},
		.port = 8080,
		.step_us = 1000,
		.queue_ms = 10000,
	};
	sigset_t ends;

	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &options);

	/* Before any thread is started: all inherit the mask, and sigwait gets them. */
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &ends, NULL);

	engine.guard.on = !options.no_guard;
	engine.guard.configured = (pn_ladder_config){
		.max_slots = options.weights.slots,
		.prefill_window = options.weights.ctx_tokens,
		.kv_q4 = options.kv_q4,
		.kv_evict = options.kv_evict,
	};
	engine.ctx_tokens = options.weights.ctx_tokens;
	engine.queue_ms = options.queue_ms;
	engine.on_dies = options.weights.n_dies > 0;
	return run(&engine, &options, &ends);
}
