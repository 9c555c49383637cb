/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading, sleeping and switching. See reader.h.
 *
 * A switch changes `generation`, which packs a counter and the page in use, so that one load tells
 * a reader both. Pages are never unmapped: the agent's is replaced by mmap(MAP_FIXED), so that a
 * reader that was overtaken by a switch reads old or new bytes, never a hole, and then sees by
 * the generation that it has to start again.
 */
#include "lib/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/dies.h"
#include "host/clock.h"
#include "host/futex.h"
#include "lib/own_reserved.h"

/* Room for the page of an agent whose extension has grown; page_view has 16-bit offsets. */
#define AGENT_MAP_BYTES 65536u

struct slot {
	struct page_view view;
	_Atomic uint32_t sleepers; /* threads that are, or are about to be, in futex_wait */
};

/* What this engine told the agent of a die. */
struct own_die {
	_Atomic uint64_t free_bytes, budget_bytes, used_bytes;
};

static struct {
	_Atomic uint64_t generation; /* counter << 2 | (page + 1) */
	struct slot slot[2];
	void *agent_map;               /* AGENT_MAP_BYTES of address space, reserved once */
	_Atomic uint32_t own_die_mask; /* places of own_die that count */
	struct own_die own_die[DIE_TABLE_MAX];
	_Alignas(4096) struct page own;
} g;

static enum reader_page page_of(uint64_t generation)
{
	return (enum reader_page)((int)(generation & 3) - 1);
}

static uint64_t load_generation(void)
{
	return atomic_load_explicit(&g.generation, memory_order_seq_cst);
}

/*
 * A switch wakes only its own process's sleepers, as far as 31 bits can tell processes apart: the
 * page is shared by all engines of the group, and each of them switches when the agent ends.
 */
static uint32_t process_mask(void)
{
	return 1u << ((uint32_t)getpid() % 31);
}

struct page *reader_own_page(void)
{
	return &g.own;
}

/* Its length in *ret_bytes. Returns 0 or -errno; -EPROTO: not a sealed page. */
static int check_memfd(int memfd, size_t *ret_bytes)
{
	struct stat st;
	int seals;

	/* Without the seal the file could shrink and a read end in SIGBUS. */
	seals = fcntl(memfd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return -EPROTO;
	if (fstat(memfd, &st))
		return -errno;
	if (st.st_size > AGENT_MAP_BYTES)
		return -EPROTO;
	*ret_bytes = (size_t)st.st_size;
	return 0;
}

int reader_map_agent_page(int memfd)
{
	size_t bytes;
	void *map;
	int r;

	r = check_memfd(memfd, &bytes);
	if (r)
		return r;
	if (!g.agent_map) {
		map = mmap(NULL, AGENT_MAP_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (map == MAP_FAILED)
			return -errno;
		g.agent_map = map;
	}
	map = mmap(g.agent_map, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, memfd, 0);
	if (map == MAP_FAILED)
		return -errno;
	return page_open(&g.slot[READER_AGENT].view, map, bytes);
}

int reader_read_page(int memfd, pn_mem_state *ret_state, pn_mem_ext *ret_ext)
{
	struct page_view view = { 0 };
	size_t bytes;
	void *map;
	int r;

	r = check_memfd(memfd, &bytes);
	if (r)
		return r;
	map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, memfd, 0);
	if (map == MAP_FAILED)
		return -errno;
	r = page_open(&view, map, bytes);
	if (!r)
		r = page_read(&view, ret_state, ret_ext);
	munmap(map, bytes);
	return r;
}

uint64_t reader_agent_heartbeat_ns(void)
{
	return atomic_load_explicit(&g.slot[READER_AGENT].view.page->heartbeat_ns,
				    memory_order_relaxed);
}

bool reader_agent_retired(void)
{
	return atomic_load_explicit(&g.slot[READER_AGENT].view.page->retired, memory_order_relaxed);
}

static void wake_own(const struct page *page)
{
	futex_wake(&page->level_word, process_mask());
	for (int i = 0; i < PAGE_THRESHOLDS; i++)
		futex_wake(&page->threshold_word[i], process_mask());
	futex_wake(&page->publish_word, process_mask());
}

void reader_switch(enum reader_page to)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	uint64_t generation = load_generation();
	enum reader_page from = page_of(generation);
	struct slot *old;

	if (to == READER_OWN)
		page_open(&g.slot[READER_OWN].view, &g.own, sizeof(g.own));
	atomic_store_explicit(&g.generation, ((generation >> 2) + 1) << 2 | (uint64_t)(to + 1),
			      memory_order_seq_cst);
	if (from == READER_NONE || from == to)
		return;
	/* A sleeper counts itself before it looks at the generation: none can be missed. */
	old = &g.slot[from];
	while (atomic_load_explicit(&old->sleepers, memory_order_seq_cst)) {
		wake_own(old->view.page);
		nanosleep(&pause, NULL);
	}
}

