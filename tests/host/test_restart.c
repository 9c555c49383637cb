/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent is killed and started again, many times, under engines that read, sleep and push all
 * the while. Each is to poll for itself within a second, to be back within a second after a new
 * agent serves, never to be shown anything older than it has seen (lib/watchers.h), and to hold no
 * more descriptors, mappings or memory at the end than at the beginning. 15 times here; 1,000 with
 * PN_SOAK=1 (make soak), which takes seven minutes.
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
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "host/clock.h"
#include "support/agent_proc.h"
#include "support/watchers.h"

#define RESTARTS      15
#define RESTARTS_SOAK 1000
#define ENGINES       4
/* What DESIGN promises. */
#define FALL_BACK_MS 1000
#define RETURN_MS    1000
/* Seen by a poll every 250 ms, or by an agent that is asked to look at every push. */
#define SEE_MS 1000
/* What is held settles during these: heaps, the thread of an eventfd, stacks that were touched. */
#define WARM_UP 5
/* Pages of heap and stacks that happen to be touched for the first time later. */
#define ANON_SLACK_KIB 256

static struct agent_proc agent;
static struct watchers watchers;

static int setup(void **state)
{
	int r = agent_proc_init(&agent);

	setenv("PN_LEVEL_HOLD_MS", "0", 1); /* the level is what the digit says, at once */
	if (!r)
		r = watchers_init(&watchers, agent.dir);
	return r;
}

static int teardown(void **state)
{
	watchers_stop(&watchers);
	agent_proc_destroy(&agent);
	unsetenv("PN_LEVEL_HOLD_MS");
	return 0;
}

static bool all_poll(void *arg)
{
	return watchers_poll(&watchers);
}

static bool all_on_agent(void *arg)
{
	return watchers_on_agent(&watchers, agent.pid);
}

static bool all_see_digit(void *arg)
{
	return watchers_see_digit(&watchers);
}

/* Fails with what went wrong, engines' own words first. */
static void expect(bool (*cond)(void *arg), int limit_ms, const char *what, int round)
{
	bool came = test_until(cond, NULL, limit_ms);

	if (!watchers_are_well(&watchers))
		fail_msg("restart %d, while waiting for: %s", round, what);
	if (came)
		return;
	for (unsigned i = 0; i < watchers.count; i++) {
		const struct watcher *w = &watchers.watcher[i];

		printf("# engine %u: source %d, agent %u, digit %u of %u\n", i, w->source,
		       w->agent_pid, w->digit, watchers.digit);
	}
	fail_msg("restart %d, not within %d ms: %s", round, limit_ms, what);
}

static void start_agent(int round)
{
	/* With hooks and without: the one dies with programs attached, the other starts at once. */
	const char *const hooks[] = { "--procfs", watchers.dir, NULL };
	const char *const no_bpf[] = { "--procfs", watchers.dir, "--no-bpf", NULL };

	assert_int_equal(agent_proc_start(&agent, round % 2 ? no_bpf : hooks), 0);
}

static void next_digit(int round)
{
	assert_int_equal(watchers_next_digit(&watchers), 0);
	expect(all_see_digit, SEE_MS, "the level of now", round);
}

/* So that kills land anywhere in what agent and engines are at. */
static void pause_a_while(void)
{
	const struct timespec time = { .tv_nsec = random() % 10000000 };

	nanosleep(&time, NULL);
}

struct longest {
	uint64_t fall_back_ns, return_ns;
};

static void note_longest(uint64_t *longest_ns, uint64_t start_ns)
{
	uint64_t ns = clock_now_ns() - start_ns;

	if (ns > *longest_ns)
		*longest_ns = ns;
}

static void restart(int round, struct longest *longest)
{
	uint64_t start_ns;

	pause_a_while();
	start_ns = clock_now_ns();
	agent_proc_kill(&agent);
	/* Every third time the new one is there before the engines can have settled. */
	if (round % 3) {
		expect(all_poll, FALL_BACK_MS, "its own poll", round);
		note_longest(&longest->fall_back_ns, start_ns);
		next_digit(round);
	}
	start_agent(round);
	start_ns = clock_now_ns();
	expect(all_on_agent, RETURN_MS, "the new agent", round);
	note_longest(&longest->return_ns, start_ns);
	next_digit(round);
}

static void expect_no_growth(const struct watcher_held before[])
{
	for (unsigned i = 0; i < watchers.count; i++) {
		struct watcher_held after = watcher_held(&watchers.watcher[i]);

		print_message("# engine %u: %ld descriptors, %ld mappings, anonymous memory %ld -> "
			      "%ld KiB\n",
			      i, after.descriptors, after.mappings, before[i].anon_kib,
			      after.anon_kib);
		assert_int_equal(after.descriptors, before[i].descriptors);
		assert_int_equal(after.threads, before[i].threads);
		assert_int_equal(after.mappings, before[i].mappings);
		assert_true(after.anon_kib <= before[i].anon_kib + ANON_SLACK_KIB);
	}
}

/* The checks behind all this were made, by every engine. */
static void expect_busy(int restarts)
{
	for (unsigned i = 0; i < watchers.count; i++) {
		const struct watcher *w = &watchers.watcher[i];

		print_message("# engine %u: %llu reads, %llu waits, %llu pushes, %llu level wakes, "
			      "%llu times on its own poll\n",
			      i, (unsigned long long)w->reads, (unsigned long long)w->waits,
			      (unsigned long long)w->pushes, (unsigned long long)w->level_wakes,
			      (unsigned long long)w->polls);
		assert_true(w->reads > (uint64_t)restarts * 100);
		assert_true(w->waits > (uint64_t)restarts);
		assert_true(w->pushes > (uint64_t)restarts);
		assert_true(w->level_wakes > 0);
		assert_true(w->polls >= (uint64_t)restarts * 2 / 3);
	}
}

static void test_kill_and_restart(void **state)
{
	int restarts = watchers_soak() ? RESTARTS_SOAK : RESTARTS;
	struct watcher_held before[WATCHERS_MAX];
	struct longest longest = { 0, 0 };

	srandom(1);
	assert_int_equal(watchers_start(&watchers, ENGINES), 0);
	expect(all_poll, 10000, "its own poll at first", 0);
	start_agent(1);
	expect(all_on_agent, RETURN_MS, "the first agent", 0);
	for (int round = 1; round <= restarts; round++) {
		restart(round, &longest);
		if (round == WARM_UP)
			for (unsigned i = 0; i < watchers.count; i++)
				before[i] = watcher_held(&watchers.watcher[i]);
	}
	print_message("# %d restarts: the last engine polled after %llu ms at most, and was back "
		      "after %llu ms\n",
		      restarts, (unsigned long long)longest.fall_back_ns / 1000000,
		      (unsigned long long)longest.return_ns / 1000000);
	expect_no_growth(before);
	expect_busy(restarts);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_kill_and_restart, setup, teardown),
	};

	return cmocka_run_group_tests_name("restart", tests, NULL, NULL);
}
