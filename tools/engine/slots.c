/* SPDX-License-Identifier: BSD-2-Clause */
/* See slots.h. */
#include "slots.h"

#include <stdio.h>
#include <time.h>

#include "pn_memwatch.h"

static uint64_t deadline_after_ms(unsigned ms)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec + ms * 1000000ull;
}

/* Ends when the watch is stopped. */
static void *follow_level(void *arg)
{
	struct slots *slots = arg;
	pn_mem_state state;
	int r = pn_memwatch_read(&state);

	while (!r) {
		bs_set_ceiling(slots->gate, guard_slot_ceiling(slots->guard, state.level));
		r = pn_memwatch_wait(PN_WAIT_LEVEL, &state, UINT64_MAX, &state);
	}
	return NULL;
}

int slots_start(struct slots *slots, const struct guard *guard)
{
	int max_slots = guard->configured.max_slots;
	int r;

	slots->guard = guard;
	if (!guard->on) {
		plain_pool_init(&slots->plain, max_slots);
		return 0;
	}
	/* bs_new: rung 2 clamps the scheduler at its creation. */
	r = bs_new(&slots->gate, max_slots, guard_slot_ceiling(guard, guard_level(guard)));
	if (r)
		return r;
	r = -pthread_create(&slots->follower, NULL, follow_level, slots);
	if (r)
		bs_free(slots->gate);
	return r;
}

void slots_shutdown(struct slots *slots)
{
	if (slots->guard->on)
		bs_shutdown(slots->gate);
	else
		plain_pool_shutdown(&slots->plain);
}

void slots_stop(struct slots *slots)
{
	if (!slots->guard->on) {
		plain_pool_destroy(&slots->plain);
		return;
	}
	pthread_join(slots->follower, NULL);
	bs_free(slots->gate);
}

static int refuse(struct slots *slots, int err, uint32_t retry_after_ms, const char *reason,
		  struct refusal *ret_refusal)
{
	ret_refusal->retry_after_ms = retry_after_ms;
	ret_refusal->level = (int)guard_level(slots->guard);
	snprintf(ret_refusal->reason, sizeof(ret_refusal->reason), "%s", reason);
	return err;
}

int slots_acquire(struct slots *slots, unsigned queue_ms, struct refusal *ret_refusal)
{
	bs_grant grant = { 0 };
	int r;

	if (!slots->guard->on) {
		r = plain_pool_take(&slots->plain);
		return r < 0 ? refuse(slots, r, BS_RETRY_AFTER_MIN_MS, "shutting down", ret_refusal)
			     : r;
	}
	/* bs_slot_acquire: queued while pressure holds the gate, refused at CRITICAL (D3). */
	r = bs_slot_acquire(slots->gate, NULL, deadline_after_ms(queue_ms), &grant);
	switch (r) {
	case 0:
		return grant.slot;
	case BS_REFUSED:
		return refuse(slots, r, grant.retry_after_ms,
			      "memory pressure is critical: the queue is shed", ret_refusal);
	case BS_TIMEDOUT:
		return refuse(slots, r, BS_RETRY_AFTER_MIN_MS,
			      "no slot became free while it was queued", ret_refusal);
	default:
		return refuse(slots, r, BS_RETRY_AFTER_MIN_MS, "shutting down", ret_refusal);
	}
}

void slots_release(struct slots *slots, int slot)
{
	if (slots->guard->on)
		bs_slot_release(slots->gate, slot);
	else
		plain_pool_give(&slots->plain, slot);
}

bool slots_bind_check(struct slots *slots, int n_slots, struct refusal *ret_refusal)
{
	/* pn_qwen35moe_decode_slot_bind_cuda: the ceiling may have sunk since the grant. */
	if (!slots->guard->on || !bs_bind_check(slots->gate, n_slots))
		return true;
	refuse(slots, BS_REFUSED, BS_RETRY_AFTER_MIN_MS,
	       "the ladder allows fewer decode slots than this one needs", ret_refusal);
	return false;
}

void slots_denied(struct slots *slots, int level)
{
	/*
	 * sg_run_completion_batched (D3): a denial holds or sheds the queue. -EAGAIN: no thread
	 * to end the hold; then nothing may be held.
	 */
	if (slots->guard->on && bs_notify_pressure(slots->gate, level) == -EAGAIN)
		bs_notify_pressure(slots->gate, PN_MEM_LEVEL_OK);
}
