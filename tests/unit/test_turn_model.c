/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every interleaving of two binders, a decoder, an asynchronous step and the device it runs on.
 *
 * What is explored is the turn itself, not a drawing of it: the actors are small programs played
 * one action at a time from one thread, and each action is one call into turn.c, which is atomic
 * there (under its mutex) too. From every state that can be reached, every action that is enabled
 * is taken once; a state is reached again by replaying its shortest path on a fresh turn.
 *
 * The same actors with a part of the guard left out must be caught: that shows that the explorer
 * sees the faults whose absence it reports.
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
#include <cmocka.h>

#include "pn_turn.h"
#include "lib/turn_queue.h"

enum { BINDER_A, BINDER_B, DECODER, STEP, ACTORS };
enum { DEVICE = ACTORS, GIVE_UP, ACTIONS }; /* beside one action per actor */

enum pc {
	ASK,
	WAIT,
	WORK_1, /* from here on inside, see actor_work */
	WORK_2,
	WORK_3,
	LEAVE,
	DONE,
};

/* What is played, and what of the guard is left out. */
struct variant {
	const char *name;
	int rounds; /* of each actor */
	bool binders_take_no_turn;
	bool step_ends_at_begin; /* its turn does, the device work goes on */
	bool freed_at_once;      /* instead of retired */
	bool decoder_gives_up;   /* not a fault: the decoder's wait has a deadline */
};

#define BLOCKS_MAX 8

struct actor {
	enum pc pc;
	struct turn_waiter waiter;
	int block; /* whose address it has read, -1 none */
	int rounds_left;
	bool gave_up;
};

struct world {
	const struct variant *variant;
	pn_turn *turn;
	pn_turn_buf buf;
	struct actor actor[ACTORS];
	bool freed[BLOCKS_MAX];
	int blocks;
	unsigned device_uses; /* blocks that begun work has still to touch, a bit each */
	uint64_t last_granted;
	int touched_freed; /* the use after free */
	int freed_visible; /* freed while begun work or the slot still had its address */
	int broken_rules;  /* of the lock: exclusion, order, who may use it */
};

/* Everything a state's future depends on, relative so that equal states compare equal. */
struct key {
	unsigned char pc[ACTORS];
	signed char block[ACTORS];
	unsigned char queue[ACTORS]; /* rank of the ticket among those waiting */
	unsigned char rounds_left[ACTORS];
	unsigned char freed, device_uses, current, holder, gave_up, faults;
};

/* ---- the world ---------------------------------------------------------------------------- */

static void *block_ptr(int block)
{
	return (void *)(uintptr_t)(block + 1);
}

static int block_of(const void *ptr)
{
	return (int)(uintptr_t)ptr - 1;
}

static void world_free_block(void *ctx, void *ptr)
{
	struct world *w = ctx;
	int block = block_of(ptr);

	if (w->freed[block] || (w->device_uses & 1u << block) || ptr == w->buf.ptr)
		w->freed_visible++;
	w->freed[block] = true;
}

static void world_touch(struct world *w, int block)
{
	if (w->freed[block])
		w->touched_freed++;
}

static bool actor_has_turn(const struct world *w, int a)
{
	if (w->variant->binders_take_no_turn && a <= BINDER_B)
		return false;
	return w->actor[a].pc >= WORK_1 && w->actor[a].pc <= LEAVE;
}

static void world_read(struct world *w, int a)
{
	void *ptr = w->buf.ptr;

	if (actor_has_turn(w, a) &&
	    pn_turn_get(w->turn, w->actor[a].waiter.base.value, &w->buf, &ptr, NULL))
		w->broken_rules++;
	w->actor[a].block = block_of(ptr);
}

static void world_replace(struct world *w, int a)
{
	void *old = w->buf.ptr;
	void *ptr = block_ptr(w->blocks++);

	if (actor_has_turn(w, a) && !w->variant->freed_at_once) {
		if (pn_turn_replace(w->turn, w->actor[a].waiter.base.value, &w->buf, ptr, 1,
				    world_free_block, w))
			w->broken_rules++;
		return;
	}
	w->buf.ptr = ptr;
	world_free_block(w, old);
}

