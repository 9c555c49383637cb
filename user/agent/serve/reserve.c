/* SPDX-License-Identifier: BSD-2-Clause */
/* The ledger over the socket. See reserve.h. */
#include "agent/serve/reserve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/gpu/dies.h"
#include "agent/serve/peer_process.h"
#include "agent/views/views.h"
#include "core/ledger_view.h"
#include "core/pace.h"
#include "core/u64.h"
#include "host/clock.h"
#include "host/signals.h"

#define NS_PER_MS 1000000ull
/*
 * Engines come back to a new agent within a second and tell it what they hold. Until then the
 * ledger is not known to be whole, and nothing new is granted.
 */
#define GATHER_NS 1000000000ull

/*
 * What is reserved is in every page, so each change costs a look for all views: some 10 ms for a
 * thousand. A client can make changes as often as it likes. A user's own may take one in 20 of the
 * agent's time, and all together one in 4, after a burst that a small host never uses up.
 */
static const struct pace_limit user_limit = { .part = 20,
					      .max_ns = 1000000000,
					      .burst_ns = 2000000000 };
static const struct pace_limit all_limit = { .part = 4,
					     .max_ns = 250000000,
					     .burst_ns = 1000000000 };

/* Whose changes were published lately. */
struct changer {
	struct changer *next;
	uint32_t uid;
	const void *group; /* as ledger_entry.group, of uid 0; else NULL */
	struct pace pace;
	uint64_t resums; /* the last of them that it was counted for */
};

/* A client that holds something. */
struct holder {
	struct holder *next;
	struct agent *agent;
	const void *owner;
	const struct agent_view *view;
	uint64_t host_bytes; /* all that it holds of the host */
	bool committed;      /* some of it, since the last resum */
	int pidfd; /* < 0: this kernel has none, or not for a process outside our pid namespace */
	sd_event_source *io;
};

struct reserve {
	struct admission_config config;
	struct holder *holders;
	sd_event_source *timer; /* the next expiry; off when nothing is held */
	bool changed;           /* since every view was given its sums */
	uint64_t version;       /* of the sums, not 0 */
	bool resumming;         /* from reserve_resum_begin to _end */
	uint64_t resums;
	struct changer *changers;
	struct pace pace; /* of all of them */
	struct ledger ledger;
};

/* ---- holders -------------------------------------------------------------------------------- */

static struct holder **find_holder(struct reserve *reserve, const void *owner)
{
	struct holder **at = &reserve->holders;

	while (*at && (*at)->owner != owner)
		at = &(*at)->next;
	return at;
}

static void holder_free(struct holder **at)
{
	struct holder *holder = *at;

	*at = holder->next;
	sd_event_source_disable_unref(holder->io);
	if (holder->pidfd >= 0)
		close(holder->pidfd);
	free(holder);
}

/* What each holds by now. Descriptors are for those who hold something. */
static void count_holders(struct reserve *reserve)
{
	const struct ledger *ledger = &reserve->ledger;
	struct holder **at = &reserve->holders;

	while (*at) {
		struct holder *holder = *at;
		bool holds = false;

		holder->host_bytes = 0;
		for (uint32_t i = 0; i < ledger->count; i++) {
			const struct ledger_entry *entry = &ledger->entry[i];

			if (entry->owner != holder->owner)
				continue;
			holds = true;
			if (entry->where.die == LEDGER_HOST)
				holder->host_bytes = u64_add(holder->host_bytes, entry->bytes);
		}
		if (holds)
			at = &holder->next;
		else
			holder_free(at);
	}
}

/* The process has ended; its socket may live on in a child's hands. */
static int on_process_end(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct holder *holder = userdata;
	struct agent *agent = holder->agent;

	reserve_forget(agent, holder->owner);
	server_want_resum(agent);
	return 0;
}

