/* SPDX-License-Identifier: BSD-2-Clause */
/* When to write what happened at a CRITICAL level. See episode.h. */
#include "core/episode.h"

#include "core/u64.h"

/* The earlier of what is due and this. */
static void make_due(struct episode *episode, uint64_t due_ns)
{
	if (!episode->due_ns || due_ns < episode->due_ns)
		episode->due_ns = due_ns;
}

static void begin(struct episode *episode, const struct episode_ring *ring, uint64_t now_ns)
{
	uint64_t lead_bytes = ring->bytes / 4; /* what led to it is the story's too */

	*episode = (struct episode){
		.critical = true,
		.begin_ns = now_ns,
		.due_ns = now_ns,
		.keep_pos = u64_max(ring->tail_pos, u64_sub(ring->head_pos, lead_bytes)),
		.end_ns = episode->end_ns,
	};
}

void episode_level(struct episode *episode, bool critical, const struct episode_ring *ring,
		   uint64_t now_ns)
{
	if (critical == episode->critical)
		return;
	if (critical && (!episode->begin_ns || now_ns - episode->begin_ns >= EPISODE_NEW_NS)) {
		begin(episode, ring, now_ns);
		return;
	}
	episode->critical = critical;
	make_due(episode, u64_max(now_ns, episode->written_ns + EPISODE_GAP_NS));
}

void episode_more(struct episode *episode, uint64_t now_ns)
{
	if (episode->critical)
		make_due(episode, u64_max(now_ns, episode->written_ns + EPISODE_GAP_NS));
}

void episode_end(struct episode *episode, uint64_t now_ns)
{
	if (!episode->begin_ns)
		return;
	episode->ended = true;
	if (!episode->end_ns || now_ns - episode->end_ns >= EPISODE_NEW_NS) {
		episode->end_ns = now_ns;
		make_due(episode, now_ns);
	} else {
		make_due(episode, u64_max(now_ns, episode->written_ns + EPISODE_GAP_NS));
	}
}

bool episode_is_live(const struct episode *episode, uint64_t now_ns)
{
	return episode->critical || episode->due_ns ||
	       (episode->begin_ns && now_ns - episode->begin_ns < EPISODE_NEW_NS) ||
	       (episode->end_ns && now_ns - episode->end_ns < EPISODE_NEW_NS);
}

void episode_kill(struct episode *episode, uint64_t now_ns)
{
	if (!episode->critical)
		return;
	episode->killed = true;
	make_due(episode, u64_max(now_ns, episode->written_ns + EPISODE_KILL_GAP_NS));
}

uint64_t episode_due_ns(const struct episode *episode)
{
	return episode->due_ns ? episode->due_ns : UINT64_MAX;
}

bool episode_write(struct episode *episode, const struct episode_ring *ring, uint64_t now_ns)
{
	bool first = !episode->files;
	bool is_new =
		first || (ring->tail_pos > episode->keep_pos && episode->files < EPISODE_FILES_MAX);

	if (is_new && !first)
		episode->keep_pos = u64_max(episode->written_pos, ring->tail_pos);
	episode->files += is_new;
	episode->killed = episode->ended = false;
	episode->written_ns = now_ns;
	episode->written_pos = ring->head_pos;
	/* What follows the start; later writes are of something that has happened. */
	episode->due_ns = first ? now_ns + EPISODE_GAP_NS : 0;
	return is_new;
}
