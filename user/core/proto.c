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

int proto_check_request(const void *packet, size_t bytes)
{
	struct proto_header header;
	size_t want;
	int r;

	r = read_header(packet, bytes, &header);
	if (r)
		return r;
	if (header.version != PROTO_VERSION)
		return -EPROTONOSUPPORT;
	switch (header.type) {
	case PROTO_HELLO:
	case PROTO_POLL_NOW:
	case PROTO_HOOKS:
	case PROTO_DIES:
	case PROTO_TRACE_DUMP:
	case PROTO_TRACE_RECORD:
		want = sizeof(struct proto_header);
		break;
	case PROTO_SET_DIE:
		want = sizeof(struct proto_set_die);
		break;
	case PROTO_SET_DIE_ID:
		want = sizeof(struct proto_set_die_id);
		break;
	case PROTO_VERDICT:
		want = sizeof(struct proto_verdicts);
		break;
	default:
		return -EOPNOTSUPP;
	}
	return bytes == want ? 0 : -EBADMSG;
}

int proto_check_reply(const void *packet, size_t bytes, uint16_t type, size_t want_bytes,
		      uint32_t id)
{
	struct proto_header header;
	int r;

	r = read_header(packet, bytes, &header);
	if (r)
		return r;
	if (header.version != PROTO_VERSION || header.id != id)
		return -EBADMSG;
	if (header.status)
		return header.status < 0 ? header.status : -EBADMSG;
	if (header.type != type || bytes != want_bytes)
		return -EBADMSG;
	return 0;
}