/* One that holds nothing yet. peer->owner has none. */
static int holder_new(struct agent *agent, const struct reserve_peer *peer, int pid)
{
	struct holder *holder = calloc(1, sizeof(*holder));
	int r;

	if (!holder)
		return -ENOMEM;
	holder->agent = agent;
	holder->owner = peer->owner;
	holder->view = peer->view;
	holder->pidfd = peer_process_open(peer->sock, pid);
	r = holder->pidfd;
	if (r >= 0)
		r = sd_event_add_io(agent->event, &holder->io, holder->pidfd, EPOLLIN,
				    on_process_end, holder);
	else if (r != -ESRCH)
		r = 0; /* its socket and the time to live remain */
	if (holder->io)
		sd_event_source_set_priority(holder->io, SD_EVENT_PRIORITY_IDLE);
	holder->next = agent->reserve->holders;
	agent->reserve->holders = holder;
	/* -ESRCH: who connected has ended, and this is a child with its socket. */
	if (r < 0)
		holder_free(&agent->reserve->holders);
	return r < 0 ? r : 0;
}

/* ---- at each look --------------------------------------------------------------------------- */

static struct ledger_view ledger_view(const struct agent_view *av)
{
	return (struct ledger_view){ .name = av, .dies = &av->view.dies, .uid = av->uid };
}

/* The sums are others: every page is to say so. */
static void has_changed(struct reserve *reserve)
{
	reserve->changed = true;
	reserve->version++;
}

/* Is memory of this holder part of what the view's group may still have? */
static bool counts_within(const struct holder *holder, const struct agent_view *av)
{
	return signals_count_within(holder->view->view.group, av->view.group);
}

/* Every view that knows the memory shows it, so no engine misses it once the entry is gone. */
static bool visible_everywhere(void *arg, const struct ledger_entry *entry)
{
	const struct agent *agent = arg;
	const struct holder *holder = *find_holder(agent->reserve, entry->owner);
	uint64_t meminfo_ns = agent->source.sample.source_ns[PN_SRC_MEMINFO];
	struct ledger_view own = ledger_view(holder->view);

	/* Most often the one that does not show it: then the others need not be looked through. */
	if (!ledger_visible(entry, &own, meminfo_ns))
		return false;
	for (const struct agent_view *av = agent->views; av; av = av->next) {
		struct ledger_view view = ledger_view(av);

		if (!ledger_visible(entry, &view, meminfo_ns))
			return false;
		if (entry->where.die == LEDGER_HOST && av->read_ns < entry->done_ns &&
		    counts_within(holder, av))
			return false;
	}
	return true;
}

/* Of the host's reservations, those of processes within the limit that binds this view. */
static uint64_t group_bytes(const struct reserve *reserve, const struct agent_view *av)
{
	uint64_t sum = 0;

	for (const struct holder *h = reserve->holders; h; h = h->next)
		if (counts_within(h, av))
			sum = u64_add(sum, h->host_bytes);
	return sum;
}

