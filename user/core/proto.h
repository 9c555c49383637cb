/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages between the library and the agent, over AF_UNIX SOCK_SEQPACKET: one struct a packet,
 * each of a fixed size, host byte order (both ends are on one machine). A client sends one request
 * and waits for its reply; the agent never speaks first. Pure: layout and checks only.
 */
#ifndef PNMEM_CORE_PROTO_H
#define PNMEM_CORE_PROTO_H

#include <stddef.h>
#include <stdint.h>

#include "core/trace_format.h"
#include "pn_memwatch.h"

#define PROTO_MAGIC   0x4d4e5031u /* "1PNM" on the wire, little endian */
#define PROTO_VERSION 1

enum proto_type {
	PROTO_HELLO = 1,      /* -> PROTO_WELCOME with the page's memfd (SCM_RIGHTS) */
	PROTO_POLL_NOW = 2,   /* -> PROTO_ACK after a fresh look has been published */
	PROTO_SET_DIE = 3,    /* -> PROTO_ACK after the merge has been published */
	PROTO_HOOKS = 4,      /* -> PROTO_HOOKS_REPLY */
	PROTO_SET_DIE_ID = 5, /* -> PROTO_DIE_PLACE after the merge has been published */
	PROTO_DIES = 6,       /* -> PROTO_DIES_REPLY */

	PROTO_TRACE_DUMP = 14,   /* -> PROTO_TRACE_DUMPED when the file is written; uid 0 only */
	PROTO_VERDICT = 15,      /* no reply; only to an agent that says PROTO_TAKES_VERDICTS */
	PROTO_TRACE_RECORD = 16, /* -> PROTO_ACK, then a trace record a packet; uid 0 only */

	PROTO_ACK = 64,
	PROTO_WELCOME = 65,
	PROTO_HOOKS_REPLY = 66,
	PROTO_DIE_PLACE = 67,
	PROTO_DIES_REPLY = 68,
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

/* PROTO_HELLO, _POLL_NOW, _HOOKS, _DIES, _TRACE_DUMP, _ACK: the header alone. */

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
	int32_t place; /* index in the snapshot; -1: taken back */
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

/* A header for a packet of this type and size. */
struct proto_header proto_header_make(uint16_t type, size_t size_bytes, uint32_t id);

/*
 * Checks a request as received. Returns 0; -EBADMSG (not ours, or a size that its type does not
 * have), -EPROTONOSUPPORT (another version), -EOPNOTSUPP (unknown type). The header can be
 * answered unless it is -EBADMSG.
 */
int proto_check_request(const void *packet, size_t bytes);

/* Checks a reply to request id. Returns 0, -EBADMSG, or the status that it carries (< 0). */
int proto_check_reply(const void *packet, size_t bytes, uint16_t type, size_t want_bytes,
		      uint32_t id);

#endif