static void actor_granted(struct world *w, int a)
{
	uint64_t ticket = w->actor[a].waiter.base.value;

	if (ticket <= w->last_granted)
		w->broken_rules++;
	w->last_granted = ticket;
	w->actor[a].pc = WORK_1;
}

static void actor_end_round(struct actor *actor)
{
	actor->block = -1;
	actor->pc = --actor->rounds_left ? ASK : DONE;
}

/* One action inside the turn. */
static void actor_work(struct world *w, int a)
{
	struct actor *actor = &w->actor[a];

	if (a <= BINDER_B) { /* moves the buffer, fills the new one */
		if (actor->pc == WORK_1)
			world_replace(w, a);
		else if (actor->pc == WORK_2)
			world_read(w, a);
		else
			world_touch(w, actor->block);
	} else if (a == DECODER) { /* reads the address, uses it twice */
		if (actor->pc == WORK_1)
			world_read(w, a);
		else
			world_touch(w, actor->block);
	} else if (actor->pc == WORK_2) { /* the step grows its own buffer between two launches */
		world_replace(w, a);
	} else {
		world_read(w, a);
		w->device_uses |= 1u << actor->block;
	}
	actor->pc++;
}

static bool action_enabled(const struct world *w, int action)
{
	const struct actor *actor = &w->actor[action < ACTORS ? action : DECODER];

	if (action == DEVICE)
		return w->device_uses != 0;
	if (action == GIVE_UP)
		return w->variant->decoder_gives_up && actor->pc == WAIT;
	if (actor->pc == WAIT)
		return actor->waiter.base.answered;
	if (action == STEP && actor->pc == LEAVE) /* its poll has found all drained */
		return !w->device_uses || w->variant->step_ends_at_begin;
	return actor->pc != DONE;
}

static void actor_act(struct world *w, int a)
{
	struct actor *actor = &w->actor[a];
	bool no_turn = w->variant->binders_take_no_turn && a <= BINDER_B;
	int rc;

	switch (actor->pc) {
	case ASK:
		rc = no_turn ? 0 : turn_enter(w->turn, &actor->waiter);
		if (rc == -EINPROGRESS)
			actor->pc = WAIT;
		else if (!rc && no_turn)
			actor->pc = WORK_1;
		else if (!rc)
			actor_granted(w, a);
		else
			w->broken_rules++;
		break;
	case WAIT:
		if (turn_wait(w->turn, &actor->waiter, UINT64_MAX))
			w->broken_rules++;
		actor_granted(w, a);
		break;
	case LEAVE: /* a step's from another thread than the one that began it */
		rc = no_turn ? 0
			     : turn_leave(w->turn, actor->waiter.base.value,
					  actor->waiter.owner + (a == STEP ? 100 : 0));
		w->broken_rules += rc != 0;
		actor_end_round(actor);
		break;
	default:
		actor_work(w, a);
	}
}

static void world_act(struct world *w, int action)
{
	struct actor *decoder = &w->actor[DECODER];

	if (action == DEVICE) {
		int block = __builtin_ctz(w->device_uses);

		world_touch(w, block);
		w->device_uses &= ~(1u << block);
	} else if (action == GIVE_UP) { /* the deadline comes; an answer that came first counts */
		if (turn_wait(w->turn, &decoder->waiter, 0) == 0)
			actor_granted(w, DECODER);
		else
			actor_end_round(decoder);
		decoder->gave_up = true;
	} else {
		actor_act(w, action);
	}
}

/* The rules of the lock that must hold in every state. */
static void world_check(struct world *w)
{
	int inside = 0;

	for (int a = 0; a < ACTORS; a++) {
		uint64_t ticket = w->actor[a].waiter.base.value;
		bool has_turn = actor_has_turn(w, a) ||
				(w->actor[a].pc == WAIT && w->actor[a].waiter.base.answered);
		void *ptr;

		inside += has_turn;
		if (!has_turn && pn_turn_get(w->turn, ticket, &w->buf, &ptr, NULL) != -EPERM)
			w->broken_rules++;
	}
	if (inside > 1)
		w->broken_rules++;
}