bool reserve_look(struct agent *agent, bool all, uint64_t now_ns)
{
	struct reserve *reserve = agent->reserve;
	struct ledger *ledger;
	bool changed;

	if (!reserve || (!reserve->ledger.count && !reserve->changed))
		return false;
	ledger = &reserve->ledger;
	changed = ledger_expire(ledger, now_ns) > 0;
	changed |= ledger_settle(ledger, visible_everywhere, agent) > 0;
	/* The host's own view has no engines: its dies are those that the agent samples. */
	changed |= ledger_share(ledger, &agent->views->view.dies);
	if (changed)
		has_changed(reserve);
	changed = reserve->changed;
	if (changed)
		count_holders(reserve);
	if (changed && !all && !reserve->resumming) {
		/* Nobody waits for it: with the next look for all, or soon. */
		server_want_resum(agent);
		changed = false;
	} else {
		reserve->changed = false;
	}
	if (ledger->count)
		/* Up: not a moment before the nanosecond. */
		sd_event_source_set_time(reserve->timer, ledger_next_expiry_ns(ledger) / 1000 + 1);
	sd_event_source_set_enabled(reserve->timer,
				    ledger->count ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
	return changed;
}

void reserve_figures(const struct agent *agent, struct agent_view *av)
{
	const struct reserve *reserve = agent->reserve;
	struct ledger_view view = ledger_view(av);

	if (!reserve || av->reserved_version == reserve->version)
		return;
	ledger_figures(&reserve->ledger, &view, group_bytes(reserve, av), &av->view.ext);
	av->reserved_version = reserve->version;
}

/* ---- when every page may be published -------------------------------------------------------- */

static const void *changer_group(const struct reserve_peer *peer)
{
	return peer->uid ? NULL : peer->view;
}

/* Its entry, or where it would be: at the end. Frees those on the way that say nothing any more. */
static struct changer **find_changer(struct reserve *reserve, const struct reserve_peer *peer,
				     uint64_t now_ns)
{
	struct changer **at = &reserve->changers, *changer;

	while ((changer = *at)) {
		if (changer->uid == peer->uid && changer->group == changer_group(peer))
			return at;
		if (changer->pace.even_ns > now_ns) {
			at = &changer->next;
			continue;
		}
		*at = changer->next;
		free(changer);
	}
	return at;
}

uint64_t reserve_due_ns(const struct agent *agent, const struct reserve_peer *peer)
{
	struct reserve *reserve = agent->reserve;
	const struct changer *changer = NULL;
	uint64_t due_ns;

	if (!reserve)
		return 0;
	if (peer)
		changer = *find_changer(reserve, peer, clock_now_ns());
	due_ns = pace_due_ns(&reserve->pace, &all_limit);
	return changer ? u64_max(due_ns, pace_due_ns(&changer->pace, &user_limit)) : due_ns;
}

void reserve_resum_begin(struct agent *agent)
{
	struct reserve *reserve = agent->reserve;

	if (!reserve)
		return;
	reserve->resumming = true;
	/* Reads the host anew: what was allocated and what is no longer reserved show at once. */
	for (struct holder *holder = reserve->holders; holder; holder = holder->next) {
		for (struct agent_view *av = holder->committed ? agent->views : NULL; av;
		     av = av->next)
			if (counts_within(holder, av))
				av->asked = true;
		holder->committed = false;
	}
}

void reserve_resum_end(struct agent *agent, uint64_t took_ns)
{
	struct reserve *reserve = agent->reserve;

	if (!reserve)
		return;
	reserve->resumming = false;
	reserve->resums++;
	pace_took(&reserve->pace, &all_limit, took_ns, clock_now_ns());
}

void reserve_charge(struct agent *agent, const struct reserve_peer *peer, uint64_t took_ns)
{
	struct reserve *reserve = agent->reserve;
	uint64_t now_ns = clock_now_ns();
	struct changer **at;

	if (!reserve)
		return;
	at = find_changer(reserve, peer, now_ns);
	if (!*at) {
		*at = calloc(1, sizeof(**at));
		if (!*at)
			return; /* the bound for all of them holds */
		(*at)->uid = peer->uid;
		(*at)->group = changer_group(peer);
	}
	if ((*at)->resums == reserve->resums)
		return;
	(*at)->resums = reserve->resums;
	pace_took(&(*at)->pace, &user_limit, took_ns, now_ns);
}

static int on_expiry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct agent *agent = userdata;

	if (ledger_expire(&agent->reserve->ledger, clock_now_ns()))
		has_changed(agent->reserve);
	server_want_resum(agent);
	return 0;
}

/* ---- requests ------------------------------------------------------------------------------- */

/* Nothing is kept for it before the first reservation. */
static int open_ledger(struct agent *agent)
{
	struct reserve *reserve;
	int r;

	if (agent->reserve)
		return 0;
	reserve = calloc(1, sizeof(*reserve));
	if (!reserve)
		return -ENOMEM;
	r = sd_event_add_time(agent->event, &reserve->timer, CLOCK_MONOTONIC, 0, 1, on_expiry,
			      agent);
	if (r < 0) {
		free(reserve);
		return r;
	}
	sd_event_source_set_enabled(reserve->timer, SD_EVENT_OFF);
	reserve->version = 1;
	reserve->resumming = true; /* the first reservation is being made */
	reserve->config.host_reserve_bytes = agent->config.host_reserve_bytes;
	reserve->config.cgroup = agent->config.cgroup_level;
	agent->reserve = reserve;
	return 0;
}

