/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench: pnmem's figures, each measured beside its baseline in the same run. Prints a table and
 * writes bench.json into the build folder. A goal that is missed is printed as missed; the exit
 * status is 1 only if something could not run.
 *
 * Run it on a quiet machine: it makes memory pressure in a small cgroup of its own, and others'
 * pressure, or other agents with hooks, would be measured too.
 */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

/* Found by argp in libc, so it must be visible. */
__attribute__((visibility("default"))) const char *argp_program_version = "bench " PNMEM_VERSION;

/* What needs a quiet machine comes before what makes pressure, which takes a minute to decay. */
static const struct subject {
	const char *name;
	void (*run)(struct bench *bench);
} subject_table[] = {
	{ "decisions", decisions_bench }, { "snapshot", snapshot_bench },
	{ "waiters", waiters_bench },     { "engines", engines_bench },
	{ "idle", idle_bench },           { "gpu", gpu_bench },
	{ "tight", tight_bench },         { "latency", latency_bench },
	{ "hooks", hook_cost_bench },     { "trace", trace_bench },
};

#define SUBJECT_COUNT (sizeof(subject_table) / sizeof(subject_table[0]))

struct options {
	bool quick;
	const char *build;
	bool wanted[SUBJECT_COUNT];
	bool any_wanted;
};

static const struct argp_option option_table[] = {
	{ "quick", 'q', 0, 0, "Tiny counts, as a smoke test (also with BENCH_QUICK=1)", 0 },
	{ 0 },
};

static volatile sig_atomic_t stopped;

static void on_signal(int signal_number)
{
	stopped = signal_number;
}

bool bench_stopped(void)
{
	return stopped;
}

void bench_sleep_ms(unsigned ms)
{
	const struct timespec time = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l };

	nanosleep(&time, NULL);
}

const char *bench_why(int err)
{
	if ((err == -EPERM || err == -EACCES) && geteuid())
		return "needs root";
	return err == -ECHILD ? "the agent ended at once" : strerror(-err);
}

void *bench_shared(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static bool want_subject(struct options *options, const char *name)
{
	for (size_t i = 0; i < SUBJECT_COUNT; i++) {
		if (strcmp(subject_table[i].name, name))
			continue;
		options->wanted[i] = options->any_wanted = true;
		return true;
	}
	return false;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 'q':
		options->quick = true;
		return 0;
	case ARGP_KEY_ARG:
		if (!options->build)
			options->build = arg;
		else if (!want_subject(options, arg))
			argp_error(state, "no such subject: %s", arg);
		return 0;
	case ARGP_KEY_END:
		if (!options->build)
			argp_error(state, "which build folder?");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = option_table,
		.parser = parse_option,
		.args_doc = "BUILD [SUBJECT...]",
		.doc = "Measures pnmem, in some ten minutes; run it from the top of the tree. "
		       "BUILD is the build folder, where bench.json is written. Subjects: "
		       "decisions, snapshot, waiters, engines, idle, gpu, tight, latency, "
		       "hooks, trace; all without any.",
	};
	const char *quick = getenv("BENCH_QUICK");
	struct options options = { .quick = quick && strcmp(quick, "") && strcmp(quick, "0") };
	struct sigaction action = { .sa_handler = on_signal };
	static struct bench bench;
	char path[4096];
	int r;

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &options);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	bench.quick = options.quick;
	for (size_t i = 0; i < SUBJECT_COUNT && !stopped; i++) {
		if (options.any_wanted && !options.wanted[i])
			continue;
		fprintf(stderr, "bench: measuring %s\n", subject_table[i].name);
		subject_table[i].run(&bench);
		if (stopped)
			fprintf(stderr, "bench: stopped by signal %d in %s: no further rows\n",
				(int)stopped, subject_table[i].name);
	}
	snprintf(path, sizeof(path), "%s/bench.json", options.build);
	r = rows_write_json(&bench.rows, path);
	if (r) {
		fprintf(stderr, "bench: cannot write %s: %s\n", path, strerror(-r));
		return EXIT_FAILURE;
	}
	if (stopped)
		return 128 + stopped;
	return bench.rows.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
