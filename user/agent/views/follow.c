/* SPDX-License-Identifier: BSD-2-Clause */
/* Rounds over all that are served, in slices. See follow.h. */
#include "agent/views/follow.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/agent.h"
#include "core/pace.h"
#include "host/clock.h"

/* What waits for the loop waits no longer than this for a slice. To look one up takes some 8 us. */
#define SLICE_NS 150000ull
/*
 * Rounds after a move: as soon as this, and no more than one in 50 of the time, since clients can
 * move as often as they like.
 */
#define TOLD_NS 1000000000ull
static const struct pace_limit round_limit = { .part = 50, .max_ns = 4000000000 };
/* With nothing that tells of moves. */
#define BLIND_NS 5000000000ull
/* In any case: a group can be renamed (v1), and the kernel may not run a program. */
#define ANYWAY_NS 60000000000ull
/* One could not be dealt with in the last round. */
#define AGAIN_NS 10000000000ull

struct follow {
	struct followed list;  /* head */
	struct followed *next; /* to be looked up in this round, NULL: there is none */
	sd_event_source *slice;
	uint64_t moves;    /* as of the begin of the last round */
	uint64_t begin_ns; /* of that */
	uint64_t took_ns;  /* all its slices so far */
	struct pace rounds;
	bool again;
};

static struct followed *after(const struct follow *follow, const struct followed *followed)
{
	return followed->next == &follow->list ? NULL : followed->next;
}

static void look_up_some(struct agent *agent)
{
	struct follow *follow = agent->follow;
	uint64_t begin_ns = clock_now_ns(), now_ns = begin_ns;

	while (follow->next && now_ns - begin_ns < SLICE_NS) {
		struct followed *followed = follow->next;
		const struct agent_view *view = *followed->view;

		follow->next = after(follow, followed);
		if (view && !views_has(agent, view, followed->pid) && !followed->moved(followed))
			follow->again = true;
		now_ns = clock_now_ns();
	}
	follow->took_ns += now_ns - begin_ns;
	if (!follow->next)
		pace_took(&follow->rounds, &round_limit, follow->took_ns, now_ns);
}

static int on_slice(sd_event_source *source, void *userdata)
{
	struct agent *agent = userdata;

	agent->wakeups--; /* the agent did not sleep in between */
	look_up_some(agent);
	/* Enabled anew, it comes after all that waits at this moment. */
	sd_event_source_set_enabled(source, agent->follow->next ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
	return 0;
}

int follow_open(struct agent *agent)
{
	struct follow *follow = calloc(1, sizeof(*follow));
	int r;

	if (!follow)
		return -ENOMEM;
	agent->follow = follow;
	follow->list.next = follow->list.prev = &follow->list;
	r = sd_event_add_defer(agent->event, &follow->slice, on_slice, agent);
	if (r < 0)
		return r;
	/* As clients: in turn with them, so that neither keeps the other from its turn. */
	sd_event_source_set_priority(follow->slice, SD_EVENT_PRIORITY_IDLE);
	sd_event_source_set_enabled(follow->slice, SD_EVENT_OFF);
	return 0;
}

void follow_close(struct agent *agent)
{
	if (!agent->follow)
		return;
	sd_event_source_disable_unref(agent->follow->slice);
	free(agent->follow);
	agent->follow = NULL;
}

void follow_add(struct agent *agent, struct followed *followed)
{
	struct followed *head = &agent->follow->list;

	followed->prev = head;
	followed->next = head->next;
	head->next->prev = followed;
	head->next = followed;
}

void follow_remove(struct agent *agent, struct followed *followed)
{
	struct follow *follow = agent->follow;

	if (!followed->next)
		return;
	if (follow->next == followed)
		follow->next = after(follow, followed);
	followed->next->prev = followed->prev;
	followed->prev->next = followed->next;
	followed->next = followed->prev = NULL;
}

static bool is_wanted(struct agent *agent, uint64_t moves, bool can_tell, uint64_t now_ns)
{
	const struct follow *follow = agent->follow;
	uint64_t since_ns = now_ns - follow->begin_ns;

	if (since_ns < TOLD_NS || now_ns < pace_due_ns(&follow->rounds, &round_limit))
		return false;
	return moves != follow->moves || since_ns >= (can_tell ? ANYWAY_NS : BLIND_NS) ||
	       (follow->again && since_ns >= AGAIN_NS);
}

void follow_look(struct agent *agent, uint64_t now_ns)
{
	struct follow *follow = agent->follow;
	bool can_tell;
	uint64_t moves = 0;

	if (!follow || follow->next)
		return;
	can_tell = agent->hooks && hooks_moves(agent->hooks, &moves);
	if (!is_wanted(agent, moves, can_tell, now_ns))
		return;
	follow->moves = moves;
	follow->begin_ns = now_ns;
	follow->took_ns = 0;
	follow->again = false;
	follow->next = after(follow, &follow->list);
	if (follow->next)
		sd_event_source_set_enabled(follow->slice, SD_EVENT_ONESHOT);
}
