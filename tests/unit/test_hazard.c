/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The SPEC's "Concurrent-mutation hazard", row by row: each is played without the GPU turn, where
 * a use after free must be seen, and with it, where none may be.
 *
 * The "device" is the test itself: work that has been begun is a list of addresses, and touching
 * them is a call. So what happens first is decided, not hoped for: work is begun, the other thread
 * mutates (or, guarded, is seen standing in the queue), then the device touches. The allocator
 * never reuses memory and knows what has been freed: a touch of a freed buffer is a fault counted,
 * not a crash.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "pn_batch.h"
#include "pn_turn.h"
#include "../until.h"

/* For what cannot fail; cmocka's asserts are for the main thread only. */
static void must(int rc)
{
	if (rc)
		abort();
}

/* ---- checking allocator ------------------------------------------------------------------- */

#define CHECKED_MAX 32
#define POISON      0xdb

struct checked {
	pthread_mutex_t lock;
	struct {
		unsigned char *ptr;
		size_t bytes;
		bool freed;
	} block[CHECKED_MAX];
	int count;
	int faults; /* touches of freed memory, double frees, frees of what is not a block */
};

static void *checked_alloc(struct checked *heap, size_t bytes)
{
	unsigned char *ptr = calloc(1, bytes);

	must(!ptr || heap->count == CHECKED_MAX);
	pthread_mutex_lock(&heap->lock);
	heap->block[heap->count].ptr = ptr;
	heap->block[heap->count].bytes = bytes;
	heap->count++;
	pthread_mutex_unlock(&heap->lock);
	return ptr;
}

static int checked_find(const struct checked *heap, const void *ptr)
{
	for (int i = 0; i < heap->count; i++)
		if (heap->block[i].ptr == ptr)
			return i;
	return -1;
}

static void checked_free(void *ctx, void *ptr)
{
	struct checked *heap = ctx;

	pthread_mutex_lock(&heap->lock);
	int i = checked_find(heap, ptr);

	if (i < 0 || heap->block[i].freed) {
		heap->faults++;
	} else {
		heap->block[i].freed = true;
		memset(ptr, POISON, heap->block[i].bytes);
	}
	pthread_mutex_unlock(&heap->lock);
}

static void checked_touch(struct checked *heap, const void *ptr)
{
	pthread_mutex_lock(&heap->lock);
	int i = checked_find(heap, ptr);

	if (i < 0 || heap->block[i].freed || heap->block[i].ptr[0] == POISON)
		heap->faults++;
	pthread_mutex_unlock(&heap->lock);
}

/* Ends the heap: what was never freed is `live`. Returns the faults. */
static int checked_end(struct checked *heap, int *ret_live)
{
	*ret_live = 0;
	for (int i = 0; i < heap->count; i++) {
		*ret_live += !heap->block[i].freed;
		free(heap->block[i].ptr);
	}
	return heap->faults;
}

/* ---- the model under test: buffers, and work in flight that uses them ---------------------- */

enum {
	KV_RING = 0, /* k_slots_g, v_slots_g */
	CONV_SLOTS = 1,
	SSM_SLOTS = 2,
	STAGE = 3,  /* qw_defer's df->stage */
	HIDDEN = 4, /* gpu_batch_host_ensure's b->hidden */
	BUFFERS = 5,
};

#define SMALL_BYTES 64
#define LARGE_BYTES 256

struct model {
	bool guarded;
	struct checked heap;
	pn_turn *turn;
	pn_turn_buf buf[BUFFERS];
	void *in_flight[BUFFERS]; /* addresses that begun device work will touch */
	int in_flight_count;
};

static void model_init(struct model *m, bool guarded)
{
	*m = (struct model){ .guarded = guarded, .heap.lock = PTHREAD_MUTEX_INITIALIZER };
	assert_int_equal(pn_turn_new(&m->turn), 0);
	for (int i = 0; i < BUFFERS; i++)
		m->buf[i] = (pn_turn_buf){ checked_alloc(&m->heap, SMALL_BYTES), SMALL_BYTES };
}

