/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waking who sleeps on the pages. The kernel wakes a sleeper in 0.1 to 3 us of the waker's time,
 * and a client may have as many as its memory holds: one with three million io_uring requests on
 * its page took half a second of the agent. So a look publishes every page and then wakes one batch
 * on each, pages whose level changed first. Where more may sleep the page waits for its turn, and
 * the loop serves kernel records first and clients in between.
 *
 * A page has a budget of such turns. It is more than ten thousand engines on one page need.
 * Sleepers who lie down again as soon as they are woken, for ever, use it up: from then on all
 * pages without one share a batch each millisecond, which is about 2 % of a CPU for io_uring
 * requests.
 */
#include "agent/agent.h"
#include "agent/views/views.h"
#include "host/clock.h"
#include "host/page_wake.h"

/* 16384 sleepers at once and 65536 a second. */
static const struct budget_limit page_limit = { .burst = 128, .per_s = 512 };

static void wake_batch(struct agent *agent, struct agent_view *av, uint64_t now_ns)
{
	struct sleepers *sleepers = &agent->sleepers;

	if (!view_wake(&av->view, SLEEPERS_BATCH))
		return;
	av->sleepers_queue = budget_take(&av->sleepers_budget, &page_limit, now_ns)
				     ? &sleepers->soon
				     : &sleepers->greedy;
	TAILQ_INSERT_TAIL(av->sleepers_queue, av, sleepers_link);
}

static void plan_turn(struct agent *agent, uint64_t now_ns)
{
	struct sleepers *sleepers = &agent->sleepers;
	uint64_t at_ns = now_ns;

	if (TAILQ_EMPTY(&sleepers->soon)) {
		if (TAILQ_EMPTY(&sleepers->greedy))
			return;
		at_ns = sleepers->greedy_ns + SLEEPERS_GREEDY_GAP_NS;
	}
	sd_event_source_set_time(sleepers->timer, at_ns / 1000);
	sd_event_source_set_enabled(sleepers->timer, SD_EVENT_ONESHOT);
}

static int on_turn(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct agent *agent = userdata;
	struct sleepers *sleepers = &agent->sleepers;
	struct agent_view *av = TAILQ_FIRST(&sleepers->soon);
	uint64_t now_ns = clock_now_ns();

	if (!av) {
		av = TAILQ_FIRST(&sleepers->greedy);
		sleepers->greedy_ns = now_ns;
	}
	if (av) {
		sleepers_forget(av);
		wake_batch(agent, av, now_ns);
	}
	plan_turn(agent, now_ns);
	return 0;
}

void sleepers_wake(struct agent *agent)
{
	static const unsigned order[] = { PAGE_WAKE_LEVEL, PAGE_WAKE_ALL };
	uint64_t now_ns = clock_now_ns();

	for (int i = 0; i < 2; i++)
		for (struct agent_view *av = agent->views; av; av = av->next)
			if (av->view.wake_words & order[i] && !av->sleepers_queue)
				wake_batch(agent, av, now_ns);
	plan_turn(agent, now_ns);
}

void sleepers_forget(struct agent_view *av)
{
	if (av->sleepers_queue)
		TAILQ_REMOVE(av->sleepers_queue, av, sleepers_link);
	av->sleepers_queue = NULL;
}

int sleepers_open(struct agent *agent)
{
	struct sleepers *sleepers = &agent->sleepers;
	int r;

	TAILQ_INIT(&sleepers->soon);
	TAILQ_INIT(&sleepers->greedy);
	r = sd_event_add_time(agent->event, &sleepers->timer, CLOCK_MONOTONIC, 0, 1, on_turn,
			      agent);
	if (r < 0)
		return r;
	sd_event_source_set_enabled(sleepers->timer, SD_EVENT_OFF);
	/* As clients: among equals the loop takes turns. */
	return sd_event_source_set_priority(sleepers->timer, SD_EVENT_PRIORITY_IDLE);
}

void sleepers_close(struct agent *agent)
{
	agent->sleepers.timer = sd_event_source_disable_unref(agent->sleepers.timer);
}
