/* SPDX-License-Identifier: BSD-2-Clause */
/* Message checks. See proto.h. */
#include "core/proto.h"

#include <errno.h>
#include <string.h>

struct proto_header proto_header_make(uint16_t type, size_t size_bytes, uint32_t id)
{
	return (struct proto_header){
		.magic = PROTO_MAGIC,
		.version = PROTO_VERSION,
		.type = type,
		.size_bytes = (uint32_t)size_bytes,
		.id = id,
	};
}

static int read_header(const void *packet, size_t bytes, struct proto_header *ret)
{
	if (bytes < sizeof(*ret))
		return -EBADMSG;
	memcpy(ret, packet, sizeof(*ret));
	if (ret->magic != PROTO_MAGIC || ret->size_bytes != bytes)
		return -EBADMSG;
	return 0;
}

int proto_check_request(const void *packet, size_t packet_bytes)
{
	struct proto_header header;
	size_t min_bytes;
	int r;

	if (packet_bytes > PROTO_REQUEST_MAX_BYTES)
		return -EBADMSG;
	r = read_header(packet, packet_bytes, &header);
	if (r)
		return r;
	if (header.version != PROTO_VERSION)
		return -EPROTONOSUPPORT;
	/* As it first was: what is appended later is no part of these. */
	switch (header.type) {
	case PROTO_HELLO:
	case PROTO_POLL_NOW:
	case PROTO_HOOKS:
	case PROTO_DIES:
	case PROTO_STATS:
	case PROTO_TRACE_DUMP:
	case PROTO_TRACE_RECORD:
		min_bytes = sizeof(struct proto_header);
		break;
	case PROTO_SET_DIE:
		min_bytes = sizeof(struct proto_set_die);
		break;
	case PROTO_SET_DIE_ID:
		min_bytes = sizeof(struct proto_set_die_id);
		break;
	case PROTO_SUBSCRIBE:
		min_bytes = sizeof(struct proto_subscribe);
		break;
	case PROTO_VIEW_OF:
		min_bytes = sizeof(struct proto_view_of);
		break;
	case PROTO_RESERVE:
		min_bytes = sizeof(struct proto_reserve);
		break;
	case PROTO_COMMIT:
	case PROTO_RELEASE:
		min_bytes = sizeof(struct proto_reservation);
		break;
	case PROTO_RESERVATIONS:
		min_bytes = sizeof(struct proto_reservations);
		break;
	case PROTO_VERDICT:
		min_bytes = sizeof(struct proto_verdicts);
		break;
	default:
		return -EOPNOTSUPP;
	}
	return packet_bytes >= min_bytes ? 0 : -EBADMSG;
}

int proto_check_reply(const void *packet, size_t packet_bytes, uint16_t type, size_t min_bytes,
		      uint32_t id)
{
	struct proto_header header;
	int r;

	r = read_header(packet, packet_bytes, &header);
	if (r)
		return r;
	if (header.id != id)
		return -EBADMSG;
	/* A refusal is understood in any version: the header stays as it is. */
	if (header.status)
		return header.status < 0 ? header.status : -EBADMSG;
	if (header.version != PROTO_VERSION || header.type != type || packet_bytes < min_bytes)
		return -EBADMSG;
	return 0;
}
