/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The batch gate of pn_batch.h. One mutex guards a few words and the queue; gate_pump is the only
 * place that answers the queue as a whole, and runs after every change that could let somebody
 * through or out. Sleeping and waking is in waiter.h.
 */
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "pn_batch.h"
#include "lib/batch_source.h"
#include "host/clock.h"
#include "lib/verdict_log.h"
#include "lib/waiter.h"

/*
 * pn_memwatch_wait cannot be interrupted, so the listener sleeps at most this long at a time:
 * what bs_free may have to wait for it.
 */
#define LISTEN_SLICE_NS 50000000u

struct bs_sched {
	pthread_mutex_t lock;
	struct waitlist queue;

	int slots;
	int ceiling;
	int running;
	int first_free;       /* no slot below it is free */
	uint64_t *granted_ns; /* per slot: when it was taken, 0 free */
	uint64_t mean_hold_ns;

	int pressure_level;
	uint64_t denied_ns;       /* when the last denial was pushed */
	uint64_t episode_refused; /* refused since CRITICAL was entered */
	bool shutdown;

	struct bs_pressure_source source;
	pthread_cond_t listener_wake;
	pthread_t listener;
	bool listening; /* the thread exists */
	bool stop;

	uint64_t granted;
	uint64_t refused;
};

static bool gate_held(const bs_sched *bs)
{
	return bs->pressure_level >= BS_PRESSURE_HOLD_LEVEL;
}

static int gate_take_slot(bs_sched *bs)
{
	int slot = bs->first_free;

	while (bs->granted_ns[slot])
		slot++;
	bs->granted_ns[slot] = clock_now_ns();
	bs->first_free = slot + 1;
	bs->running++;
	bs->granted++;
	return slot;
}

static uint64_t gate_retry_after_ms(bs_sched *bs)
{
	uint64_t place = bs->episode_refused++;
	uint64_t hold_ms = bs->mean_hold_ns / 1000000u;
	uint64_t wait_ms;

	if (hold_ms > BS_RETRY_AFTER_MAX_MS)
		hold_ms = BS_RETRY_AFTER_MAX_MS;
	wait_ms = BS_RETRY_AFTER_MIN_MS + place * hold_ms / (uint64_t)bs->ceiling;
	return wait_ms < BS_RETRY_AFTER_MAX_MS ? wait_ms : BS_RETRY_AFTER_MAX_MS;
}

/* Answers whoever in the queue can be answered now. Locked; the caller wakes `wake` unlocked. */
static void gate_pump(bs_sched *bs, struct waitlist *wake)
{
	struct waitlist *queue = &bs->queue;

	if (bs->shutdown) {
		while (queue->head)
			waiter_answer(queue, queue->head, BS_SHUTDOWN, 0, wake);
	} else if (bs->pressure_level >= PN_MEM_LEVEL_CRITICAL) {
		bs->refused += queue->count;
		while (queue->head)
			waiter_answer(queue, queue->head, BS_REFUSED, gate_retry_after_ms(bs),
				      wake);
	} else if (!gate_held(bs)) {
		while (queue->head && bs->running < bs->ceiling)
			waiter_answer(queue, queue->head, 0, (uint64_t)gate_take_slot(bs), wake);
	}
}

static void gate_pump_unlock(bs_sched *bs)
{
	struct waitlist wake = { 0 };

	gate_pump(bs, &wake);
	pthread_mutex_unlock(&bs->lock);
	waitlist_wake(&wake);
}

/* ---- the listener ------------------------------------------------------------------------- */

/*
 * Lets the level fall to the live one, or lapse. Returns 0 or why the live level is not known.
 * The read is made under the lock, so it cannot be older than a denial already pushed.
 */
static int listener_judge(bs_sched *bs, uint64_t now_ns, pn_mem_state *ret_live)
{
	int rc = bs->source.read(bs->source.ctx, ret_live);
	bool known = rc == 0;

	if (known && (int)ret_live->level < bs->pressure_level)
		bs->pressure_level = (int)ret_live->level;
	if (now_ns >= bs->denied_ns + bs->source.denial_ns &&
	    !(known && ret_live->level >= PN_MEM_LEVEL_CRITICAL))
		bs->pressure_level = PN_MEM_LEVEL_OK;
	return rc;
}

/* Sleeps until stopped, notified or deadline_ns. Locked. */
static void listener_doze(bs_sched *bs, uint64_t deadline_ns)
{
	struct timespec ts = { .tv_sec = (time_t)(deadline_ns / 1000000000u),
			       .tv_nsec = (long)(deadline_ns % 1000000000u) };

	pthread_cond_timedwait(&bs->listener_wake, &bs->lock, &ts);
}

