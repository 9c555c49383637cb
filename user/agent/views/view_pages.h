/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pages that views are published on, and how many of them a client can cause. A page is a memfd
 * that is charged to the agent as long as any process has it open, so a client that keeps its
 * descriptor keeps the memory. Therefore a page that was handed out is kept when its view ends, and
 * the next view of the same cgroup and user gets it again; and new pages are made within a budget.
 */
#ifndef PNMEM_AGENT_VIEWS_VIEW_PAGES_H
#define PNMEM_AGENT_VIEWS_VIEW_PAGES_H

#include <stdbool.h>
#include <sys/types.h>

struct page;
struct view_pages;

/* A page of one view. The key is as agent_view.key. */
struct view_page {
	struct view_page *next;
	struct page *page; /* writable */
	int memfd;         /* sealed against everything but our own mapping */
	bool counted;      /* against the budgets */
	bool handed_out;   /* a client may have the descriptor */
	uid_t uid;
	char key[];
};

/* 0 or -ENOMEM. Closing frees the pages that no view has; NULL is allowed. */
int view_pages_open(struct view_pages **ret);
void view_pages_close(struct view_pages *pages);

/*
 * The page for a new view of this key and user. counted: a client without privileges asked, so a
 * new page takes from the budgets of the user and of the group that the key's group is in. Returns
 * 0, -EAGAIN (over a budget) or -errno.
 */
int view_pages_get(struct view_pages *pages, const char *key, uid_t uid, bool counted,
		   struct view_page **ret);

/*
 * The view has ended, and has retired its page. The page waits for the next view of its key and
 * user; one that was never handed out is freed.
 */
void view_pages_put(struct view_pages *pages, struct view_page *vp);

#endif