/* Returns the faults; checks that nothing was lost: exactly the current buffers are alive. */
static int model_end(struct model *m)
{
	int live, faults;

	pn_turn_free(m->turn);
	faults = checked_end(&m->heap, &live);
	if (m->guarded)
		assert_int_equal(live, BUFFERS);
	return faults;
}

static uint64_t model_enter(struct model *m, pn_turn_kind kind)
{
	uint64_t ticket = 0;

	if (m->guarded)
		must(pn_turn_acquire(m->turn, kind, UINT64_MAX, &ticket));
	return ticket;
}

static void model_leave(struct model *m, uint64_t ticket)
{
	if (m->guarded)
		must(pn_turn_release(m->turn, ticket));
}

/* The engine's ensure(): grows a buffer. Unguarded, as in the SPEC: free, then allocate. */
static void model_grow(struct model *m, uint64_t ticket, int which, size_t bytes)
{
	void *ptr;

	if (m->buf[which].bytes >= bytes)
		return;
	ptr = checked_alloc(&m->heap, bytes);
	if (m->guarded) {
		must(pn_turn_replace(m->turn, ticket, &m->buf[which], ptr, bytes, checked_free,
				     &m->heap));
		return;
	}
	checked_free(&m->heap, m->buf[which].ptr);
	m->buf[which] = (pn_turn_buf){ ptr, bytes };
}

static void *model_ptr(struct model *m, uint64_t ticket, int which)
{
	void *ptr = m->buf[which].ptr;

	if (m->guarded)
		must(pn_turn_get(m->turn, ticket, &m->buf[which], &ptr, NULL));
	return ptr;
}

/* Device work is begun: it will use this buffer. */
static void model_launch(struct model *m, uint64_t ticket, int which)
{
	m->in_flight[m->in_flight_count++] = model_ptr(m, ticket, which);
}

/* The device does what has been begun; afterwards a poll would find it drained. */
static void model_device_runs(struct model *m)
{
	for (int i = 0; i < m->in_flight_count; i++)
		checked_touch(&m->heap, m->in_flight[i]);
	m->in_flight_count = 0;
}

/* ---- the other thread: takes a turn of some kind and grows some buffers -------------------- */

struct mutator {
	pthread_t thread;
	struct model *m;
	pn_turn_kind kind;
	int grow[2]; /* -1: none */
};

static void *mutator_main(void *arg)
{
	struct mutator *mut = arg;
	uint64_t ticket = model_enter(mut->m, mut->kind);

	for (int i = 0; i < 2; i++)
		if (mut->grow[i] >= 0)
			model_grow(mut->m, ticket, mut->grow[i], LARGE_BYTES);
	model_leave(mut->m, ticket);
	return NULL;
}

/* Returns once the mutator has done its work, or, guarded, stands in the queue. */
static void mutator_start(struct mutator *mut, struct model *m)
{
	mut->m = m;
	assert_int_equal(pthread_create(&mut->thread, NULL, mutator_main, mut), 0);
	if (m->guarded) {
		pn_turn_stats stats;

		until((pn_turn_read_stats(m->turn, &stats), stats.waiting == 1));
	} else {
		assert_int_equal(pthread_join(mut->thread, NULL), 0);
	}
}

static void mutator_finish(struct mutator *mut)
{
	if (mut->m->guarded)
		assert_int_equal(pthread_join(mut->thread, NULL), 0);
}

/* ---- the rows of the table ---------------------------------------------------------------- */

/*
 * Work of one kind is in flight, and another thread's turn would free what it uses. The guard
 * makes it wait until the device is done, and its growth is then in force.
 */
