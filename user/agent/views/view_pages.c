/* SPDX-License-Identifier: BSD-2-Clause */
/* Keeping pages for their next view, and budgets for new ones. See view_pages.h. */
#include "agent/views/view_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/page.h"
#include "core/places.h"
#include "core/u64.h"
#include "host/clock.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/*
 * Pages that wait for a next view, 12 MiB at most. They have no time limit: a page that is freed
 * while a client holds it costs the same memory and cannot be used again. So the number is the
 * bound, and no timer wakes an idle agent.
 */
#define KEPT_MAX 1024
/* A descriptor each: no more than this part of those that the agent may have. */
#define KEPT_DESCRIPTORS_PART 16

/*
 * New pages at once, 48 MiB, of which one user may have as many as it leaves for others. Then one a
 * second in all, and one in ten seconds of a user.
 */
#define MADE_MAX     4096
#define MADE_NS      1000000000ull
#define MADE_EACH_NS 10000000000ull

/*
 * The users of one group, and the groups of one parent, are many: user 0 is root of every container
 * too. These may have so many times what they leave, so that one of them leaves some for the next.
 */
#define MANY_TIMES 3

/* A user, a group (uid -1), or a group as the parent of others (uid -1). */
struct maker {
	struct maker *next;
	uint64_t full_ns; /* when all pages that it made will have been forgotten */
	uid_t uid;
	bool is_parent;
	size_t bytes;
	char group[];
};

struct view_pages {
	struct view_page *kept; /* the newest first */
	unsigned n_kept, kept_max;
	struct maker *makers;
	uint64_t full_ns; /* as maker.full_ns, of all */
};

/* ---- the budget ------------------------------------------------------------------------------ */

/* Whose budgets a page counts against. */
struct makers {
	struct maker *user;
	struct maker *group;
	struct maker *parent;
};

/* Pages made that still count. */
static uint64_t n_made(uint64_t full_ns, uint64_t each_ns, uint64_t now_ns)
{
	return (u64_sub(full_ns, now_ns) + each_ns - 1) / each_ns;
}

static void count_one(uint64_t *full_ns, uint64_t each_ns, uint64_t now_ns)
{
	*full_ns = u64_max(*full_ns, now_ns) + each_ns;
}

/* Frees those that say nothing any more. */
static void forget_makers(struct view_pages *pages, uint64_t now_ns)
{
	struct maker **at = &pages->makers, *maker;

	while ((maker = *at)) {
		if (maker->full_ns > now_ns) {
			at = &maker->next;
			continue;
		}
		*at = maker->next;
		free(maker);
	}
}

/* NULL: there is no memory for a new one. */
static struct maker *maker_get(struct view_pages *pages, uid_t uid, bool is_parent,
			       const char *group, size_t bytes)
{
	struct maker *maker;

	for (maker = pages->makers; maker; maker = maker->next)
		if (maker->uid == uid && maker->is_parent == is_parent && maker->bytes == bytes &&
		    !memcmp(maker->group, group, bytes))
			return maker;
	maker = calloc(1, sizeof(*maker) + bytes);
	if (!maker)
		return NULL;
	maker->uid = uid;
	maker->is_parent = is_parent;
	maker->bytes = bytes;
	memcpy(maker->group, group, bytes);
	maker->next = pages->makers;
	pages->makers = maker;
	return maker;
}

static int makers_get(struct view_pages *pages, const char *key, uid_t uid, struct makers *ret)
{
	const char *v1 = strchr(key, '\n');
	size_t bytes;

	/* A path of the v1 memory controller is the one that names the group. */
	if (v1 && v1[1])
		key = v1 + 1;
	bytes = strcspn(key, "\n");
	ret->user = maker_get(pages, uid, false, "", 0);
	ret->group = maker_get(pages, (uid_t)-1, false, key, bytes);
	while (bytes > 1 && key[bytes - 1] != '/')
		bytes--;
	ret->parent = maker_get(pages, (uid_t)-1, true, key, bytes);
	return ret->user && ret->group && ret->parent ? 0 : -ENOMEM;
}

static bool is_over(const struct maker *maker, unsigned times, uint64_t n_all, uint64_t now_ns)
{
	return !places_has_one(n_made(maker->full_ns, MADE_EACH_NS, now_ns), n_all, MADE_MAX,
			       times);
}