static struct world world_new(const struct variant *variant)
{
	static const pn_turn_kind kinds[ACTORS] = { PN_TURN_BIND, PN_TURN_BIND, PN_TURN_DECODE,
						    PN_TURN_STEP };
	struct world w = { .variant = variant, .blocks = 1, .buf = { block_ptr(0), 1 } };

	assert_int_equal(pn_turn_new(&w.turn), 0);
	for (int a = 0; a < ACTORS; a++) {
		w.actor[a].waiter.kind = kinds[a];
		w.actor[a].waiter.owner = (uint64_t)a + 1;
		w.actor[a].block = -1;
		w.actor[a].rounds_left = variant->rounds;
	}
	return w;
}

static int world_faults(const struct world *w)
{
	return w->touched_freed + w->freed_visible + w->broken_rules;
}

/* Plays on to the end in any order. Returns false for a deadlock. */
static bool world_end(struct world *w)
{
	bool done = true;

	for (int action = 0; action < ACTIONS; action++) {
		if (action_enabled(w, action)) {
			world_act(w, action);
			action = -1;
		}
	}
	for (int a = 0; a < ACTORS; a++)
		done &= w->actor[a].pc == DONE;
	if (done) {
		for (int block = 0; block < w->blocks; block++)
			w->broken_rules += w->freed[block] != (block_ptr(block) != w->buf.ptr);
		pn_turn_free(w->turn);
	}
	return done;
}

static struct key world_key(const struct world *w)
{
	struct key key;
	pn_turn_stats stats;

	memset(&key, 0, sizeof(key));
	pn_turn_read_stats(w->turn, &stats);
	for (int a = 0; a < ACTORS; a++) {
		const struct actor *actor = &w->actor[a];

		key.pc[a] = (unsigned char)actor->pc;
		key.block[a] = (signed char)actor->block;
		key.rounds_left[a] = (unsigned char)actor->rounds_left;
		key.gave_up |= actor->gave_up;
		if (stats.ticket && actor->waiter.base.value == stats.ticket)
			key.holder = (unsigned char)(a + 1);
		for (int b = 0; b < ACTORS && actor->pc == WAIT; b++)
			key.queue[a] += w->actor[b].pc == WAIT &&
					w->actor[b].waiter.base.value <= actor->waiter.base.value;
	}
	for (int block = 0; block < w->blocks; block++)
		key.freed |= (unsigned char)(w->freed[block] << block);
	key.device_uses = (unsigned char)w->device_uses;
	key.current = (unsigned char)block_of(w->buf.ptr);
	key.faults = world_faults(w) != 0;
	return key;
}

/* ---- the explorer ------------------------------------------------------------------------- */

#define STATES_MAX (1u << 18)
#define TABLE      (STATES_MAX * 2)
#define DEPTH_MAX  64

struct state {
	struct key key;
	uint32_t parent;
	unsigned char action; /* that led here from the parent */
	unsigned char depth;
};

struct explorer {
	struct state *states;
	uint32_t *table; /* open addressing; state index + 1 */
	uint32_t count;
	uint64_t transitions;
	int touched_freed, freed_visible, broken_rules, deadlocks;
	int schedule[DEPTH_MAX]; /* the shortest that touches freed memory */
	int schedule_length;
};

