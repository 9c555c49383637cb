/* SPDX-License-Identifier: BSD-2-Clause */
/* A seqlock around a few sums. See own_reserved.h. */
#include "lib/own_reserved.h"

#include "core/u64.h"
#include "host/clock.h"

struct own {
	_Atomic uint64_t expiry_ns; /* by this process's reckoning: before the agent's */
	_Atomic uint64_t bytes;
	_Atomic int die;
};

struct own_reserved_words own_reserved_words;
static struct own held[LEDGER_OWNER_MAX];

void own_reserved_set(const struct ledger *ledger, bool only_told)
{
	uint32_t version = atomic_load_explicit(&own_reserved_words.version, memory_order_relaxed),
		 n = 0;

	atomic_store_explicit(&own_reserved_words.version, version + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	for (uint32_t i = 0; i < ledger->count && n < LEDGER_OWNER_MAX; i++) {
		const struct ledger_entry *e = &ledger->entry[i];

		if (e->done_ns || (only_told && !e->told))
			continue;
		atomic_store_explicit(&held[n].expiry_ns, e->expiry_ns, memory_order_relaxed);
		atomic_store_explicit(&held[n].bytes, e->bytes, memory_order_relaxed);
		atomic_store_explicit(&held[n].die, e->where.die, memory_order_relaxed);
		n++;
	}
	atomic_store_explicit(&own_reserved_words.count, n, memory_order_relaxed);
	atomic_store_explicit(&own_reserved_words.version, version + 2, memory_order_release);
}

static void take_off(int die, uint64_t bytes, pn_mem_ext *ext)
{
	if (die == LEDGER_HOST) {
		ext->host_reserved_bytes = u64_sub(ext->host_reserved_bytes, bytes);
		ext->cgroup_reserved_bytes = u64_sub(ext->cgroup_reserved_bytes, bytes);
	} else if (die >= 0 && die < PN_MEM_MAX_DIES) {
		ext->die_reserved_bytes[die] = u64_sub(ext->die_reserved_bytes[die], bytes);
	}
}

void own_reserved_take_off_some(uint32_t begun, uint32_t count, pn_mem_ext *ext)
{
	struct {
		uint64_t bytes;
		int die;
	} own[LEDGER_OWNER_MAX];
	uint64_t now_ns;
	uint32_t n = 0;

	/* After the page was read: what has not expired by now was on it. */
	now_ns = clock_now_ns();
	for (uint32_t i = 0; i < count && i < LEDGER_OWNER_MAX; i++) {
		if (atomic_load_explicit(&held[i].expiry_ns, memory_order_relaxed) <= now_ns)
			continue;
		own[n].bytes = atomic_load_explicit(&held[i].bytes, memory_order_relaxed);
		own[n].die = atomic_load_explicit(&held[i].die, memory_order_relaxed);
		n++;
	}
	atomic_thread_fence(memory_order_acquire);
	if (begun & 1 ||
	    atomic_load_explicit(&own_reserved_words.version, memory_order_relaxed) != begun)
		return;
	for (uint32_t i = 0; i < n; i++)
		take_off(own[i].die, own[i].bytes, ext);
}
