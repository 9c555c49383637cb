/* SPDX-License-Identifier: BSD-2-Clause */
/* Merging and publishing one view. See view.h. */
#include "host/view.h"

#include <string.h>

#include "core/u64.h"
#include "host/clock.h"
#include "host/page_wake.h"
#include "host/signals.h"

int view_open(struct view *view, struct page *page, int procfs_fd, int cgroupfs_fd, int pid)
{
	memset(view, 0, sizeof(*view));
	view->page = page;
	page_init(page);
	return pn_host_signals_open(&view->group, procfs_fd < 0 ? SIGNALS_NO_DIR : procfs_fd,
				    cgroupfs_fd < 0 ? SIGNALS_NO_DIR : cgroupfs_fd, pid);
}

void view_dies_changed(struct view *view)
{
	view->n_dies = die_table_count(&view->dies);
	/* Only a hint beside the snapshot: an engine alone on a die reads whole snapshots as they
	 * are. */
	atomic_store_explicit(&view->page->shared_used, die_table_shared(&view->dies),
			      memory_order_relaxed);
	atomic_store_explicit(&view->page->declared, die_table_declared(&view->dies),
			      memory_order_relaxed);
}

void view_read(struct view *view, const struct host_source *source, uint64_t now_ns)
{
	unsigned what = PN_HOST_READ_CGROUP | (source->psi_was_read ? PN_HOST_READ_CGROUP_PSI : 0u);

	pn_host_signals_read(view->group, what, now_ns, &view->sample);
}

void view_publish(struct view *view, const struct host_source *source,
		  const struct level_config *config, uint64_t now_ns, uint64_t event_ns, bool first)
{
	struct merge_input in = {
		.now_ns = now_ns,
		.host = &source->sample,
		.cgroup = &view->sample,
		.live_some_pct = source->live_some_pct,
		.live_full_pct = source->live_full_pct,
		.dies = &view->dies,
		.n_dies = view->n_dies,
	};
	pn_mem_level level_before = view->state.level;

	merge_look(&view->carry, config, &in, &view->state, &view->ext);
	view->ext.event_ns = event_ns;
	view->ext.publishes++;
	view->ext.publish_ns = clock_now_ns();
	page_publish(view->page, &view->state, &view->ext,
		     first ? page_seq_floor(view->ext.publish_ns) : 0);
	view->wake_words |= page_bump(view->page, level_before, view->state.level);
}

bool view_wake(struct view *view, int max)
{
	view->wake_words = page_wake(view->page, view->wake_words, max);
	return view->wake_words;
}

uint64_t view_group_slack_bytes(const struct view *view, const struct level_config *config)
{
	if (!config->cgroup_level || !view->ext.cgroup_limit_bytes)
		return UINT64_MAX;
	return level_slack_to_next_line_bytes(
		view->ext.cgroup_headroom_bytes,
		level_cgroup_reserve_bytes(view->ext.cgroup_limit_bytes));
}

uint64_t view_slack_bytes(const struct view *view, const struct level_config *config)
{
	uint64_t slack = UINT64_MAX;

	if (view->ext.host_reserve_bytes)
		slack = level_slack_to_next_line_bytes(view->state.host_avail_bytes,
						       view->ext.host_reserve_bytes);
	return u64_min(slack, view_group_slack_bytes(view, config));
}

void view_retire(struct view *view)
{
	atomic_store_explicit(&view->page->retired, 1, memory_order_release);
	page_wake(view->page, page_bump_all(view->page), VIEW_RETIRE_WAKES);
}

void view_close(struct view *view)
{
	pn_host_signals_close(view->group);
	view->group = NULL;
}
