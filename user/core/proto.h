/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages between the library and the agent, over AF_UNIX SOCK_SEQPACKET: one struct a packet,
 * each of a fixed size, host byte order (both ends are on one machine). A client sends one request
 * and waits for its reply, if it has one; the agent speaks first only to who subscribed or records.
 * pnmem-protocol(7) tells of every message. Pure: layout and checks only.
 *
 * Within a version messages grow by appending. Who receives one takes what it knows: of a longer
 * message the beginning, of a shorter one (never shorter than it first was) the rest as 0.
 */
#ifndef PNMEM_CORE_PROTO_H
#define PNMEM_CORE_PROTO_H

#include <stddef.h>
#include <stdint.h>

#include "core/trace_format.h"
#include "pn_memwatch.h"
#include "pn_reserve.h"

#define PROTO_MAGIC   0x4d4e5031u /* "1PNM" on the wire, little endian */
#define PROTO_VERSION 1

enum proto_type {
	PROTO_HELLO = 1,      /* -> PROTO_WELCOME with the page's memfd (SCM_RIGHTS) */
	PROTO_POLL_NOW = 2,   /* -> PROTO_ACK after a fresh look has been published */
	PROTO_SET_DIE = 3,    /* -> PROTO_ACK after the merge has been published */
	PROTO_HOOKS = 4,      /* -> PROTO_HOOKS_REPLY */
	PROTO_SET_DIE_ID = 5, /* -> PROTO_DIE_PLACE after the merge has been published */
	PROTO_DIES = 6,       /* -> PROTO_DIES_REPLY */
	PROTO_SUBSCRIBE = 7,  /* -> PROTO_ACK, then PROTO_EVENT, now and at each change */
	PROTO_STATS = 8,      /* -> PROTO_STATS_REPLY */
	PROTO_RESERVE = 9,    /* -> PROTO_RESERVE_REPLY after the sum has been published */
	PROTO_COMMIT = 10,    /* -> PROTO_ACK after a look that sees the memory, or asked for one */
	PROTO_RELEASE = 11,   /* -> PROTO_ACK after the sum has been published */
	PROTO_RESERVATIONS = 12, /* -> PROTO_RESERVATIONS_REPLY */
	PROTO_VIEW_OF = 13,      /* -> PROTO_WELCOME with another process's page; privileged */

	PROTO_TRACE_DUMP = 14,   /* -> PROTO_TRACE_DUMPED when the file is written; privileged */
	PROTO_VERDICT = 15,      /* no reply; only to an agent that says PROTO_TAKES_VERDICTS */
	PROTO_TRACE_RECORD = 16, /* -> PROTO_ACK, then a trace record a packet; privileged */

	PROTO_ACK = 64,
	PROTO_WELCOME = 65,
	PROTO_HOOKS_REPLY = 66,
	PROTO_DIE_PLACE = 67,
	PROTO_DIES_REPLY = 68,
	PROTO_STATS_REPLY = 69,
	PROTO_EVENT = 70, /* no reply: its id is that of the subscription */
	PROTO_RESERVE_REPLY = 71,
	PROTO_RESERVATIONS_REPLY = 72,
	PROTO_TRACE_DUMPED = 73,
};

struct proto_header {
	uint32_t magic;
	uint16_t version;
	uint16_t type;       /* enum proto_type */
	uint32_t size_bytes; /* of the whole packet */
	uint32_t id;         /* chosen by the client, returned in the reply */
	int32_t status;      /* replies: 0 or -errno */
	/* Of PROTO_WELCOME: PROTO_TAKES_*; else 0. */
	uint32_t reserved;
};

/* What an agent can, beyond the first version. */
enum {
	PROTO_TAKES_VERDICTS = 1u << 0,
};

/* The header alone: PROTO_HELLO, PROTO_POLL_NOW, PROTO_HOOKS, PROTO_DIES, PROTO_STATS,
 * PROTO_TRACE_DUMP, PROTO_TRACE_RECORD, PROTO_ACK. */