static const struct {
	const char *row;
	pn_turn_kind in_flight;
	int uses[2];
	struct mutator mutator;
} rows[] = {
	{ "gpu_attn_slot_ring_ensure: bind while an asynchronous step reads the KV ring",
	  PN_TURN_STEP,
	  { KV_RING, -1 },
	  { .kind = PN_TURN_BIND, .grow = { KV_RING, -1 } } },
	{ "decode_slot_bind: conv and SSM slots grow under a decode pass",
	  PN_TURN_DECODE,
	  { CONV_SLOTS, SSM_SLOTS },
	  { .kind = PN_TURN_BIND, .grow = { CONV_SLOTS, SSM_SLOTS } } },
	{ "decode_slot_bind: the same under an asynchronous step",
	  PN_TURN_STEP,
	  { CONV_SLOTS, SSM_SLOTS },
	  { .kind = PN_TURN_BIND, .grow = { SSM_SLOTS, CONV_SLOTS } } },
	{ "qw_defer_reset: the next step begins before the last one's copies have been reaped",
	  PN_TURN_STEP,
	  { STAGE, -1 },
	  { .kind = PN_TURN_STEP, .grow = { STAGE, -1 } } },
	{ "gpu_batch_host_ensure: a wider prefill while a decode pass uses the batch scratch",
	  PN_TURN_DECODE,
	  { HIDDEN, -1 },
	  { .kind = PN_TURN_PREFILL, .grow = { HIDDEN, -1 } } },
	{ "gpu_batch_host_ensure: a wider decode pass while a prefill uses it",
	  PN_TURN_PREFILL,
	  { HIDDEN, -1 },
	  { .kind = PN_TURN_DECODE, .grow = { HIDDEN, -1 } } },
};

static void test_rows(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int guarded = 0; guarded <= 1; guarded++) {
			struct mutator mut = rows[i].mutator;
			struct model m;
			uint64_t ticket;
			int faults;

			model_init(&m, guarded);
			ticket = model_enter(&m, rows[i].in_flight);
			for (int k = 0; k < 2; k++)
				if (rows[i].uses[k] >= 0)
					model_launch(&m, ticket, rows[i].uses[k]);
			mutator_start(&mut, &m);
			model_device_runs(&m);
			model_leave(&m, ticket); /* for a step: its poll found it drained */
			mutator_finish(&mut);
			assert_int_equal(m.buf[mut.grow[0]].bytes, LARGE_BYTES);
			faults = model_end(&m);
			if (guarded ? faults != 0 : faults == 0)
				fail_msg("%s: %s, %d faults", rows[i].row,
					 guarded ? "guarded" : "not guarded", faults);
		}
	}
}

/*
 * qw_defer within one step: the staging area grows when earlier layers' copies into it are
 * already queued. The turn alone does not help, this is the same turn; retiring does.
 */
static void test_stage_grows_within_step(void **state)
{
	for (int guarded = 0; guarded <= 1; guarded++) {
		struct model m;
		uint64_t ticket;
		int faults;

		model_init(&m, guarded);
		ticket = model_enter(&m, PN_TURN_STEP);
		model_launch(&m, ticket, STAGE);
		model_grow(&m, ticket, STAGE, LARGE_BYTES);
		model_launch(&m, ticket, STAGE);
		model_device_runs(&m);
		model_leave(&m, ticket);
		faults = model_end(&m);
		assert_int_equal(faults, guarded ? 0 : 1);
	}
}

/*
 * qw_defer across steps, on one thread: begin is entered again although poll has not drained the
 * step before. Unguarded the arena moves under the copies; guarded begin is refused.
 */
static void test_begin_reentered(void **state)
{
	for (int guarded = 0; guarded <= 1; guarded++) {
		struct model m;
		uint64_t ticket, again = 0;
		int faults;

		model_init(&m, guarded);
		ticket = model_enter(&m, PN_TURN_STEP);
		model_launch(&m, ticket, STAGE);
		if (guarded)
			assert_int_equal(pn_turn_acquire(m.turn, PN_TURN_STEP, UINT64_MAX, &again),
					 -EDEADLK);
		else
			model_grow(&m, again, STAGE, LARGE_BYTES);
		model_device_runs(&m);
		model_leave(&m, ticket);

		/* Drained: now begin may be entered, and may grow. */
		ticket = model_enter(&m, PN_TURN_STEP);
		model_grow(&m, ticket, STAGE, LARGE_BYTES);
		model_launch(&m, ticket, STAGE);
		model_device_runs(&m);
		model_leave(&m, ticket);
		faults = model_end(&m);
		assert_int_equal(faults, guarded ? 0 : 1);
	}
}

