/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A bounded queue of many producers and one consumer: a slot's turn says whose it is. See
 * verdict_log.h.
 */
#include "lib/verdict_log.h"

#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

#include "core/proto.h"

#define SLOTS 512u /* a power of two; 64 KiB */
/* While verdicts come, they are sent this often. */
#define BUSY_MS 100
/* Bytes that may wait in the socket, so that there is always room for a request and its like. */
#define QUEUED_BYTES_MAX 65536

/*
 * With turn == n, whoever takes number n may fill it; with n + 1 it can be read, and then it is
 * number n + SLOTS's turn. The words of the verdict are handed over by the turn.
 */
static struct slot {
	_Atomic uint64_t turn; /* stored less its index, so that all zero is the start */
	uint64_t ts_ns;
	struct trace_verdict verdict;
} slots[SLOTS];

static _Atomic uint64_t next_put;
static uint64_t next_sent; /* the consumer's */
static _Atomic uint64_t dropped_count;

_Atomic bool verdict_log_on;

static uint64_t coarse_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t turn_of(const struct slot *slot)
{
	return atomic_load_explicit(&slot->turn, memory_order_acquire) + (uint64_t)(slot - slots);
}

static void set_turn(struct slot *slot, uint64_t turn)
{
	atomic_store_explicit(&slot->turn, turn - (uint64_t)(slot - slots), memory_order_release);
}

void verdict_log_put(uint32_t ask, uint32_t flags, int n_tokens, int max_window,
		     const pn_admit_result *result)
{
	uint64_t n = atomic_load_explicit(&next_put, memory_order_relaxed);
	struct slot *slot;

	for (;;) {
		uint64_t turn;

		slot = &slots[n % SLOTS];
		turn = turn_of(slot);
		if (turn < n) {
			atomic_fetch_add_explicit(&dropped_count, 1, memory_order_relaxed);
			return; /* full */
		}
		if (turn > n)
			n = atomic_load_explicit(&next_put, memory_order_relaxed);
		else if (atomic_compare_exchange_weak_explicit(
				 &next_put, &n, n + 1, memory_order_relaxed, memory_order_relaxed))
			break;
	}
	slot->ts_ns = coarse_now_ns();
	slot->verdict = (struct trace_verdict){
		.ask = ask,
		.flags = flags,
		.n_tokens = n_tokens,
		.max_window = max_window,
		.verdict = result->verdict,
		.check = result->check,
		.fit_tokens = result->fit_tokens,
		.die_id = result->die_id,
		.level = result->level,
		.retry_after_ms = result->retry_after_ms,
		.need_bytes = result->need_bytes,
		.have_bytes = result->have_bytes,
		.reserve_bytes = result->reserve_bytes,
		.psi_full_pct = result->psi_full_pct,
		.psi_limit_pct = result->psi_limit_pct,
	};
	set_turn(slot, n + 1);
}

/* Copies up to PROTO_VERDICTS_MAX of them. They are still there until they are sent. */
static uint32_t peek(struct proto_verdicts *packet)
{
	uint32_t count = 0;

	while (count < PROTO_VERDICTS_MAX) {
		struct slot *slot = &slots[(next_sent + count) % SLOTS];

		if (turn_of(slot) != next_sent + count + 1)
			break;
		packet->at[count].ts_ns = slot->ts_ns;
		packet->at[count].verdict = slot->verdict;
		/* Copied as it is: there is room for the longest name and its NUL. */
		strncpy(packet->at[count].verdict.comm, program_invocation_short_name,
			sizeof(packet->at[count].verdict.comm) - 1);
		count++;
	}
	return count;
}

static void take(uint32_t count)
{
	for (; count; count--, next_sent++)
		set_turn(&slots[next_sent % SLOTS], next_sent + SLOTS);
}

static bool has_room(const struct link *link)
{
	int queued;

	return !ioctl(link->sock, SIOCOUTQ, &queued) && queued < QUEUED_BYTES_MAX;
}

int verdict_log_send(struct link *link, int idle_ms)
{
	bool on = link->sock >= 0 && !link->broken && link->features & PROTO_TAKES_VERDICTS;
	bool any = false;

	atomic_store_explicit(&verdict_log_on, on, memory_order_relaxed);
	if (!on)
		return idle_ms;
	while (has_room(link)) {
		struct proto_verdicts packet = {
			.header = proto_header_make(PROTO_VERDICT, sizeof(packet), 0),
		};

		packet.count = peek(&packet);
		packet.dropped =
			(uint32_t)atomic_load_explicit(&dropped_count, memory_order_relaxed);
		if ((!packet.count && !packet.dropped) ||
		    send(link->sock, &packet, sizeof(packet), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break;
		take(packet.count);
		atomic_fetch_sub_explicit(&dropped_count, packet.dropped, memory_order_relaxed);
		any = true;
	}
	return any && BUSY_MS < idle_ms ? BUSY_MS : idle_ms;
}
