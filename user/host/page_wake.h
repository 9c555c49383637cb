/* SPDX-License-Identifier: BSD-2-Clause */
/* Waking those who sleep on a page. Which word they sleep on is what they care about. */
#ifndef PNMEM_HOST_PAGE_WAKE_H
#define PNMEM_HOST_PAGE_WAKE_H

#include "core/page.h"

/*
 * After a publish: wakes who waits for one; if the level is another than before, who waits for
 * that; and who waits for one of the thresholds in between. A word that nobody sleeps on costs a
 * system call that returns at once; the thresholds none unless they are crossed.
 */
void page_wake_published(struct page *page, pn_mem_level before, pn_mem_level now);

/* Everyone: the page is to be left. */
void page_wake_all(struct page *page);

#endif
