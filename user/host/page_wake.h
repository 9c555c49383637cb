/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wakes the threads that sleep on a page. A sleeper chooses its word by what it waits for. The
 * publisher bumps the words first, so that nobody who comes later falls asleep on an old value, and
 * wakes those who sleep already afterwards, in as many steps as it likes.
 */
#ifndef PNMEM_HOST_PAGE_WAKE_H
#define PNMEM_HOST_PAGE_WAKE_H

#include "core/page.h"

/* A set of words: the level's, one for each threshold, that of every publish. */
#define PAGE_WAKE_LEVEL    1u
#define PAGE_WAKE_AT(line) (2u << (line)) /* line: 0 .. PAGE_THRESHOLDS - 1 */
#define PAGE_WAKE_PUBLISH  PAGE_WAKE_AT(PAGE_THRESHOLDS)
#define PAGE_WAKE_ALL      (2 * PAGE_WAKE_PUBLISH - 1)

/*
 * After a publish: bumps the word of publishes; if the level is another than before, its word and
 * those of the thresholds in between. Returns the words that it bumped.
 */
unsigned page_bump(struct page *page, pn_mem_level before, pn_mem_level now);

/* Bumps every word, since the page is to be left. Returns them. */
unsigned page_bump_all(struct page *page);

/*
 * Wakes at most max sleepers on these words: first those that wait for a level, last those that
 * wait for any publish. Returns the words on which more may sleep. A word on which nobody sleeps
 * costs a system call that returns at once.
 *
 * No sleeper can make the kernel walk past it without a wake: the kernel refuses an empty mask, and
 * the publisher's mask meets every other one.
 */
unsigned page_wake(struct page *page, unsigned words, int max);

#endif
