/* SPDX-License-Identifier: BSD-2-Clause */
/* Bumping the words and waking. See page_wake.h. */
#include "host/page_wake.h"

#include "host/futex.h"

static void bump_and_wake(_Atomic uint32_t *word)
{
	atomic_fetch_add_explicit(word, 1, memory_order_release);
	futex_wake(word, FUTEX_WAKE_ANY);
}

void page_wake_published(struct page *page, pn_mem_level before, pn_mem_level now)
{
	pn_mem_level low = before < now ? before : now, high = before < now ? now : before;

	if (low != high)
		bump_and_wake(&page->level_word);
	for (pn_mem_level level = low; level < high; level++)
		bump_and_wake(&page->threshold_word[level]);
	bump_and_wake(&page->publish_word);
}

void page_wake_all(struct page *page)
{
	bump_and_wake(&page->level_word);
	for (int i = 0; i < PAGE_THRESHOLDS; i++)
		bump_and_wake(&page->threshold_word[i]);
	bump_and_wake(&page->publish_word);
}