/*
 * slots_graph: a graph captured in one turn has the addresses in it. A bind in between moves the
 * buffers; the generation tells the next decode to capture again.
 */
static void test_captured_graph(void **state)
{
	for (int guarded = 0; guarded <= 1; guarded++) {
		struct model m;
		uint64_t ticket, generation;
		void *graph;
		int faults;

		model_init(&m, guarded);
		ticket = model_enter(&m, PN_TURN_DECODE);
		graph = model_ptr(&m, ticket, CONV_SLOTS);
		generation = pn_turn_generation(m.turn);
		model_leave(&m, ticket);

		for (int bind = 0; bind <= 1; bind++) {
			if (bind) {
				ticket = model_enter(&m, PN_TURN_BIND);
				model_grow(&m, ticket, CONV_SLOTS, LARGE_BYTES);
				model_leave(&m, ticket);
			}
			ticket = model_enter(&m, PN_TURN_DECODE);
			if (guarded) {
				/* It must move with a replacement, and with nothing else. */
				assert_int_equal(pn_turn_generation(m.turn) != generation, bind);
				if (pn_turn_generation(m.turn) != generation)
					graph = model_ptr(&m, ticket, CONV_SLOTS);
			}
			checked_touch(&m.heap, graph); /* replay */
			model_leave(&m, ticket);
		}
		faults = model_end(&m);
		assert_int_equal(faults, guarded ? 0 : 1);
	}
}

/* The bind of the SPEC's item 4: the ceiling of this moment first, then the turn. */
static int bind_slots(struct model *m, bs_sched *bs, int n_slots)
{
	uint64_t ticket;
	int rc = bs_bind_check(bs, n_slots);

	if (rc)
		return rc;
	ticket = model_enter(m, PN_TURN_BIND);
	model_grow(m, ticket, CONV_SLOTS, SMALL_BYTES * (size_t)n_slots);
	model_leave(m, ticket);
	return 0;
}

/*
 * Item 4: the level, and with it rung 2's ceiling, changes between scheduler creation and bind.
 * The bind is refused cleanly: no buffer moves and the step in flight is not waited for.
 */
static void test_ladder_changes_before_bind(void **state)
{
	struct model m;
	bs_sched *bs;
	uint64_t ticket, generation;
	void *before;

	model_init(&m, true);
	assert_int_equal(bs_new(&bs, 8, 8), 0); /* created at OK */
	ticket = model_enter(&m, PN_TURN_STEP);
	model_launch(&m, ticket, CONV_SLOTS);
	before = model_ptr(&m, ticket, CONV_SLOTS);
	generation = pn_turn_generation(m.turn);

	bs_set_ceiling(bs, 4); /* TIGHT: cfg / 2 */
	assert_int_equal(bind_slots(&m, bs, 8), BS_REFUSED);
	assert_int_equal(bind_slots(&m, bs, 5), BS_REFUSED);
	assert_int_equal(pn_turn_generation(m.turn), generation);
	assert_ptr_equal(model_ptr(&m, ticket, CONV_SLOTS), before);
	model_device_runs(&m);
	model_leave(&m, ticket);

	assert_int_equal(bind_slots(&m, bs, 4), 0); /* what fits is bound */
	assert_int_equal(m.buf[CONV_SLOTS].bytes, 4 * SMALL_BYTES);
	bs_set_ceiling(bs, 1); /* CRITICAL */
	assert_int_equal(bind_slots(&m, bs, 2), BS_REFUSED);
	assert_int_equal(bind_slots(&m, bs, 1), 0);
	bs_set_ceiling(bs, 8); /* OK again */
	assert_int_equal(bind_slots(&m, bs, 8), 0);
	bs_free(bs);
	assert_int_equal(model_end(&m), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_stage_grows_within_step),
		cmocka_unit_test(test_begin_reentered),
		cmocka_unit_test(test_captured_graph),
		cmocka_unit_test(test_ladder_changes_before_bind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
