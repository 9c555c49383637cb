/* SPDX-License-Identifier: BSD-2-Clause */
/* The seqlock over several copies. See page.h. */
#include "core/page.h"

#include <errno.h>
#include <string.h>

#include "core/u64.h"

void page_init(struct page *page)
{
	page->abi = PAGE_ABI;
	page->page_bytes = PAGE_BYTES;
	page->state_bytes = sizeof(pn_mem_state);
	page->ext_bytes = sizeof(pn_mem_ext);
	page->copy_count = PAGE_COPIES;
	page->copy_offset = (uint16_t)offsetof(struct page, copy);
	page->copy_stride = sizeof(struct page_payload);
	page->ext_offset = (uint32_t)offsetof(struct page_payload, ext);
	page->features = PAGE_HAS_THRESHOLDS;
	atomic_store_explicit(&page->retired, 0, memory_order_relaxed);
	page->magic = PAGE_MAGIC;
}

uint64_t page_seq_floor(uint64_t now_ns)
{
	return now_ns / 1000 * 2;
}

static void store_words(uint64_t *to, const void *from, size_t bytes)
{
	for (size_t i = 0; i < bytes / 8; i++) {
		uint64_t word;

		memcpy(&word, (const char *)from + i * 8, 8);
		__atomic_store_n(to + i, word, __ATOMIC_RELAXED);
	}
}

/*
 * Two words at a time, the engines' hot path. On x86-64 by one SSE load, in which each aligned
 * word is read whole: half the instructions of two atomic loads, which the compiler never joins.
 * ThreadSanitizer has to see the atomics.
 */
static inline void load_pair(char *to, const uint64_t *from)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
	typedef uint64_t pair_t __attribute__((vector_size(16), aligned(8), may_alias));
	pair_t pair;

	__asm__ volatile("movdqu %1, %0" : "=x"(pair) : "m"(*(const pair_t *)from));
	memcpy(to, &pair, sizeof(pair));
#else
	uint64_t word = __atomic_load_n(from, __ATOMIC_RELAXED);

	memcpy(to, &word, sizeof(word));
	word = __atomic_load_n(from + 1, __ATOMIC_RELAXED);
	memcpy(to + sizeof(word), &word, sizeof(word));
#endif
}

/* Sizes are multiples of 8 bytes. */
static inline void load_words(void *to, const void *shared, size_t bytes)
{
	const uint64_t *from = shared;
	char *out = to;
	size_t n = bytes / 8, i = 0;

	for (; i + 8 <= n; i += 8) {
		load_pair(out + i * 8, from + i);
		load_pair(out + i * 8 + 16, from + i + 2);
		load_pair(out + i * 8 + 32, from + i + 4);
		load_pair(out + i * 8 + 48, from + i + 6);
	}
	for (; i < n; i++) {
		uint64_t word = __atomic_load_n(from + i, __ATOMIC_RELAXED);

		memcpy(out + i * 8, &word, sizeof(word));
	}
}

/* The fields from first on, up to the one that is at `end`. */
#define STORE_UP_TO(to, from, first, end)                                                          \
	store_words((uint64_t *)&(to)->first, &(from)->first,                                      \
		    end - offsetof(__typeof__(*(from)), first))
/* The first n of an array. */
#define STORE_FIRST(to, from, array, n)                                                            \
	store_words((uint64_t *)(to)->array, (from)->array, (n) * sizeof((from)->array[0]))

/*
 * What is told of each die is most of a snapshot, and most machines have few: of those that are not
 * there only the ones are stored, as zeros, that were there when this copy was filled last.
 */
static void store_payload(struct page_payload *copy, const pn_mem_state *state,
			  const pn_mem_ext *ext)
{
	/* A count that is not one, also below 0, is taken for all that there is room for. */
	size_t n = u64_min(u64_max((uint32_t)copy->state.n_dies, (uint32_t)state->n_dies),
			   PN_MEM_MAX_DIES);
	size_t n_more = u64_min(u64_max(copy->ext.n_more_dies, ext->n_more_dies), PN_MEM_MORE_DIES);
	pn_mem_state *s = &copy->state;
	pn_mem_ext *e = &copy->ext;

	STORE_UP_TO(s, state, host_total_bytes, offsetof(pn_mem_state, per_die_free));
	STORE_FIRST(s, state, per_die_free, n);
	STORE_FIRST(s, state, per_die_budget, n);
	STORE_FIRST(s, state, per_die_used, n);
	STORE_UP_TO(s, state, level, sizeof(*state));
	STORE_UP_TO(e, ext, publish_ns, offsetof(pn_mem_ext, die_sample_ns));
	STORE_FIRST(e, ext, die_sample_ns, n);
	STORE_FIRST(e, ext, die_uuid, n);
	STORE_FIRST(e, ext, die_pci, n);
	STORE_UP_TO(e, ext, die_state, offsetof(pn_mem_ext, more_die));
	STORE_FIRST(e, ext, more_die, n_more);
	STORE_UP_TO(e, ext, host_reserved_bytes, offsetof(pn_mem_ext, die_reserved_bytes));
	STORE_FIRST(e, ext, die_reserved_bytes, n);
}