static int budget_take_page(struct view_pages *pages, const char *key, uid_t uid)
{
	uint64_t now_ns = clock_now_ns(), n_all;
	struct makers makers;
	int r;

	forget_makers(pages, now_ns);
	r = makers_get(pages, key, uid, &makers);
	if (r)
		return r;
	n_all = n_made(pages->full_ns, MADE_NS, now_ns);
	if (is_over(makers.user, uid ? 1 : MANY_TIMES, n_all, now_ns) ||
	    is_over(makers.group, 1, n_all, now_ns) ||
	    is_over(makers.parent, MANY_TIMES, n_all, now_ns))
		return -EAGAIN;
	count_one(&makers.user->full_ns, MADE_EACH_NS, now_ns);
	count_one(&makers.group->full_ns, MADE_EACH_NS, now_ns);
	count_one(&makers.parent->full_ns, MADE_EACH_NS, now_ns);
	count_one(&pages->full_ns, MADE_NS, now_ns);
	return 0;
}

static void budget_return_page(struct view_pages *pages, const char *key, uid_t uid)
{
	struct makers makers;

	if (makers_get(pages, key, uid, &makers))
		return;
	makers.user->full_ns = u64_sub(makers.user->full_ns, MADE_EACH_NS);
	makers.group->full_ns = u64_sub(makers.group->full_ns, MADE_EACH_NS);
	makers.parent->full_ns = u64_sub(makers.parent->full_ns, MADE_EACH_NS);
	pages->full_ns = u64_sub(pages->full_ns, MADE_NS);
}

/* ---- pages ----------------------------------------------------------------------------------- */

static int page_create(struct view_page *vp)
{
	int r;

	vp->memfd = memfd_create("pnmem-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (vp->memfd < 0)
		return -errno;
	if (ftruncate(vp->memfd, PAGE_BYTES))
		goto fail;
	vp->page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, vp->memfd, 0);
	if (vp->page == MAP_FAILED)
		goto fail;
	/* After our own mapping: future ones, and write(2), are read-only from here on. */
	if (!fcntl(vp->memfd, F_ADD_SEALS,
		   F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL))
		return 0;
	r = -errno;
	munmap(vp->page, PAGE_BYTES);
	close(vp->memfd);
	return r;
fail:
	r = -errno;
	close(vp->memfd);
	return r;
}

static void page_free(struct view_page *vp)
{
	munmap(vp->page, PAGE_BYTES);
	close(vp->memfd);
	free(vp);
}

int view_pages_open(struct view_pages **ret)
{
	struct view_pages *pages = calloc(1, sizeof(*pages));
	struct rlimit descriptors = { 0 };

	if (!pages)
		return -ENOMEM;
	/* The agent raises its limit to the hard one. */
	getrlimit(RLIMIT_NOFILE, &descriptors);
	pages->kept_max = (unsigned)u64_min(KEPT_MAX, descriptors.rlim_max / KEPT_DESCRIPTORS_PART);
	*ret = pages;
	return 0;
}

void view_pages_close(struct view_pages *pages)
{
	if (!pages)
		return;
	while (pages->kept) {
		struct view_page *vp = pages->kept;

		pages->kept = vp->next;
		page_free(vp);
	}
	while (pages->makers) {
		struct maker *maker = pages->makers;

		pages->makers = maker->next;
		free(maker);
	}
	free(pages);
}

static struct view_page *take_kept(struct view_pages *pages, const char *key, uid_t uid)
{
	for (struct view_page **at = &pages->kept, *vp; (vp = *at); at = &vp->next) {
		if (vp->uid != uid || strcmp(vp->key, key))
			continue;
		*at = vp->next;
		pages->n_kept--;
		return vp;
	}
	return NULL;
}

int view_pages_get(struct view_pages *pages, const char *key, uid_t uid, bool counted,
		   struct view_page **ret)
{
	struct view_page *vp = take_kept(pages, key, uid);
	size_t key_bytes = strlen(key) + 1;
	int r = 0;

	if (vp) {
		*ret = vp;
		return 0;
	}
	vp = calloc(1, sizeof(*vp) + key_bytes);
	if (!vp)
		return -ENOMEM;
	memcpy(vp->key, key, key_bytes);
	vp->uid = uid;
	vp->counted = counted;
	if (counted)
		r = budget_take_page(pages, key, uid);
	if (r)
		goto fail;
	r = page_create(vp);
	if (r) {
		if (counted)
			budget_return_page(pages, key, uid);
		goto fail;
	}
	*ret = vp;
	return 0;
fail:
	free(vp);
	return r;
}

/* Frees the page that has waited longest, which is the last of the list. */
static void drop_oldest(struct view_pages *pages)
{
	struct view_page **at = &pages->kept;

	while ((*at)->next)
		at = &(*at)->next;
	page_free(*at);
	*at = NULL;
	pages->n_kept--;
}

void view_pages_put(struct view_pages *pages, struct view_page *vp)
{
	if (!vp->handed_out) {
		if (vp->counted)
			budget_return_page(pages, vp->key, vp->uid);
		page_free(vp);
		return;
	}
	vp->next = pages->kept;
	pages->kept = vp;
	if (++pages->n_kept > pages->kept_max)
		drop_oldest(pages);
}
