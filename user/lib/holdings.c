/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pn_reserve.h: what this process holds, kept here whether or not there is an agent, so that it is
 * held on when the agent goes and told to the next one.
 *
 * The process's own part of the sums that it reads (own_reserved.h) shrinks before the agent is
 * asked to take something off the page and grows after it has put it there: an engine never sees
 * less reserved by others than there is.
 */
#include "lib/holdings.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/ledger_view.h"
#include "core/proto.h"
#include "host/clock.h"
#include "lib/admit_settings.h"
#include "lib/own_reserved.h"
#include "lib/watch.h"
#include "pn_reserve.h"

#define NS_PER_MS 1000000ull
/* An agent that has just come grants after a second; one that comes meanwhile, after another. */
#define GRANT_TRIES 3

/* Under the watch's lock. */
static struct {
	struct ledger ledger;
	uint64_t last_id;
	uint32_t old_agent_pid; /* an agent of before there were reservations; 0: none */
} r;

/* What is asked for. */
struct wish {
	int die;
	struct die_id id;
	uint64_t bytes;
	uint32_t ttl_ms;
};

void holdings_reset(void)
{
	memset(&r.ledger, 0, sizeof(r.ledger));
	r.old_agent_pid = 0;
	own_reserved_set(&r.ledger, false);
}

static void expire(void)
{
	ledger_expire(&r.ledger, clock_now_ns());
}

static bool has_ledger(const struct link *link)
{
	return link && link->agent_pid != r.old_agent_pid;
}

/* ---- in this process alone ------------------------------------------------------------------ */

struct look {
	struct ledger_view view; /* the only one there is, so it needs no name */
	uint64_t meminfo_ns;
};

static bool visible_here(void *arg, const struct ledger_entry *entry)
{
	const struct look *look = arg;

	return ledger_visible(entry, &look->view, look->meminfo_ns);
}

void holdings_look(struct view *view, uint64_t meminfo_ns, uint64_t now_ns)
{
	const struct ledger_where host = { .die = LEDGER_HOST };
	struct look look = { { .dies = &view->dies }, meminfo_ns };

	ledger_expire(&r.ledger, now_ns);
	ledger_settle(&r.ledger, visible_here, &look);
	/* All of them are of this process, and so of its group. */
	ledger_figures(&r.ledger, &look.view, ledger_sum_bytes(&r.ledger, &host), &view->ext);
}

void holdings_fell_back(void)
{
	own_reserved_set(&r.ledger, false);
}

static int reserve_alone(const struct watch *watch, struct ledger_entry *entry,
			 const struct wish *wish, uint64_t *ret_fit_bytes)
{
	const struct view *view = watch->view;
	struct ledger_view dies = { .dies = &view->dies };
	int err;

	watch_own_look();
	err = ledger_where_find(&dies, wish->die, &wish->id, &entry->where);
	if (err)
		return err;
	*ret_fit_bytes =
		ledger_room_bytes(&r.ledger, &entry->where, &admit_settings_get()->admission, &dies,
				  &view->state, &view->ext);
	err = ledger_add(&r.ledger, entry, *ret_fit_bytes);
	if (err)
		return err;
	watch_own_look();
	own_reserved_set(&r.ledger, watch->link);
	return 1;
}

/* ---- with the agent ------------------------------------------------------------------------- */