/* Remembers a state unless it is known. */
static void explorer_add(struct explorer *e, struct key key, uint32_t parent, int action)
{
	const unsigned char *bytes = (const unsigned char *)&key;
	uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, 64 bits */

	for (size_t i = 0; i < sizeof(key); i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3u;
	uint32_t slot = (uint32_t)(hash >> 32) % TABLE;

	for (; e->table[slot]; slot = (slot + 1) % TABLE)
		if (!memcmp(&e->states[e->table[slot] - 1].key, &key, sizeof(key)))
			return;
	assert_true(e->count < STATES_MAX);
	e->states[e->count] = (struct state){
		.key = key,
		.parent = parent,
		.action = (unsigned char)action,
		.depth = (unsigned char)(e->count ? e->states[parent].depth + 1 : 0),
	};
	assert_true(e->states[e->count].depth < DEPTH_MAX);
	e->table[slot] = ++e->count;
}

static int explorer_path(const struct explorer *e, uint32_t index, int path[DEPTH_MAX])
{
	int depth = e->states[index].depth;

	for (int i = depth; i > 0; i--) {
		path[i - 1] = e->states[index].action;
		index = e->states[index].parent;
	}
	return depth;
}

/* Takes `action` in state `index`, if it is enabled there. */
static void explorer_take(struct explorer *e, const struct variant *variant, uint32_t index,
			  int action)
{
	struct world w = world_new(variant);
	int path[DEPTH_MAX];
	int depth = explorer_path(e, index, path);

	for (int i = 0; i < depth; i++)
		world_act(&w, path[i]);
	if (action_enabled(&w, action)) {
		world_act(&w, action);
		world_check(&w);
		explorer_add(e, world_key(&w), index, action);
		e->transitions++;
		if (w.touched_freed && !e->touched_freed) {
			memcpy(e->schedule, path, sizeof(path));
			e->schedule[depth] = action;
			e->schedule_length = depth + 1;
		}
		e->touched_freed += w.touched_freed != 0;
		e->freed_visible += w.freed_visible != 0;
	}
	if (!world_end(&w))
		e->deadlocks++;
	e->broken_rules += w.broken_rules != 0;
}

static void explore(const struct variant *variant, struct explorer *ret)
{
	struct explorer e = { 0 };
	struct world w = world_new(variant);

	e.states = calloc(STATES_MAX, sizeof(*e.states));
	e.table = calloc(TABLE, sizeof(*e.table));
	assert_true(e.states && e.table);
	explorer_add(&e, world_key(&w), 0, 0);
	world_end(&w);
	for (uint32_t index = 0; index < e.count; index++)
		for (int action = 0; action < ACTIONS; action++)
			explorer_take(&e, variant, index, action);
	printf("# %s: %u states, %llu transitions\n", variant->name, e.count,
	       (unsigned long long)e.transitions);
	free(e.states);
	free(e.table);
	e.states = NULL;
	e.table = NULL;
	*ret = e;
}

static void test_guarded(void **state)
{
	static const struct variant guards[] = {
		{ .name = "guarded", .rounds = 2 },
		{ .name = "guarded, the decoder may give up",
		  .rounds = 2,
		  .decoder_gives_up = true },
	};

	for (int i = 0; i < 2; i++) {
		struct explorer e;

		explore(&guards[i], &e);
		assert_true(e.count > 500); /* it has been somewhere */
		assert_int_equal(e.touched_freed, 0);
		assert_int_equal(e.freed_visible, 0);
		assert_int_equal(e.broken_rules, 0);
		assert_int_equal(e.deadlocks, 0);
	}
}

static void test_broken(void **state)
{
	static const struct variant broken[] = {
		{ .name = "binders take no turn", .rounds = 1, .binders_take_no_turn = true },
		{ .name = "a step's turn ends with begin",
		  .rounds = 1,
		  .step_ends_at_begin = true },
		{ .name = "replaced buffers are freed at once",
		  .rounds = 1,
		  .freed_at_once = true },
	};
	static const char *const names[ACTIONS] = { "binder-a", "binder-b", "decoder",
						    "step",     "device",   "give-up" };

	for (int i = 0; i < 3; i++) {
		struct explorer e;

		explore(&broken[i], &e);
		assert_true(e.touched_freed > 0);
		assert_int_equal(e.deadlocks, 0);
		printf("#   use after free by:");
		for (int k = 0; k < e.schedule_length; k++)
			printf(" %s", names[e.schedule[k]]);
		printf("\n");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_guarded),
		cmocka_unit_test(test_broken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