enum reader_page reader_current(void)
{
	return page_of(load_generation());
}

_Static_assert(DIE_TABLE_MAX <= 32, "bits of a mask");

static void put(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_relaxed);
}

static uint64_t get(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

void reader_own_die(int place, const struct die_push *push)
{
	struct own_die *own = &g.own_die[place];

	put(&own->free_bytes, push->free_bytes);
	put(&own->budget_bytes, push->budget_bytes);
	put(&own->used_bytes, push->used_bytes);
	atomic_fetch_or_explicit(&g.own_die_mask, 1u << place, memory_order_release);
}

void reader_own_dies_reset(void)
{
	atomic_store_explicit(&g.own_die_mask, 0, memory_order_relaxed);
}

/* In the place of what other engines made of it: used bytes, and all of a die without a name. */
static void put_own_die(int place, bool declared, pn_mem_state *state, pn_mem_ext *ext)
{
	const struct own_die *own = &g.own_die[place];
	pn_mem_die *more =
		ext && place >= PN_MEM_MAX_DIES ? &ext->more_die[place - PN_MEM_MAX_DIES] : NULL;

	if (more)
		more->used_bytes = get(&own->used_bytes);
	if (!state || place >= PN_MEM_MAX_DIES)
		return;
	state->per_die_used[place] = get(&own->used_bytes);
	if (!declared)
		return;
	state->per_die_free[place] = get(&own->free_bytes);
	state->per_die_budget[place] = get(&own->budget_bytes);
}

static void put_own_dies(pn_mem_state *state, pn_mem_ext *ext)
{
	const struct page *page = g.slot[READER_AGENT].view.page;
	uint32_t mask = atomic_load_explicit(&g.own_die_mask, memory_order_acquire);
	uint32_t declared;

	mask &= (uint32_t)get(&page->shared_used);
	declared = mask ? (uint32_t)get(&page->declared) : 0;
	for (; mask; mask &= mask - 1) {
		int place = __builtin_ctz(mask);

		put_own_die(place, declared & 1u << place, state, ext);
	}
}

int reader_read(pn_mem_state *ret_state, pn_mem_ext *ret_ext)
{
	uint64_t generation = atomic_load_explicit(&g.generation, memory_order_acquire), after;
	int r;

	for (int tries = 0; tries < PAGE_READ_TRIES; tries++) {
		enum reader_page on = page_of(generation);
		uint32_t own_begun = ret_ext ? own_reserved_begin() : 0;

		if (on == READER_NONE)
			return -ENODATA;
		r = page_read(&g.slot[on].view, ret_state, ret_ext);
		atomic_thread_fence(memory_order_acquire);
		after = atomic_load_explicit(&g.generation, memory_order_acquire);
		if (after == generation) {
			if (on == READER_AGENT && !r &&
			    atomic_load_explicit(&g.own_die_mask, memory_order_relaxed))
				put_own_dies(ret_state, ret_ext);
			if (ret_ext && !r)
				own_reserved_take_off(own_begun, ret_ext);
			return r;
		}
		generation = after;
	}
	return -EAGAIN;
}

/* What a sleeper waits for. */
struct wish {
	enum { WISH_LEVEL, WISH_SNAPSHOT, WISH_AT_LEAST, WISH_AT_MOST } kind;
	const pn_mem_state *seen; /* of the first two */
	pn_mem_level level;       /* of the others */
};

static bool is_met(const struct wish *wish, const pn_mem_state *now)
{
	switch (wish->kind) {
	case WISH_LEVEL:
		return now->level != wish->seen->level;
	case WISH_SNAPSHOT:
		return now->seq != wish->seen->seq;
	case WISH_AT_LEAST:
		return now->level >= wish->level;
	default:
		return now->level <= wish->level;
	}
}

/* The word that changes whenever the wish may have been met, and otherwise as seldom as can be. */
static const _Atomic uint32_t *word_of(const struct wish *wish, const struct page *page)
{
	unsigned threshold;

	if (wish->kind == WISH_SNAPSHOT)
		return &page->publish_word;
	threshold = wish->kind == WISH_AT_LEAST ? wish->level - 1u : wish->level;
	if (wish->kind == WISH_LEVEL || threshold >= PAGE_THRESHOLDS ||
	    !(atomic_load_explicit(&page->features, memory_order_relaxed) & PAGE_HAS_THRESHOLDS))
		return &page->level_word;
	return &page->threshold_word[threshold];
}

/*
 * One round: 1 with *ret_now when the wish is met; 0 to go round again; or -errno. The word is read
 * before the snapshot, so that a publish in between ends the sleep at once.
 */
static int wait_round(struct slot *slot, uint64_t generation, const struct wish *wish,
		      uint64_t deadline_ns, pn_mem_state *ret_now)
{
	const _Atomic uint32_t *word = word_of(wish, slot->view.page);
	uint32_t expected = atomic_load_explicit(word, memory_order_acquire);
	int r;

	if (load_generation() != generation)
		return 0;
	r = reader_read(ret_now, NULL);
	if (r)
		return r == -EAGAIN ? 0 : -ESHUTDOWN;
	if (is_met(wish, ret_now))
		return 1;
	r = futex_wait(word, expected, process_mask(), deadline_ns);
	return r == -ETIMEDOUT ? r : 0;
}

static int wait_for(const struct wish *wish, uint64_t deadline_ns, pn_mem_state *ret)
{
	pn_mem_state now;
	int r;

	r = reader_current() == READER_NONE ? -ENODATA : 0;
	while (!r) {
		uint64_t generation = load_generation();
		enum reader_page on = page_of(generation);
		struct slot *slot;

		if (on == READER_NONE)
			return -ESHUTDOWN;
		slot = &g.slot[on];
		atomic_fetch_add_explicit(&slot->sleepers, 1, memory_order_seq_cst);
		r = wait_round(slot, generation, wish, deadline_ns, &now);
		atomic_fetch_sub_explicit(&slot->sleepers, 1, memory_order_seq_cst);
	}
	if (r < 0)
		return r;
	if (ret)
		*ret = now;
	return 0;
}

int reader_wait(pn_memwatch_wait_t what, const pn_mem_state *seen, uint64_t deadline_ns,
		pn_mem_state *ret)
{
	pn_mem_state base;
	const struct wish wish = {
		.kind = what == PN_WAIT_LEVEL ? WISH_LEVEL : WISH_SNAPSHOT,
		.seen = &base,
	};
	int r;

	if (seen) {
		base = *seen;
	} else {
		do
			r = reader_read(&base, NULL);
		while (r == -EAGAIN);
		if (r)
			return r;
	}
	return wait_for(&wish, deadline_ns, ret);
}

int reader_wait_at(pn_memwatch_at_t at, pn_mem_level level, uint64_t deadline_ns, pn_mem_state *ret)
{
	const struct wish wish = {
		.kind = at == PN_AT_LEAST ? WISH_AT_LEAST : WISH_AT_MOST,
		.level = level,
	};

	if ((unsigned)at > PN_AT_MOST || (unsigned)level > PN_MEM_LEVEL_CRITICAL)
		return -EINVAL;
	return wait_for(&wish, deadline_ns, ret);
}

void reader_after_fork(void)
{
	atomic_store_explicit(&g.generation, 0, memory_order_relaxed);
	reader_own_dies_reset();
	for (int i = 0; i < 2; i++)
		atomic_store_explicit(&g.slot[i].sleepers, 0, memory_order_relaxed);
}
