/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A view: what engines of one cgroup see. The publisher merges the host source, that group's own
 * files and its dies, publishes the result on one snapshot page, and then wakes who sleeps on the
 * page. The agent has one view for each group that engines attach from; the in-process fallback has
 * one.
 */
#ifndef PNMEM_HOST_VIEW_H
#define PNMEM_HOST_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "core/dies.h"
#include "core/level.h"
#include "core/merge.h"
#include "core/page.h"
#include "host/source.h"

struct view {
	struct page *page; /* the owner's, writable */
	pn_host_signals *group;
	pn_host_sample sample;
	struct die_table dies; /* whoever changes it calls view_dies_changed */
	int n_dies;
	struct merge_state carry;
	pn_mem_state state;  /* as last published */
	pn_mem_ext ext;      /* the owner sets mode and counters before a look */
	unsigned wake_words; /* page_wake.h: the words whose sleepers view_wake has to wake */
};

/* pid: whose cgroup (0 the caller's, -1 none). A folder that is -1 is not there. The page is
 * initialised. 0 or -errno. */
int view_open(struct view *view, struct page *page, int procfs_fd, int cgroupfs_fd, int pid);

/* The table of dies is another one: counts it, for every publish from here on. */
void view_dies_changed(struct view *view);

/* Reads the group's files: its pressure only if the source's was read in the same look. */
void view_read(struct view *view, const struct host_source *source, uint64_t now_ns);

/*
 * Merges what was read and publishes it; view_wake then wakes the sleepers. event_ns is the kernel
 * record or trigger that caused this look (0 none); first is true when this publisher takes over
 * from another one (seq goes on above it).
 */
void view_publish(struct view *view, const struct host_source *source,
		  const struct level_config *config, uint64_t now_ns, uint64_t event_ns,
		  bool first);

/* Wakes at most max sleepers of the publishes so far. Returns whether more may sleep. */
bool view_wake(struct view *view, int max);

/* Bytes to the nearest line below, host or group; UINT64_MAX if there is none. */
uint64_t view_slack_bytes(const struct view *view, const struct level_config *config);

/* The same of the group alone. */
uint64_t view_group_slack_bytes(const struct view *view, const struct level_config *config);

/*
 * Says on the page that it will not be published any more, and wakes at most VIEW_RETIRE_WAKES
 * sleepers. A client that leaves more than that asleep sees the end of its connection.
 */
#define VIEW_RETIRE_WAKES 4096
void view_retire(struct view *view);

void view_close(struct view *view);

#endif