/* No request is longer, in this version or one that appended to it. */
#define PROTO_REQUEST_MAX_BYTES 4096

struct proto_set_die {
	struct proto_header header;
	int32_t die_id;
	uint32_t reserved;
	uint64_t free_bytes;
	uint64_t budget_bytes;
	uint64_t used_bytes;
};

/* By UUID or PCI bus id. */
struct proto_set_die_id {
	struct proto_header header;
	uint8_t uuid[16]; /* all 0: unknown */
	char pci[16];     /* "0000:3b:00.0"; "": unknown */
	uint64_t free_bytes;
	uint64_t budget_bytes;
	uint64_t used_bytes;
};

struct proto_die_place {
	struct proto_header header;
	int32_t place; /* index in the snapshot; 0 also when a push was taken back */
	uint32_t reserved;
};

struct proto_welcome {
	struct proto_header header;
	uint32_t page_bytes;
	uint32_t agent_pid;
	char agent_version[16];
};

#define PROTO_HOOKS_MAX 32

struct proto_hooks_reply {
	struct proto_header header;
	uint32_t count; /* at most PROTO_HOOKS_MAX */
	uint32_t reserved;
	pn_hook_status hook[PROTO_HOOKS_MAX];
};

/* The sampler, the libcuda uprobes and 32 dies. */
#define PROTO_DIES_MAX 34

struct proto_dies_reply {
	struct proto_header header;
	uint32_t count; /* at most PROTO_DIES_MAX */
	uint32_t reserved;
	pn_hook_status line[PROTO_DIES_MAX];
};

/* What a client is told of. One subscription a client: a new one takes the place of the last. */
enum proto_subscribe_what {
	PROTO_TELL_NOTHING = 0,  /* the subscription ends */
	PROTO_TELL_CROSSING = 1, /* the level rises to `level` or above, or falls below it */
	PROTO_TELL_CHANGE = 2,   /* any change of level */
};

struct proto_subscribe {
	struct proto_header header;
	uint32_t what;  /* enum proto_subscribe_what */
	uint32_t level; /* of PROTO_TELL_CROSSING: PN_MEM_LEVEL_WATCH..CRITICAL */
};

/* The state of now. A client that has not yet read the one before is sent none: the next it gets
 * tells of the newest state alone, and by level_changes of how many changes it stands for. */
struct proto_event {
	struct proto_header header;
	uint32_t level;
	uint32_t reasons;
	uint64_t seq;
	uint64_t publish_ns; /* CLOCK_MONOTONIC */
	uint64_t host_avail_bytes;
	uint64_t cgroup_headroom_bytes; /* UINT64_MAX: no limit */
	uint32_t level_changes;         /* of this view since its first snapshot */
	uint32_t reserved;
};

struct proto_view_of {
	struct proto_header header;
	int32_t pid; /* in the agent's pid namespace */
	uint32_t reserved;
};

struct proto_stats_reply {
	struct proto_header header;
	pn_agent_stats stats;
};

/* proto_reserve.flags: the client held it before this agent knew of it. */
#define PROTO_RESERVE_AGAIN 1u

struct proto_reserve {
	struct proto_header header;
	uint64_t id; /* the client's own name for it, not 0 */
	uint64_t bytes;
	uint32_t ttl_ms;
	int32_t die; /* place in the snapshot; -1: host, or the die named below */
	uint32_t flags;
	uint32_t reserved;
	uint8_t uuid[16]; /* all 0: unknown */
	char pci[16];     /* "0000:3b:00.0"; "": unknown */
};

struct proto_reserve_reply {
	struct proto_header header;
	int32_t result;     /* 0 held; -ENOSPC; -EAGAIN: ask again in wait_ms */
	int32_t place;      /* of the die in the snapshot, -1: host */
	uint64_t fit_bytes; /* what would have fitted at that moment */
	uint32_t wait_ms;
	uint32_t reserved;
};

/* PROTO_COMMIT, PROTO_RELEASE. */
struct proto_reservation {
	struct proto_header header;
	uint64_t id;
	uint64_t done_ns; /* commit: CLOCK_MONOTONIC at which it was allocated; 0: now */
};