static int make_entry(const struct reserve_peer *peer, const struct proto_reserve *ask,
		      struct ledger_entry *ret)
{
	struct ledger_view view = ledger_view(peer->view);
	uint64_t now_ns = clock_now_ns();
	struct ledger_entry entry = {
		.owner = peer->owner,
		.id = ask->id,
		.bytes = ask->bytes,
		.made_ns = now_ns,
		.expiry_ns = now_ns + ask->ttl_ms * NS_PER_MS,
		.uid = peer->uid,
		.group = peer->view,
		.pid = peer->pid,
	};
	struct die_id id = { 0 };
	int r;

	if (!ask->bytes || !ask->ttl_ms || ask->ttl_ms > PN_RESERVE_TTL_MAX_MS)
		return -EINVAL;
	memcpy(id.uuid, ask->uuid, sizeof(id.uuid));
	/* Whatever the client wrote: canonical, or nothing. */
	if (!memchr(ask->pci, 0, sizeof(ask->pci)) ||
	    (ask->pci[0] && die_pci_parse(ask->pci, id.pci)))
		return -EINVAL;
	r = ledger_where_find(&view, ask->die, &id, &entry.where);
	if (r)
		return r;
	*ret = entry;
	return 0;
}

/* Adds it, and watches the process of an owner that held nothing before. */
static int add_entry(struct agent *agent, const struct reserve_peer *peer,
		     const struct ledger_entry *entry, uint64_t room_bytes)
{
	struct reserve *reserve = agent->reserve;
	int r = ledger_add(&reserve->ledger, entry, room_bytes);
	struct holder *holder;

	if (r)
		return r;
	if (!*find_holder(reserve, peer->owner))
		r = holder_new(agent, peer, entry->pid);
	if (r) {
		ledger_remove_owner(&reserve->ledger, peer->owner);
		return r;
	}
	holder = *find_holder(reserve, peer->owner);
	if (entry->where.die == LEDGER_HOST)
		holder->host_bytes = u64_add(holder->host_bytes, entry->bytes);
	has_changed(reserve);
	return 0;
}

/*
 * Held before this agent was there: its memory may be half allocated, so it need not fit now. Only
 * while the ledger is gathered: later anyone could take what is not there. All that is held never
 * was more than there is in all, within the group's limit too.
 */
static uint64_t gathered_room_bytes(const struct reserve *reserve, const struct view *view,
				    const struct ledger_where *where)
{
	const pn_mem_ext *ext = &view->ext;
	uint64_t room_bytes;

	if (where->die != LEDGER_HOST)
		return u64_sub(view->dies.die[where->die].budget_bytes,
			       ledger_sum_bytes(&reserve->ledger, where));
	room_bytes = u64_sub(view->state.host_total_bytes, ext->host_reserved_bytes);
	if (ext->cgroup_limit_bytes)
		room_bytes = u64_min(room_bytes,
				     u64_sub(ext->cgroup_limit_bytes, ext->cgroup_reserved_bytes));
	return room_bytes;
}

int reserve_add(struct agent *agent, const struct reserve_peer *peer,
		const struct proto_reserve *ask, struct proto_reserve_reply *ret)
{
	const struct view *view = &peer->view->view;
	struct ledger_view dies = ledger_view(peer->view);
	uint64_t gather_ns = u64_sub(agent->serving_ns + GATHER_NS, clock_now_ns()), room_bytes;
	struct ledger_entry entry;
	int r = open_ledger(agent);

	if (r)
		return r;
	if (gather_ns && !(ask->flags & PROTO_RESERVE_AGAIN)) {
		ret->result = -EAGAIN;
		ret->wait_ms = (uint32_t)(gather_ns / NS_PER_MS) + 1;
		return 0;
	}
	r = make_entry(peer, ask, &entry);
	if (r)
		return r;
	reserve_figures(agent, peer->view); /* with what has been promised since that look */
	room_bytes = ledger_room_bytes(&agent->reserve->ledger, &entry.where,
				       &agent->reserve->config, &dies, &view->state, &view->ext);
	ret->place = entry.where.die;
	ret->fit_bytes = room_bytes;
	r = add_entry(agent, peer, &entry,
		      gather_ns ? gathered_room_bytes(agent->reserve, view, &entry.where)
				: room_bytes);
	if (r == -ENOSPC) {
		ret->result = r;
		r = 0;
	}
	return r;
}

