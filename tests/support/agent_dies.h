/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For the tests of an agent with a scripted die sampler (fake_dies.c): the agent, the script, what
 * the sampler notes down, and what is published. Include after cmocka.h.
 */
#ifndef PNMEM_SUPPORT_AGENT_DIES_H
#define PNMEM_SUPPORT_AGENT_DIES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/clock.h"
#include "support/agent_proc.h"
#include "pn_memwatch.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define MS  1000000ull
#define S   1000000000ull

static struct agent_proc agent;
static char script_path[96];

static inline int setup(void **unused)
{
	char fake[4096];

	if (agent_proc_init(&agent) || !realpath("build/tests/host/fake_dies", fake))
		return -1;
	snprintf(script_path, sizeof(script_path), "%s/dies", agent.dir);
	setenv("FAKE_DIES", script_path, 1);
	setenv("PNMEM_DIES", fake, 1);
	return 0;
}

static inline int teardown(void **unused)
{
	static const char *const suffixes[] = { "", ".new", ".pid", ".log" };
	char path[128];

	pn_memwatch_stop();
	agent_proc_kill(&agent);
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", script_path, suffixes[i]);
		unlink(path);
	}
	agent_proc_destroy(&agent);
	unsetenv("PN_DIE_SOURCE");
	return 0;
}

/* Replaces the script; the sampler reads old or new, never half. */
static inline void script(const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s.new", script_path);
	file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(rename(path, script_path), 0);
}

static inline long read_number(const char *suffix)
{
	char path[128], line[64];
	FILE *file;
	long number = 0;

	snprintf(path, sizeof(path), "%s%s", script_path, suffix);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		number = suffix[1] == 'p' ? atol(line) : number + 1;
	if (file)
		fclose(file);
	return number;
}

static inline bool has_pid(void *arg)
{
	return read_number(".pid") > 0;
}

/* Of the newest one; its file is empty for a moment when it starts. */
static inline pid_t sampler_pid(void)
{
	pid_t pid = 0;

	while (pid <= 0) {
		assert_true(test_until(has_pid, NULL, 5000));
		pid = (pid_t)read_number(".pid");
	}
	return pid;
}

static inline long requests(void)
{
	return read_number(".log");
}

static inline void forget_requests(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s.log", script_path);
	unlink(path);
}

static pn_mem_state state;
static pn_mem_ext ext;

static inline void read_snapshot(void)
{
	assert_int_equal(pn_memwatch_read_ext(&state, &ext), 0);
	assert_int_equal(pn_memwatch_source(), PN_SOURCE_AGENT);
}

struct want {
	int die;
	int state;
	uint64_t free_bytes;
};

static inline bool die_is(void *arg)
{
	const struct want *want = arg;

	read_snapshot();
	return want->die < state.n_dies && ext.die_state[want->die] == want->state &&
	       state.per_die_free[want->die] == want->free_bytes;
}

static inline void expect_die(int die, int die_state, uint64_t free_bytes, int limit_ms)
{
	struct want want = { die, die_state, free_bytes };

	if (!test_until(die_is, &want, limit_ms))
		fail_msg("die %d: n_dies %d, state %d, free %llu", die, state.n_dies,
			 ext.die_state[die], (unsigned long long)state.per_die_free[die]);
}

static inline bool is_attached(void *arg)
{
	return pn_memwatch_source() == PN_SOURCE_AGENT;
}

static inline void start_agent(const char *const arguments[])
{
	assert_int_equal(agent_proc_start(&agent, arguments), 0);
	assert_int_equal(pn_memwatch_start(), 0);
	assert_true(test_until(is_attached, NULL, 5000));
}

static inline bool in_log(void *arg)
{
	return agent_proc_log_count(&agent, arg) > 0;
}

static inline void expect_log(const char *text, int times)
{
	assert_true(test_until(in_log, (void *)text, 10000));
	assert_int_equal(agent_proc_log_count(&agent, text), times);
}

#endif
