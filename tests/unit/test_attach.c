/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The watch with an agent, a made-up one: attaching, its death and return under readers and
 * sleepers, agents that hang, lie or send rubbish, dies told again, and leaks.
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
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake_agent.h"
#include "pn_memwatch.h"

#ifdef __SANITIZE_THREAD__
/*
 * It takes the mapping of the next page for a plain write. A reader that it overtakes reads old or
 * new bytes, each by an atomic load, and starts again when it sees that the generation moved.
 */
PN_API const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:reader_map_agent_page\n";
}
#endif

static struct host_tree tree;
static struct fake_agent agent;

static int setup(void **unused)
{
	tree_make_host(&tree);
	agent_init(&agent);
	return 0;
}

static int teardown(void **unused)
{
	pn_memwatch_stop();
	agent_stop(&agent);
	tree_free(&tree);
	return 0;
}

static bool source_is(void *arg)
{
	return pn_memwatch_source() == *(pn_memwatch_source_t *)arg;
}

static void assert_source_within(pn_memwatch_source_t source, unsigned ms)
{
	if (!comes_true(source_is, &source, LIMIT_MS(ms)))
		fail_msg("source %d, not %d, after %u ms", pn_memwatch_source(), source, ms);
}

static void start_attached(void)
{
	agent_start(&agent);
	assert_int_equal(pn_memwatch_start(), 0);
	assert_int_equal(pn_memwatch_source(), PN_SOURCE_AGENT);
}

/* Milliseconds that pn_memwatch_start takes. */
static unsigned start_ms(void)
{
	uint64_t begin_ns = clock_now_ns();

	assert_int_equal(pn_memwatch_start(), 0);
	return (unsigned)((clock_now_ns() - begin_ns) / MS_NS);
}

static void assert_polls(void)
{
	pn_mem_state state;

	assert_int_equal(pn_memwatch_source(), PN_SOURCE_POLL);
	assert_int_equal(pn_memwatch_read(&state), 0);
	assert_int_equal(state.host_total_bytes, HOST_TOTAL_BYTES);
}

static void test_attach(void **unused)
{
	pn_hook_status hooks[4];
	pn_mem_state state, next;
	struct pollfd ready = { .events = POLLIN };
	pn_mem_ext ext;

	start_attached();
	assert_int_equal(pn_memwatch_read_ext(&state, &ext), 0);
	assert_int_equal(ext.mode, PN_MODE_FENTRY);
	assert_true(agent_is_whole(&state, &ext));
	assert_int_equal(state.host_total_bytes, agent.n);

	ready.fd = pn_memwatch_fd();
	assert_true(ready.fd >= 0);
	pn_memwatch_poll_now();
	assert_int_equal(agent.looks_asked, 1);
	assert_int_equal(pn_memwatch_read(&next), 0);
	assert_int_equal(next.host_total_bytes, state.host_total_bytes + 1);
	assert_int_equal(pn_memwatch_wait(PN_WAIT_LEVEL, &state, 0, NULL), 0);
	assert_int_equal(poll(&ready, 1, 5000), 1);

	agent.flat_out = true;
	assert_int_equal(pn_memwatch_wait(PN_WAIT_SNAPSHOT, &next, deadline_in_ms(5000), &state),
			 0);
	assert_true(state.host_total_bytes > next.host_total_bytes);
	agent.flat_out = false;

	agent.n_hooks = 2;
	assert_int_equal(pn_memwatch_hooks(hooks, 4), 2);
	assert_int_equal(strlen(hooks[1].subject), sizeof(hooks[1].subject) - 1);
	assert_int_equal(strlen(hooks[1].hook), sizeof(hooks[1].hook) - 1);
	assert_int_equal(strlen(hooks[1].why), sizeof(hooks[1].why) - 1);
	assert_int_equal(pn_memwatch_hooks(hooks, 1), 1);
	agent.n_hooks = PROTO_HOOKS_MAX + 1;
	assert_int_equal(pn_memwatch_hooks(hooks, 4), -EBADMSG);

	/* A refusal is an answer. */
	agent.manner = MANNER_BUSY;
	pn_memwatch_poll_now();
	assert_int_equal(pn_memwatch_hooks(hooks, 4), -EBUSY);
	assert_int_equal(pn_memwatch_source(), PN_SOURCE_AGENT);
}