/* Those with a serial above after, lowest first: 0, then the last one of the reply before. */
struct proto_reservations {
	struct proto_header header;
	uint64_t after;
};

struct proto_reservation_line {
	uint64_t serial;
	pn_reservation reservation;
};

#define PROTO_RESERVATIONS_MAX 32

struct proto_reservations_reply {
	struct proto_header header;
	uint32_t count; /* at most PROTO_RESERVATIONS_MAX; less: there are no more */
	uint32_t reserved;
	struct proto_reservation_line line[PROTO_RESERVATIONS_MAX];
};

/* Where the flight recorder has been written to; the status says if it has. */
struct proto_trace_dumped {
	struct proto_header header;
	char path[256];
};

#define PROTO_VERDICTS_MAX 16

/* What admission answered in this engine; view and pid are for the agent to say. */
struct proto_verdicts {
	struct proto_header header;
	uint32_t count;   /* at most PROTO_VERDICTS_MAX */
	uint32_t dropped; /* for which the engine had no room, since the last packet */
	struct {
		uint64_t ts_ns; /* CLOCK_MONOTONIC */
		struct trace_verdict verdict;
	} at[PROTO_VERDICTS_MAX];
};

union proto_request {
	struct proto_header header;
	struct proto_set_die set_die;
	struct proto_set_die_id set_die_id;
	struct proto_subscribe subscribe;
	struct proto_view_of view_of;
	struct proto_reserve reserve;
	struct proto_reservation reservation;
	struct proto_reservations reservations;
	struct proto_verdicts verdicts;
};

_Static_assert(sizeof(struct proto_header) == 24, "wire layout");
_Static_assert(sizeof(struct proto_set_die) == 56, "wire layout");
_Static_assert(sizeof(struct proto_set_die_id) == 80, "wire layout");
_Static_assert(sizeof(struct proto_die_place) == 32, "wire layout");
_Static_assert(sizeof(struct proto_welcome) == 48, "wire layout");
_Static_assert(sizeof(struct proto_verdicts) == 1824, "wire layout");
_Static_assert(sizeof(struct proto_trace_dumped) == 280, "wire layout");
_Static_assert(sizeof(pn_hook_status) == 200, "wire layout");
_Static_assert(sizeof(struct proto_subscribe) == 32, "wire layout");
_Static_assert(sizeof(struct proto_event) == 72, "wire layout");
_Static_assert(sizeof(struct proto_view_of) == 32, "wire layout");
_Static_assert(sizeof(struct proto_stats_reply) == 24 + 112 + 256, "wire layout");
_Static_assert(sizeof(struct proto_reserve) == 88, "wire layout");
_Static_assert(sizeof(struct proto_reserve_reply) == 48, "wire layout");
_Static_assert(sizeof(struct proto_reservation) == 40, "wire layout");
_Static_assert(sizeof(struct proto_reservations) == 32, "wire layout");
_Static_assert(sizeof(struct proto_reservation_line) == 80, "wire layout");

/* A header for a packet of this type and size. */
struct proto_header proto_header_make(uint16_t type, size_t size_bytes, uint32_t id);

/*
 * Checks a request of packet_bytes, of which the header at least is at packet if it has one.
 * Returns 0: it is at least as long as its type first was. -EPROTONOSUPPORT (another version) and
 * -EOPNOTSUPP (unknown type): a sound message, which is refused and harms nothing. -EBADMSG: not
 * ours, of another length than it says, too short for its type or too long for any: there is no
 * telling what it means, nor what comes next.
 */
int proto_check_request(const void *packet, size_t packet_bytes);

/*
 * Checks a reply of packet_bytes to request id: 0 if it is of this type and has min_bytes or more.
 * Else -EBADMSG, or the status that it carries (< 0).
 */
int proto_check_reply(const void *packet, size_t packet_bytes, uint16_t type, size_t min_bytes,
		      uint32_t id);

#endif