/* Returns 0 with what it answered, -ENOTCONN, or its refusal of the request itself. */
static int ask_agent(struct link *link, const struct ledger_entry *entry, uint32_t flags,
		     uint64_t now_ns, int timeout_ms, struct proto_reserve_reply *ret)
{
	struct proto_reserve ask = {
		.header = proto_header_make(PROTO_RESERVE, sizeof(ask), 0),
		.id = entry->id,
		.bytes = entry->bytes,
		/* Up, so that it never ends earlier there than here. */
		.ttl_ms = (uint32_t)((entry->expiry_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS),
		.die = entry->where.die,
		.flags = flags,
	};
	int err;

	memcpy(ask.uuid, entry->where.id.uuid, sizeof(ask.uuid));
	memcpy(ask.pci, entry->where.id.pci, sizeof(ask.pci));
	err = link_request(link, &ask, sizeof(ask), PROTO_RESERVE_REPLY, ret, sizeof(*ret),
			   timeout_ms);
	if (err == -EOPNOTSUPP)
		r.old_agent_pid = link->agent_pid;
	return err;
}

/* The name of the die at a place of the agent's page: places may be others on the next agent's. */
static void name_die(int place, struct die_id *ret)
{
	pn_mem_state state;
	pn_mem_ext ext;

	if (place < 0 || place >= DIE_TABLE_MAX || pn_memwatch_read_ext(&state, &ext))
		return;
	if (place < PN_MEM_MAX_DIES) {
		memcpy(ret->uuid, ext.die_uuid[place], sizeof(ret->uuid));
		memcpy(ret->pci, ext.die_pci[place], sizeof(ret->pci));
	} else {
		memcpy(ret->uuid, ext.more_die[place - PN_MEM_MAX_DIES].uuid, sizeof(ret->uuid));
		memcpy(ret->pci, ext.more_die[place - PN_MEM_MAX_DIES].pci, sizeof(ret->pci));
	}
}

/* Returns 0, or -errno: -EAGAIN with *ret_wait_ms, -ENOTCONN. */
static int reserve_told(struct watch *watch, struct ledger_entry *entry, const struct wish *wish,
			uint64_t *ret_fit_bytes, uint32_t *ret_wait_ms)
{
	struct proto_reserve_reply reply;
	int err;

	entry->where = (struct ledger_where){ .die = wish->die, .id = wish->id };
	if (!die_id_is_known(&wish->id))
		name_die(wish->die, &entry->where.id);
	err = ask_agent(watch->link, entry, 0, entry->made_ns, REQUEST_TIMEOUT_MS, &reply);
	if (err)
		return err;
	*ret_fit_bytes = reply.fit_bytes;
	*ret_wait_ms = reply.wait_ms;
	if (reply.result)
		return reply.result < 0 ? reply.result : -EBADMSG;
	entry->where.die = reply.place;
	entry->told = true;
	err = ledger_add(&r.ledger, entry, UINT64_MAX); /* whether it fits is the agent's to say */
	own_reserved_set(&r.ledger, true);
	return err;
}

int holdings_announce(struct link *link, int timeout_ms, uint32_t *ret_n_alone)
{
	struct proto_reserve_reply reply;
	uint32_t n_alone = 0;
	int err = 0;

	expire();
	for (uint32_t i = 0; i < r.ledger.count && err != -ENOTCONN; i++) {
		struct ledger_entry *e = &r.ledger.entry[i];

		/* A committed one will be in what the agent reads. */
		if (e->done_ns)
			continue;
		e->told = false;
		err = has_ledger(link) ? ask_agent(link, e, PROTO_RESERVE_AGAIN, clock_now_ns(),
						   timeout_ms, &reply)
				       : -EOPNOTSUPP;
		if (!err && !reply.result) {
			e->told = true;
			e->where.die = reply.place;
		}
		n_alone += !e->told;
	}
	if (err == -ENOTCONN)
		return err;
	own_reserved_set(&r.ledger, true);
	*ret_n_alone = n_alone;
	return 0;
}

/* ---- reserve -------------------------------------------------------------------------------- */

/* With the lock. As pn_reserve, and -EAGAIN with *ret_wait_ms. */
static int reserve_now(struct watch *watch, const struct wish *wish, uint64_t *ret_id,
		       uint64_t *ret_fit_bytes, uint32_t *ret_wait_ms)
{
	uint64_t now_ns = clock_now_ns();
	struct ledger_entry entry = {
		.id = r.last_id + 1,
		.bytes = wish->bytes,
		.made_ns = now_ns,
		.expiry_ns = now_ns + wish->ttl_ms * NS_PER_MS,
	};
	int err = -ENOTCONN;

	expire();
	if (r.ledger.count >= LEDGER_OWNER_MAX)
		return -EDQUOT;
	if (has_ledger(watch->link)) {
		err = reserve_told(watch, &entry, wish, ret_fit_bytes, ret_wait_ms);
		if (err == -ENOTCONN)
			watch_agent_lost(watch);
		else if (err != -EOPNOTSUPP)
			goto done;
	}
	err = reserve_alone(watch, &entry, wish, ret_fit_bytes);
done:
	if (err >= 0)
		*ret_id = ++r.last_id;
	return err;
}

static void sleep_ms(uint32_t ms)
{
	struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

static int reserve(const struct wish *wish, uint64_t *ret_id, uint64_t *ret_fit_bytes)
{
	uint64_t fit_bytes = 0;
	uint32_t wait_ms = 0;
	struct watch watch;
	int err = -EAGAIN;

	if (!wish->bytes || !wish->ttl_ms || wish->ttl_ms > PN_RESERVE_TTL_MAX_MS)
		return -EINVAL;
	for (int i = 0; i < GRANT_TRIES && err == -EAGAIN; i++) {
		sleep_ms(wait_ms); /* without the lock: other threads go on */
		err = watch_lock(&watch);
		if (err)
			return err;
		err = reserve_now(&watch, wish, ret_id, &fit_bytes, &wait_ms);
		watch_unlock();
	}
	if (ret_fit_bytes && (err >= 0 || err == -ENOSPC))
		*ret_fit_bytes = fit_bytes;
	return err;
}

int pn_reserve(int die, uint64_t bytes, uint32_t ttl_ms, uint64_t *ret_id, uint64_t *ret_fit_bytes)
{
	const struct wish wish = { .die = die, .bytes = bytes, .ttl_ms = ttl_ms };

	if (die < PN_RESERVE_HOST || die >= DIE_TABLE_MAX)
		return -EINVAL;
	return reserve(&wish, ret_id, ret_fit_bytes);
}

int pn_reserve_uuid(const uint8_t uuid[16], uint64_t bytes, uint32_t ttl_ms, uint64_t *ret_id,
		    uint64_t *ret_fit_bytes)
{
	struct wish wish = { .die = PN_RESERVE_HOST, .bytes = bytes, .ttl_ms = ttl_ms };

	memcpy(wish.id.uuid, uuid, sizeof(wish.id.uuid));
	if (!die_id_is_known(&wish.id))
		return -EINVAL;
	return reserve(&wish, ret_id, ret_fit_bytes);
}

/* ---- commit and release --------------------------------------------------------------------- */

/* When its memory was allocated, as far as the engine has said: by its newest push of the die. */
static uint64_t done_ns_of(const struct die_pushes *pushes, const struct ledger_entry *entry)
{
	for (int i = 0; entry->where.die != LEDGER_HOST && i < pushes->count; i++) {
		const struct die_push *push = &pushes->push[i];
		bool same = push->index < 0 ? die_id_is_same(&push->id, &entry->where.id)
					    : push->index == entry->where.die;

		if (same && push->push_ns >= entry->made_ns)
			return push->push_ns;
	}
	return clock_now_ns();
}

/* With the lock. The entry is no longer in the ledger. */
static void commit_alone(struct ledger_entry *entry, uint64_t done_ns)
{
	uint64_t id = entry->id;

	entry->told = false;
	if (!ledger_add(&r.ledger, entry, UINT64_MAX))
		ledger_commit(ledger_find(&r.ledger, NULL, id), done_ns, clock_now_ns());
	watch_own_look();
}

/* With the lock. type: PROTO_COMMIT or PROTO_RELEASE. */
static int end(struct watch *watch, uint64_t id, uint16_t type)
{
	struct proto_reservation ask = {
		.header = proto_header_make(type, sizeof(ask), 0),
		.id = id,
	};
	struct ledger_entry *found, entry;
	struct proto_header ack;
	int err;

	expire();
	found = ledger_find(&r.ledger, NULL, id);
	if (!found)
		return -ESTALE;
	entry = *found;
	ask.done_ns = done_ns_of(watch->pushes, &entry);
	ledger_remove(&r.ledger, found);
	own_reserved_set(&r.ledger, watch->link);
	if (watch->link && entry.told) {
		err = link_request(watch->link, &ask, sizeof(ask), PROTO_ACK, &ack, sizeof(ack),
				   REQUEST_TIMEOUT_MS);
		if (err != -ENOTCONN)
			return err;
		watch_agent_lost(watch);
	}
	if (type == PROTO_COMMIT)
		commit_alone(&entry, ask.done_ns);
	else
		watch_own_look();
	return 1;
}

static int end_locked(uint64_t id, uint16_t type)
{
	struct watch watch;
	int err = watch_lock(&watch);

	if (err)
		return err;
	err = end(&watch, id, type);
	watch_unlock();
	return err;
}

int pn_commit(uint64_t id)
{
	return end_locked(id, PROTO_COMMIT);
}

int pn_release(uint64_t id)
{
	return end_locked(id, PROTO_RELEASE);
}

/* ---- list ----------------------------------------------------------------------------------- */

static pn_reservation own_line(const struct ledger_entry *e, uint64_t now_ns)
{
	pn_reservation line = {
		.id = e->id,
		.bytes = e->bytes,
		.left_ms = (uint32_t)((e->expiry_ns - now_ns) / NS_PER_MS),
		.die = e->where.die,
		.pid = getpid(),
		.uid = geteuid(),
		.state = e->done_ns ? PN_RESERVATION_COMMITTED : PN_RESERVATION_HELD,
		.is_host = e->where.die == LEDGER_HOST,
	};

	memcpy(line.uuid, e->where.id.uuid, sizeof(line.uuid));
	memcpy(line.pci, e->where.id.pci, sizeof(line.pci));
	return line;
}

static int list_own(pn_reservation *ret, size_t max)
{
	uint64_t now_ns = clock_now_ns();
	int n = 0;

	ledger_expire(&r.ledger, now_ns);
	for (uint32_t i = 0; i < r.ledger.count && (size_t)n < max; i++)
		ret[n++] = own_line(&r.ledger.entry[i], now_ns);
	return n;
}

static int list_all(struct link *link, pn_reservation *ret, size_t max)
{
	struct proto_reservations ask = {
		.header = proto_header_make(PROTO_RESERVATIONS, sizeof(ask), 0),
	};
	struct proto_reservations_reply reply;
	int n = 0, err;

	do {
		err = link_request(link, &ask, sizeof(ask), PROTO_RESERVATIONS_REPLY, &reply,
				   sizeof(reply), REQUEST_TIMEOUT_MS);
		if (err)
			return err;
		if (reply.count > PROTO_RESERVATIONS_MAX)
			return -EBADMSG;
		for (uint32_t i = 0; i < reply.count && (size_t)n < max; i++) {
			ret[n] = reply.line[i].reservation;
			ret[n++].pci[sizeof(ret->pci) - 1] = 0;
			ask.after = reply.line[i].serial;
		}
	} while (reply.count == PROTO_RESERVATIONS_MAX && (size_t)n < max && n < LEDGER_MAX);
	return n;
}

int pn_reservations(pn_reservation *ret, size_t max)
{
	struct watch watch;
	int n = watch_lock(&watch);

	if (n)
		return n;
	n = -ENOTCONN;
	if (has_ledger(watch.link)) {
		n = list_all(watch.link, ret, max);
		if (n == -EOPNOTSUPP)
			r.old_agent_pid = watch.link->agent_pid;
		else if (n == -ENOTCONN)
			watch_agent_lost(&watch);
	}
	if (n == -ENOTCONN || n == -EOPNOTSUPP)
		n = list_own(ret, max);
	watch_unlock();
	return n;
}