/* A thread that reads or waits all the time, and what it saw. */
struct follower {
	pthread_t thread;
	pn_memwatch_wait_t what;
	_Atomic uint64_t seen;
	_Atomic(const char *) wrong; /* the first thing that was */
};

static _Atomic bool followers_stop;

static const char *check(const pn_mem_state *state, const pn_mem_ext *ext, const pn_mem_state *last,
			 uint64_t last_publish_ns)
{
	if (state->seq < last->seq)
		return "seq went back";
	if (ext->publish_ns < last_publish_ns)
		return "publish_ns went back";
	if (ext->mode == PN_MODE_FENTRY)
		return agent_is_whole(state, ext) ? NULL : "a state is not whole";
	return state->host_total_bytes == HOST_TOTAL_BYTES ? NULL : "not the host's numbers";
}

static void *read_on(void *arg)
{
	struct follower *f = arg;
	pn_mem_state state, last = { 0 };
	uint64_t last_publish_ns = 0;
	pn_mem_ext ext;

	while (!followers_stop && !f->wrong) {
		int r = pn_memwatch_read_ext(&state, &ext);

		if (r == -EAGAIN)
			continue;
		f->wrong = r ? "a read failed" : check(&state, &ext, &last, last_publish_ns);
		last = state;
		last_publish_ns = ext.publish_ns;
		f->seen++;
	}
	return NULL;
}

static void *wait_on(void *arg)
{
	struct follower *f = arg;
	pn_mem_state seen, got;

	while (pn_memwatch_read(&seen))
		;
	while (!followers_stop && !f->wrong) {
		unsigned ms = f->what == PN_WAIT_LEVEL ? 200 : LIMIT_MS(2000);
		int r = pn_memwatch_wait(f->what, &seen, deadline_in_ms(ms), &got);

		/* The poll's level stays; its snapshots come every 250 ms. */
		if (r == -ETIMEDOUT && (f->what == PN_WAIT_LEVEL || followers_stop))
			continue;
		if (r)
			f->wrong = r == -ETIMEDOUT ? "no snapshot came" : "a wait failed";
		else if (got.seq < seen.seq)
			f->wrong = "a wait went back";
		else if (f->what == PN_WAIT_LEVEL ? got.level == seen.level : got.seq == seen.seq)
			f->wrong = "woken with nothing new";
		seen = got;
		f->seen++;
	}
	return NULL;
}

static void follow(struct follower *followers, int readers, int waiters)
{
	followers_stop = false;
	for (int i = 0; i < readers + waiters; i++) {
		struct follower *f = &followers[i];

		f->wrong = NULL;
		f->seen = 0;
		f->what = i % 2 ? PN_WAIT_LEVEL : PN_WAIT_SNAPSHOT;
		assert_int_equal(
			pthread_create(&f->thread, NULL, i < readers ? read_on : wait_on, f), 0);
	}
}

static void assert_followed(struct follower *followers, int n)
{
	followers_stop = true;
	for (int i = 0; i < n; i++)
		pthread_join(followers[i].thread, NULL);
	for (int i = 0; i < n; i++) {
		if (followers[i].wrong)
			fail_msg("follower %d: %s", i, followers[i].wrong);
		assert_true(followers[i].seen > 0);
	}
}

struct progress {
	struct follower *follower;
	uint64_t before;
};

static bool goes_on(void *arg)
{
	struct progress *p = arg;

	return p->follower->seen > p->before || p->follower->wrong;
}

/* Readers and the snapshot waiters all see something more. */
static void assert_all_go_on(struct follower *followers, int n)
{
	for (int i = 0; i < n; i++) {
		struct progress p = { &followers[i], followers[i].seen };

		if (i < 4 || followers[i].what == PN_WAIT_SNAPSHOT)
			assert_true(comes_true(goes_on, &p, LIMIT_MS(1000)));
	}
}