static void *listener_main(void *arg)
{
	bs_sched *bs = arg;

	pthread_mutex_lock(&bs->lock);
	while (!bs->stop) {
		uint64_t now_ns = clock_now_ns();
		uint64_t deadline_ns = now_ns + LISTEN_SLICE_NS;
		uint64_t lapse_ns = bs->denied_ns + bs->source.denial_ns;
		pn_mem_state live;
		int rc;

		if (!gate_held(bs)) {
			pthread_cond_wait(&bs->listener_wake, &bs->lock);
			continue;
		}
		if (lapse_ns > now_ns && lapse_ns < deadline_ns)
			deadline_ns = lapse_ns;
		rc = listener_judge(bs, now_ns, &live);
		gate_pump_unlock(bs);
		if (!rc)
			rc = bs->source.wait(bs->source.ctx, &live, deadline_ns);
		pthread_mutex_lock(&bs->lock);
		/* No watch to wait on (not running, or stopped meanwhile): look again later. */
		if (rc && rc != -ETIMEDOUT && !bs->stop && gate_held(bs))
			listener_doze(bs, deadline_ns);
	}
	pthread_mutex_unlock(&bs->lock);
	return NULL;
}

/* Starts the listener if there is none yet; it takes none of the engine's signals. Locked. */
static int listener_ensure(bs_sched *bs)
{
	sigset_t all, old;
	int rc;

	if (bs->listening)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&bs->listener, NULL, listener_main, bs);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	bs->listening = rc == 0;
	return -rc;
}

/* ---- public ------------------------------------------------------------------------------- */

static int memwatch_read(void *ctx, pn_mem_state *ret)
{
	return pn_memwatch_read(ret);
}

static int memwatch_wait(void *ctx, const pn_mem_state *seen, uint64_t deadline_ns)
{
	return pn_memwatch_wait(PN_WAIT_LEVEL, seen, deadline_ns, NULL);
}

int bs_new(bs_sched **ret, int slots, int ceiling)
{
	const struct bs_pressure_source memwatch = {
		.read = memwatch_read,
		.wait = memwatch_wait,
		.denial_ns = BS_DENIAL_MS * 1000000ull,
	};

	return bs_new_from(ret, slots, ceiling, &memwatch);
}

static int ceiling_clamp(int ceiling, int slots)
{
	if (ceiling < 1)
		return 1;
	return ceiling < slots ? ceiling : slots;
}

int bs_new_from(bs_sched **ret, int slots, int ceiling, const struct bs_pressure_source *source)
{
	pthread_condattr_t attr;
	bs_sched *bs;

	if (slots < 1 || slots > BS_SLOTS_MAX)
		return -EINVAL;
	bs = calloc(1, sizeof(*bs));
	if (!bs)
		return -ENOMEM;
	bs->granted_ns = calloc((size_t)slots, sizeof(*bs->granted_ns));
	if (!bs->granted_ns) {
		free(bs);
		return -ENOMEM;
	}
	bs->slots = slots;
	bs->ceiling = ceiling_clamp(ceiling, slots);
	bs->source = *source;
	pthread_mutex_init(&bs->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&bs->listener_wake, &attr);
	pthread_condattr_destroy(&attr);
	*ret = bs;
	return 0;
}

void bs_free(bs_sched *bs)
{
	if (!bs)
		return;
	pthread_mutex_lock(&bs->lock);
	assert(!bs->queue.head);
	bs->stop = true;
	pthread_cond_signal(&bs->listener_wake);
	pthread_mutex_unlock(&bs->lock);
	if (bs->listening)
		pthread_join(bs->listener, NULL);
	pthread_cond_destroy(&bs->listener_wake);
	pthread_mutex_destroy(&bs->lock);
	free(bs->granted_ns);
	free(bs);
}

void bs_set_ceiling(bs_sched *bs, int ceiling)
{
	pthread_mutex_lock(&bs->lock);
	bs->ceiling = ceiling_clamp(ceiling, bs->slots);
	gate_pump_unlock(bs);
}

int bs_bind_check(bs_sched *bs, int n_slots)
{
	bool fits;

	if (n_slots < 1)
		return -EINVAL;
	pthread_mutex_lock(&bs->lock);
	fits = n_slots <= bs->ceiling;
	pthread_mutex_unlock(&bs->lock);
	return fits ? 0 : BS_REFUSED;
}