/* One that has expired is gone, whether or not a look has come to it. */
static struct ledger_entry *find_entry(struct agent *agent, const void *owner, uint64_t id)
{
	if (!agent->reserve)
		return NULL;
	if (ledger_expire(&agent->reserve->ledger, clock_now_ns()))
		has_changed(agent->reserve);
	return ledger_find(&agent->reserve->ledger, owner, id);
}

int reserve_commit(struct agent *agent, const void *owner, const struct proto_reservation *ask)
{
	struct ledger_entry *entry = find_entry(agent, owner, ask->id);
	uint64_t now_ns = clock_now_ns();

	if (!entry)
		return -ESTALE;
	(*find_holder(agent->reserve, owner))->committed = true;
	ledger_commit(entry, ask->done_ns ? ask->done_ns : now_ns, now_ns);
	if (entry->where.die != LEDGER_HOST)
		dies_sample(agent);
	return 0;
}

int reserve_release(struct agent *agent, const void *owner, const struct proto_reservation *ask)
{
	struct ledger_entry *entry = find_entry(agent, owner, ask->id);

	if (!entry)
		return -ESTALE;
	ledger_remove(&agent->reserve->ledger, entry);
	has_changed(agent->reserve);
	return 0;
}

static void line_set(const struct agent_view *av, const struct ledger_entry *entry, uint64_t now_ns,
		     struct proto_reservation_line *line)
{
	struct ledger_view view = ledger_view(av);
	pn_reservation *r = &line->reservation;
	struct ledger_where where;

	*line = (struct proto_reservation_line){ .serial = entry->serial };
	r->id = entry->id;
	r->bytes = entry->bytes;
	r->left_ms = (uint32_t)(u64_sub(entry->expiry_ns, now_ns) / NS_PER_MS);
	r->pid = entry->pid;
	r->uid = entry->uid;
	r->state = entry->done_ns ? PN_RESERVATION_COMMITTED : PN_RESERVATION_HELD;
	r->is_host = entry->where.die == LEDGER_HOST;
	memcpy(r->uuid, entry->where.id.uuid, sizeof(r->uuid));
	memcpy(r->pci, entry->where.id.pci, sizeof(r->pci));
	r->die = -1;
	if (!r->is_host && !ledger_where_find(&view, entry->where.die, &entry->where.id, &where) &&
	    ledger_where_same(&where, &entry->where))
		r->die = where.die;
}

void reserve_list(const struct agent *agent, const struct reserve_peer *peer, bool all,
		  const struct proto_reservations *ask, struct proto_reservations_reply *ret)
{
	const struct ledger *ledger;
	uint64_t now_ns = clock_now_ns();

	if (!agent->reserve)
		return;
	ledger = &agent->reserve->ledger;
	for (uint32_t i = 0; i < ledger->count && ret->count < PROTO_RESERVATIONS_MAX; i++) {
		const struct ledger_entry *entry = &ledger->entry[i];

		if (entry->serial > ask->after && (all || peer->uid == entry->uid))
			line_set(peer->view, entry, now_ns, &ret->line[ret->count++]);
	}
}

/* ---- ends ----------------------------------------------------------------------------------- */

bool reserve_forget(struct agent *agent, const void *owner)
{
	struct holder **at;

	if (!agent->reserve)
		return false;
	at = find_holder(agent->reserve, owner);
	if (*at)
		holder_free(at);
	if (!ledger_remove_owner(&agent->reserve->ledger, owner))
		return false;
	has_changed(agent->reserve);
	return true;
}

void reserve_close(struct agent *agent)
{
	if (!agent->reserve)
		return;
	while (agent->reserve->holders)
		holder_free(&agent->reserve->holders);
	while (agent->reserve->changers) {
		struct changer *changer = agent->reserve->changers;

		agent->reserve->changers = changer->next;
		free(changer);
	}
	sd_event_source_disable_unref(agent->reserve->timer);
	free(agent->reserve);
	agent->reserve = NULL;
}