static void test_death_and_return(void **unused)
{
	static struct follower followers[8];

	agent.flat_out = true;
	start_attached();
	follow(followers, 4, 4);
	for (int i = 0; i < 3; i++) {
		assert_all_go_on(followers, 8);
		agent_stop(&agent);
		assert_source_within(PN_SOURCE_POLL, 1000);
		assert_all_go_on(followers, 8);
		agent_start(&agent);
		assert_source_within(PN_SOURCE_AGENT, 1000);
	}
	assert_followed(followers, 8);
}

static void *ask_on(void *arg)
{
	pn_hook_status hook;

	for (int i = 0; !followers_stop; i++) {
		pn_memwatch_set_die(i % 2, 70 * GIB, 79 * GIB, (uint64_t)i);
		pn_memwatch_poll_now();
		pn_memwatch_hooks(&hook, 1);
	}
	return NULL;
}

static bool renewed(void *arg)
{
	return agent.renewals == *(int *)arg && pn_memwatch_source() == PN_SOURCE_AGENT;
}

/* An agent that is replaced at once, as by a service manager, under all kinds of callers. */
static void test_many_restarts(void **unused)
{
	static struct follower followers[3];
	struct held before;
	pthread_t asker;

	int none = 0;

	start_attached();
	/* The first fall-back opens the host's files, to stay open. */
	agent.manner = MANNER_HANGS_UP;
	pn_memwatch_poll_now();
	agent.manner = MANNER_WELL;
	assert_true(comes_true(renewed, &none, 5000));
	before = held_now();
	follow(followers, 2, 1);
	assert_int_equal(pthread_create(&asker, NULL, ask_on, NULL), 0);
	for (int i = 1; i <= 100; i++) {
		agent_command(&agent, &agent.renew);
		assert_true(comes_true(renewed, &i, 5000));
	}
	assert_followed(followers, 3);
	pthread_join(asker, NULL);
	assert_source_within(PN_SOURCE_AGENT, 2000);
	assert_held_no_more(before);
}

/* However bad the agent, a start is quick, the numbers are the host's and nothing is left over. */
static void test_bad_agents(void **unused)
{
	for (int manner = MANNER_SILENT; manner < MANNER_COUNT; manner++) {
		struct held before;

		agent_init(&agent);
		agent.manner = manner;
		agent_start(&agent);
		before = held_now();
		for (int i = 0; i < 3; i++) {
			assert_true(start_ms() <= LIMIT_MS(500));
			assert_polls();
			pn_memwatch_stop();
		}
		assert_true(agent.hellos >= 3 || manner == MANNER_HANGS_UP);
		assert_held_no_more(before);
		agent_stop(&agent);
	}
}

/* An agent that does not even accept: its backlog is full. */
static void test_full_backlog(void **unused)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), waiting[4];

	memcpy(addr.sun_path, agent.path, sizeof(agent.path));
	assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(listener, 0), 0);
	for (int i = 0; i < 4; i++) {
		waiting[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		(void)!connect(waiting[i], (struct sockaddr *)&addr, sizeof(addr));
	}
	assert_true(start_ms() <= LIMIT_MS(500));
	assert_polls();
	for (int i = 0; i < 4; i++)
		close(waiting[i]);
	close(listener);
}

static void on_alarm(int sig)
{
}

/* A request ends after a second, also in an engine whose profiler interrupts it all the time. */
static void test_hangs_later(void **unused)
{
	const struct itimerval often = { { 0, 20000 }, { 0, 20000 } }, never = { 0 };
	struct sigaction interrupt = { .sa_handler = on_alarm };
	uint64_t begin_ns, took_ms;

	sigaction(SIGALRM, &interrupt, NULL);
	start_attached();
	agent.manner = MANNER_SILENT;
	setitimer(ITIMER_REAL, &often, NULL);
	begin_ns = clock_now_ns();
	pn_memwatch_poll_now();
	took_ms = (clock_now_ns() - begin_ns) / MS_NS;
	setitimer(ITIMER_REAL, &never, NULL);
	assert_in_range(took_ms, 900, LIMIT_MS(1500));
	assert_polls();
	agent.manner = MANNER_WELL;
	assert_source_within(PN_SOURCE_AGENT, 1000);
}

