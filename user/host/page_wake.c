/* SPDX-License-Identifier: BSD-2-Clause */
/* Bumping the words and waking. See page_wake.h. */
#include "host/page_wake.h"

#include <limits.h>

#include "host/futex.h"

static _Atomic uint32_t *word_of(struct page *page, unsigned bit)
{
	if (bit == PAGE_WAKE_LEVEL)
		return &page->level_word;
	if (bit == PAGE_WAKE_PUBLISH)
		return &page->publish_word;
	return &page->threshold_word[__builtin_ctz(bit) - 1];
}

static unsigned bump(struct page *page, unsigned words)
{
	for (unsigned left = words; left; left &= left - 1)
		atomic_fetch_add_explicit(word_of(page, left & -left), 1, memory_order_release);
	return words;
}

unsigned page_bump(struct page *page, pn_mem_level before, pn_mem_level now)
{
	pn_mem_level low = before < now ? before : now, high = before < now ? now : before;
	unsigned words = PAGE_WAKE_PUBLISH;

	if (low != high)
		words |= PAGE_WAKE_LEVEL;
	for (pn_mem_level level = low; level < high; level++)
		words |= PAGE_WAKE_AT(level);
	return bump(page, words);
}

unsigned page_bump_all(struct page *page)
{
	return bump(page, PAGE_WAKE_ALL);
}

unsigned page_wake(struct page *page, unsigned words, int max)
{
	for (; words && max > 0; words &= words - 1) {
		int woken = futex_wake_some(word_of(page, words & -words), max, FUTEX_WAKE_ANY);

		if (woken >= max)
			break;
		max -= woken;
	}
	return words;
}