void page_publish(struct page *page, pn_mem_state *state, const pn_mem_ext *ext, uint64_t min_seq)
{
	uint64_t seq = atomic_load_explicit(&page->seq, memory_order_relaxed);
	uint64_t k = seq / 2, next = k + 1;
	struct page_payload *copy = &page->copy[next % PAGE_COPIES];

	/* A jump keeps k % PAGE_COPIES, by which readers find the copy. */
	if (min_seq / 2 > next)
		next += (min_seq / 2 - next + PAGE_COPIES - 1) / PAGE_COPIES * PAGE_COPIES;
	state->seq = next * 2;

	atomic_store_explicit(&page->seq, k * 2 + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	store_payload(copy, state, ext);
	atomic_store_explicit(&page->seq, state->seq, memory_order_release);
	atomic_store_explicit(&page->heartbeat_ns, ext->publish_ns, memory_order_relaxed);
}

int page_open(struct page_view *ret_view, const void *mapping, size_t mapped_bytes)
{
	/* Each field is read once: what was checked is what is used. */
	const volatile struct page *page = mapping;
	uint64_t count, offset, stride, ext_offset, ext_bytes;

	if (mapped_bytes < offsetof(struct page, copy) || page->magic != PAGE_MAGIC ||
	    page->abi != PAGE_ABI || page->state_bytes != sizeof(pn_mem_state))
		return -EPROTO;
	count = page->copy_count;
	offset = page->copy_offset;
	stride = page->copy_stride;
	ext_offset = page->ext_offset;
	ext_bytes = page->ext_bytes;
	if (count < 2 || count > 128 || count & (count - 1) ||
	    offset < offsetof(struct page, copy) || offset / 8 > UINT8_MAX ||
	    stride / 8 > UINT16_MAX || ext_offset < sizeof(pn_mem_state) || ext_offset > stride ||
	    ext_bytes > stride - ext_offset || (offset | stride | ext_offset | ext_bytes) % 8 ||
	    offset + count * stride > mapped_bytes)
		return -EPROTO;
	/* A newer writer's extension is longer than ours: its end is not for us. */
	if (ext_bytes > sizeof(pn_mem_ext))
		ext_bytes = sizeof(pn_mem_ext);
	/* Re-opened while others read, it is the same address: then it must not be written. */
	if (ret_view->page != mapping)
		ret_view->page = mapping;
	atomic_store_explicit(&ret_view->geometry,
			      ext_bytes / 8 | ext_offset / 8 << 16 | stride / 8 << 32 |
				      offset / 8 << 48 | count << 56,
			      memory_order_release);
	return 0;
}

/* Forces the values into the ranges that the library relies on, whoever wrote the page. */
static void force_ranges(pn_mem_state *state)
{
	if (state->n_dies < 0)
		state->n_dies = 0;
	else if (state->n_dies > PN_MEM_MAX_DIES)
		state->n_dies = PN_MEM_MAX_DIES;
	if ((unsigned)state->level > PN_MEM_LEVEL_CRITICAL)
		state->level = PN_MEM_LEVEL_CRITICAL;
}

static void force_ext_ranges(pn_mem_ext *ext)
{
	if (ext->n_more_dies > PN_MEM_MORE_DIES)
		ext->n_more_dies = PN_MEM_MORE_DIES;
	for (int i = 0; i < PN_MEM_MAX_DIES; i++)
		ext->die_pci[i][sizeof(ext->die_pci[i]) - 1] = 0;
	for (uint32_t i = 0; i < ext->n_more_dies; i++)
		ext->more_die[i].pci[sizeof(ext->more_die[i].pci) - 1] = 0;
}

int page_read(const struct page_view *view, pn_mem_state *ret_state, pn_mem_ext *ret_ext)
{
	const uint64_t g = atomic_load_explicit(&view->geometry, memory_order_acquire);
	const size_t ext_bytes = (g & 0xffff) * 8, ext_offset = (g >> 16 & 0xffff) * 8;
	const char *first = (const char *)view->page + (g >> 48 & 0xff) * 8;
	const size_t stride = (g >> 32 & 0xffff) * 8, count = g >> 56;

	for (int tries = 0; tries < PAGE_READ_TRIES; tries++) {
		uint64_t seq = atomic_load_explicit(&view->page->seq, memory_order_acquire), moved;
		const char *copy = first + (seq / 2 & (count - 1)) * stride;

		if (ret_state)
			load_words(ret_state, copy, sizeof(*ret_state));
		if (ret_ext)
			load_words(ret_ext, copy + ext_offset, ext_bytes);
		atomic_thread_fence(memory_order_acquire);
		/* Whole unless the writer has begun to fill this very copy again. */
		moved = atomic_load_explicit(&view->page->seq, memory_order_relaxed) -
			(seq & ~1ull);
		if (moved > 2 * (count - 1))
			continue;
		if (ret_state)
			force_ranges(ret_state);
		if (ret_ext && ext_bytes < sizeof(*ret_ext))
			memset((char *)ret_ext + ext_bytes, 0, sizeof(*ret_ext) - ext_bytes);
		if (ret_ext)
			force_ext_ranges(ret_ext);
		return 0;
	}
	return -EAGAIN;
}