static void assert_pushed(int die_id, uint64_t free_bytes)
{
	struct proto_set_die push;

	pthread_mutex_lock(&agent.lock);
	push = agent.die[die_id];
	pthread_mutex_unlock(&agent.lock);
	assert_int_equal(push.free_bytes, free_bytes);
	assert_int_equal(push.budget_bytes, free_bytes ? 79 * GIB : 0);
	assert_int_equal(push.used_bytes, free_bytes ? 7 : 0);
}

static void test_dies_are_told_again(void **unused)
{
	assert_int_equal(pn_memwatch_start(), 0);
	pn_memwatch_set_die(0, 50 * GIB, 79 * GIB, 7);
	pn_memwatch_set_die(3, 60 * GIB, 79 * GIB, 7);
	for (int i = 0; i < 2; i++) {
		agent_start(&agent);
		assert_source_within(PN_SOURCE_AGENT, 1000);
		assert_pushed(0, 50 * GIB);
		assert_pushed(1, 0);
		assert_pushed(3, (60 + (unsigned)i) * GIB);
		pn_memwatch_set_die(3, 61 * GIB, 79 * GIB, 7);
		assert_pushed(3, 61 * GIB);
		agent_stop(&agent);
		assert_source_within(PN_SOURCE_POLL, 1000);
	}
}

static bool hellos_reach(void *arg)
{
	return agent.hellos >= *(int *)arg || pn_memwatch_source() != PN_SOURCE_POLL;
}

/* It answers, but its page is dead: the poll goes on while the agent is tried again and again. */
static void assert_tried_in_vain(void)
{
	int more = agent.hellos + 2;

	assert_true(comes_true(hellos_reach, &more, 10000));
	assert_polls();
}

static void test_retired_page(void **unused)
{
	start_attached();
	agent.page->retired = 1;
	assert_source_within(PN_SOURCE_POLL, 1100);
	assert_tried_in_vain();
	agent.page->retired = 0;
	assert_source_within(PN_SOURCE_AGENT, 1000);
}

static void test_no_heartbeat(void **unused)
{
	start_attached();
	agent.beat_offset_ns = -(int64_t)(10000 * MS_NS);
	pn_memwatch_poll_now();
	assert_source_within(PN_SOURCE_POLL, 1100);
	assert_tried_in_vain();
	agent.beat_offset_ns = 0;
	assert_source_within(PN_SOURCE_AGENT, 1000);
}

/*
 * A beat between two reads of the clock is no reason to leave: nothing happens at the next check.
 */
static void test_beat_ahead_of_clock(void **unused)
{
	pn_memwatch_source_t poll_source = PN_SOURCE_POLL;

	start_attached();
	agent.beat_offset_ns = (int64_t)(60000 * MS_NS);
	pn_memwatch_poll_now();
	assert_false(comes_true(source_is, &poll_source, 1400));
}

#ifndef __SANITIZE_THREAD__ /* its runtime ends a child of several threads that starts one itself  \
			     */
static void test_fork_attached(void **unused)
{
	int status, hellos;
	pid_t pid;

	start_attached();
	hellos = agent.hellos;
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		alarm(20);
		if (pn_memwatch_source() != PN_SOURCE_NONE || pn_memwatch_start())
			_exit(1);
		if (pn_memwatch_source() != PN_SOURCE_AGENT)
			_exit(2);
		pn_memwatch_stop();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(agent.hellos, hellos + 1);
	pn_memwatch_poll_now();
	assert_int_equal(pn_memwatch_source(), PN_SOURCE_AGENT);
	assert_int_equal(agent.hellos, hellos + 1);
}
#endif

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_attach, setup, teardown),
		cmocka_unit_test_setup_teardown(test_death_and_return, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_restarts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_agents, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_backlog, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hangs_later, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dies_are_told_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_retired_page, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_heartbeat, setup, teardown),
		cmocka_unit_test_setup_teardown(test_beat_ahead_of_clock, setup, teardown),
#ifndef __SANITIZE_THREAD__
		cmocka_unit_test_setup_teardown(test_fork_attached, setup, teardown),
#endif
	};

	return cmocka_run_group_tests_name("attach", tests, NULL, NULL);
}
