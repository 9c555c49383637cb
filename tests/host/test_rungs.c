/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every rung of the ladder, forced: the same pressure brings the same level, whatever hook tells of
 * it. A rung that this kernel refuses is a skip, and a failure where it is named in PN_TEST_RUNGS
 * (the kernel matrix, tests/vm/kernels.sh, knows what each kernel has). PN_TEST_WHOLE_MACHINE: the
 * machine is ours alone, and may be put under pressure where no memory cgroup can be made.
 *
 * The pressure is that of a group at its own limit. The agent keeps such pressure from others only
 * while the host has bytes enough, so the test makes them short.
 *
 * What one rung leaves behind takes a minute to decay, so the next one's CRITICAL line is set just
 * above it (PN_PSI_FULL_REJECT): that it is crossed is this rung's own doing.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "../filter.h"
#include "../skip.h"
#include "host/clock.h"
#include "support/agent_proc.h"
#include "support/pressure.h"
#include "pn_memwatch.h"

#define MIB       (1ull << 20)
#define S         1000000000ull
#define READERS   2
#define STEP_PCT  0.1
#define GROUP_MIB 20
#define LEAVE_MIB 30 /* of the whole machine, with the agent in it */

static const struct rung {
	const char *name;
	uint32_t mode;
} rungs[] = {
	{ "fentry", PN_MODE_FENTRY },
	{ "kprobe", PN_MODE_KPROBE },
	{ "tracepoint", PN_MODE_TRACEPOINT },
	{ "trigger", PN_MODE_PSI_TRIGGER },
	{ "poll", PN_MODE_POLL },
};

static struct agent_proc agent;
static struct pressure_group group;
static pid_t readers[READERS];
static pid_t hog;
static int group_err;
static size_t file_bytes = 50 * MIB; /* more than there is room for */

/* What is read, made before any rung is tried. */
static int make_file(void)
{
	pid_t reader = group_err ? 0 : pressure_start_reader(&group, file_bytes);

	pressure_stop(reader);
	return reader < 0;
}

static int group_setup(void **state)
{
	group_err = pressure_group_create(&group, GROUP_MIB * MIB);
	if (group_err != -ENOENT || !getenv("PN_TEST_WHOLE_MACHINE"))
		return make_file();
	pressure_group_none(&group);
	file_bytes = 150 * MIB;
	hog = pressure_start_hog(LEAVE_MIB * MIB);
	group_err = hog < 0 ? hog : 0;
	return make_file();
}

static int group_teardown(void **state)
{
	pressure_stop(hog);
	pressure_group_destroy(&group);
	return 0;
}

static int setup(void **state)
{
	return agent_proc_init(&agent);
}

static void stop_readers(void)
{
	for (int i = 0; i < READERS; i++)
		pressure_stop(readers[i]);
	memset(readers, 0, sizeof(readers));
}

static int teardown(void **state)
{
	stop_readers();
	pn_memwatch_stop();
	agent_proc_destroy(&agent);
	return 0;
}

/* "full avg10" as the kernel says it now; -1 without PSI. */
static double full_avg10_pct(void)
{
	FILE *f = fopen("/proc/pressure/memory", "re");
	double pct = -1;

	if (f && fscanf(f, "some %*[^\n] full avg10=%lf", &pct) != 1)
		pct = -1;
	if (f)
		fclose(f);
	return pct;
}

static bool is_required(const char *name)
{
	const char *list = getenv("PN_TEST_RUNGS");
	size_t bytes = strlen(name);

	for (const char *at = list; at && (at = strstr(at, name)); at += bytes)
		if ((at == list || at[-1] == ' ') && (!at[bytes] || at[bytes] == ' '))
			return true;
	return false;
}

static bool is_attached(void *arg)
{
	return pn_memwatch_source() == PN_SOURCE_AGENT;
}

static void start_agent(const struct rung *rung)
{
	const char *args[] = { "--stall-hook", rung->name, NULL };
	double full_pct = full_avg10_pct();
	char line[32];

	if (full_pct >= 0) {
		snprintf(line, sizeof(line), "%.2f", full_pct + STEP_PCT);
		setenv("PN_PSI_FULL_REJECT", line, 1);
	}
	if (full_pct >= 0 && group.limit_bytes)
		pressure_make_bytes_short();
	assert_int_equal(agent_proc_start(&agent, args), 0);
	unsetenv("PN_PSI_FULL_REJECT");
	assert_int_equal(pn_memwatch_start(), 0);
	/* At once, or a second later where the machine is too busy to answer in time. */
	assert_true(test_until(is_attached, NULL, 10000));
}