/* The gate refuses at CRITICAL alone. Called without the lock. */
static void refused(bs_grant *ret, uint32_t retry_after_ms)
{
	const pn_admit_result result = {
		.verdict = PN_VERDICT_REJECT,
		.die_id = -1,
		.level = PN_MEM_LEVEL_CRITICAL,
		.retry_after_ms = retry_after_ms,
	};

	ret->retry_after_ms = retry_after_ms;
	verdict_log(TRACE_ASK_SLOT, 0, 0, 0, &result);
}

/* Joins the queue and pumps it. True if the answer came at once. */
static bool acquire_enter(bs_sched *bs, bs_request *request, struct waiter *w)
{
	struct waitlist self = { 0 };
	bool answered;

	pthread_mutex_lock(&bs->lock);
	waiter_enqueue(&bs->queue, w);
	if (request && request->canceled)
		waiter_answer(&bs->queue, w, BS_CANCELED, 0, &self);
	else
		/* Nobody before it could be answered, or would have been: self is w or empty. */
		gate_pump(bs, &self);
	answered = !w->queued;
	if (request)
		request->waiter = answered ? NULL : w;
	pthread_mutex_unlock(&bs->lock);
	return answered;
}

int bs_slot_acquire(bs_sched *bs, bs_request *request, uint64_t deadline_ns, bs_grant *ret)
{
	struct waiter w;

	if (!acquire_enter(bs, request, &w)) {
		waiter_wait(&w, deadline_ns, &bs->queue, &bs->lock);
		if (request) {
			pthread_mutex_lock(&bs->lock);
			request->waiter = NULL;
			pthread_mutex_unlock(&bs->lock);
		}
	}
	if (!w.rc)
		ret->slot = (int)w.value;
	else if (w.rc == BS_REFUSED)
		refused(ret, (uint32_t)w.value);
	return w.rc;
}

int bs_slot_release(bs_sched *bs, int slot)
{
	uint64_t now_ns = clock_now_ns();
	int64_t hold_ns;

	pthread_mutex_lock(&bs->lock);
	if (slot < 0 || slot >= bs->slots || !bs->granted_ns[slot]) {
		pthread_mutex_unlock(&bs->lock);
		return -EINVAL;
	}
	hold_ns = (int64_t)(now_ns - bs->granted_ns[slot]);
	if (bs->mean_hold_ns) /* the usual 1/8 of each new sample, as TCP's smoothed RTT */
		hold_ns = (int64_t)bs->mean_hold_ns + (hold_ns - (int64_t)bs->mean_hold_ns) / 8;
	bs->mean_hold_ns = (uint64_t)hold_ns;
	bs->granted_ns[slot] = 0;
	bs->running--;
	if (slot < bs->first_free)
		bs->first_free = slot;
	gate_pump_unlock(bs);
	return 0;
}

int bs_notify_pressure(bs_sched *bs, int level)
{
	int rc = 0;

	if (level < PN_MEM_LEVEL_OK || level > PN_MEM_LEVEL_CRITICAL)
		return -EINVAL;
	pthread_mutex_lock(&bs->lock);
	if (level == PN_MEM_LEVEL_CRITICAL && bs->pressure_level < level)
		bs->episode_refused = 0;
	bs->pressure_level = level;
	bs->denied_ns = clock_now_ns();
	if (gate_held(bs)) {
		rc = listener_ensure(bs);
		pthread_cond_signal(&bs->listener_wake);
	}
	gate_pump_unlock(bs);
	return rc;
}

void bs_cancel(bs_sched *bs, bs_request *request)
{
	struct waitlist wake = { 0 };
	struct waiter *w;

	pthread_mutex_lock(&bs->lock);
	request->canceled = true;
	w = request->waiter;
	if (w && w->queued)
		waiter_answer(&bs->queue, w, BS_CANCELED, 0, &wake);
	pthread_mutex_unlock(&bs->lock);
	waitlist_wake(&wake);
}

void bs_shutdown(bs_sched *bs)
{
	pthread_mutex_lock(&bs->lock);
	bs->shutdown = true;
	gate_pump_unlock(bs);
}

void bs_read_stats(bs_sched *bs, bs_stats *ret)
{
	pthread_mutex_lock(&bs->lock);
	*ret = (bs_stats){
		.slots = bs->slots,
		.ceiling = bs->ceiling,
		.running = bs->running,
		.waiting = bs->queue.count,
		.pressure_level = bs->pressure_level,
		.granted = bs->granted,
		.refused = bs->refused,
	};
	pthread_mutex_unlock(&bs->lock);
}