/*
 * Waits until the level is below this. The line was set by the file, which may have lagged behind a
 * stall of before by 2 s: from 100 % down to a line just above 0 takes 60 s.
 */
static void wait_below(pn_mem_level level)
{
	uint64_t deadline_ns = clock_now_ns() + 90 * S;
	pn_mem_state state;

	assert_int_equal(pn_memwatch_read(&state), 0);
	while (state.level >= level)
		assert_int_equal(pn_memwatch_wait(PN_WAIT_LEVEL, &state, deadline_ns, &state), 0);
}

/* Waits until it is at least this, and for this reason. */
static void wait_reached(pn_mem_level level, uint32_t reason, pn_mem_ext *ret_ext)
{
	uint64_t deadline_ns = clock_now_ns() + 30 * S;
	pn_mem_state state;

	assert_int_equal(pn_memwatch_read_ext(&state, ret_ext), 0);
	while (state.level < level || !(ret_ext->reasons & reason)) {
		assert_int_equal(pn_memwatch_wait(PN_WAIT_SNAPSHOT, &state, deadline_ns, &state),
				 0);
		assert_int_equal(pn_memwatch_read_ext(&state, ret_ext), 0);
	}
}

/*
 * A look that a kernel record or a trigger for this pressure caused, while it lasts: a raised level
 * is looked at every 250 ms anyway, so that the level alone would not show one that is silent.
 */
static void wait_record(uint64_t start_ns)
{
	uint64_t deadline_ns = clock_now_ns() + 30 * S;
	pn_mem_state state;
	pn_mem_ext ext;

	assert_int_equal(pn_memwatch_read(&state), 0);
	do {
		assert_int_equal(pn_memwatch_wait(PN_WAIT_SNAPSHOT, &state, deadline_ns, &state),
				 0);
		assert_int_equal(pn_memwatch_read_ext(NULL, &ext), 0);
	} while (ext.event_ns < start_ns);
}

static void test_rung(void **unused)
{
	const struct rung *rung = *unused;
	pn_mem_level want = PN_MEM_LEVEL_CRITICAL;
	pn_mem_ext ext;
	uint64_t start_ns;
	bool estimated;

	if (geteuid() || group_err)
		skip_because("no memory cgroup can be made: %s", strerror(-group_err));
	start_agent(rung);
	assert_int_equal(pn_memwatch_read_ext(NULL, &ext), 0);
	if (ext.mode != rung->mode && is_required(rung->name)) {
		agent_proc_log_print(&agent);
		fail_msg("this kernel must have the %s rung, mode is %u", rung->name, ext.mode);
	}
	if (ext.mode != rung->mode)
		skip_because("this kernel refuses the %s rung", rung->name);
	estimated = ext.source_state[PN_SRC_PSI] == PN_SRC_ESTIMATED;
	if (estimated)
		want = PN_MEM_LEVEL_TIGHT; /* there is no full, and an estimate starts at 0 */
	else if (ext.source_state[PN_SRC_PSI] != PN_SRC_OK)
		skip_because("no PSI, and the %s rung cannot make up for it", rung->name);
	wait_below(want);

	start_ns = clock_now_ns();
	for (int i = 0; i < READERS; i++) {
		readers[i] = pressure_start_reader(&group, file_bytes);
		assert_true(readers[i] > 0);
	}
	wait_reached(want, estimated ? PN_REASON_PSI_SOME : PN_REASON_PSI_FULL, &ext);
	if (rung->mode <= PN_MODE_PSI_TRIGGER)
		wait_record(start_ns);
	stop_readers();
	print_message("# rung: %s: %s%s after %llu ms\n", rung->name, pn_mem_level_name(want),
		      estimated ? " (estimated)" : "",
		      (unsigned long long)((ext.level_since_ns - start_ns) / 1000000));
	assert_int_equal(ext.mode, rung->mode);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		{ "test_fentry", test_rung, setup, teardown, (void *)&rungs[0] },
		{ "test_kprobe", test_rung, setup, teardown, (void *)&rungs[1] },
		{ "test_tracepoint", test_rung, setup, teardown, (void *)&rungs[2] },
		{ "test_trigger", test_rung, setup, teardown, (void *)&rungs[3] },
		{ "test_poll", test_rung, setup, teardown, (void *)&rungs[4] },
	};

	filter_from_environment();
	return cmocka_run_group_tests_name("rungs", tests, group_setup, group_teardown);
}
