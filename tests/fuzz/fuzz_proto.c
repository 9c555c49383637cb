/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets of the agent's socket from anywhere: no read past the end, only the errors that
 * proto.h names, and what is accepted is as long as its type. 6 bytes of input say what reply
 * is waited for.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

static size_t request_bytes(uint16_t type)
{
	switch (type) {
	case PROTO_SET_DIE:
		return sizeof(struct proto_set_die);
	case PROTO_SET_DIE_ID:
		return sizeof(struct proto_set_die_id);
	case PROTO_SUBSCRIBE:
		return sizeof(struct proto_subscribe);
	case PROTO_VIEW_OF:
		return sizeof(struct proto_view_of);
	case PROTO_RESERVE:
		return sizeof(struct proto_reserve);
	case PROTO_COMMIT:
	case PROTO_RELEASE:
		return sizeof(struct proto_reservation);
	case PROTO_RESERVATIONS:
		return sizeof(struct proto_reservations);
	default:
		return sizeof(struct proto_header);
	}
}

static void check_request(const void *packet, size_t bytes)
{
	struct proto_header header;
	int r = proto_check_request(packet, bytes);

	if (r && r != -EBADMSG && r != -EPROTONOSUPPORT && r != -EOPNOTSUPP)
		abort();
	if (r == -EBADMSG)
		return;
	/* It can be answered, so it has a header. */
	memcpy(&header, packet, sizeof(header));
	if (!r && bytes < request_bytes(header.type))
		abort();
}

static void check_reply(const void *packet, size_t bytes, uint16_t type, uint32_t id)
{
	size_t want_bytes =
		type == PROTO_WELCOME ? sizeof(struct proto_welcome) : sizeof(struct proto_header);
	struct proto_header header;
	int r = proto_check_reply(packet, bytes, type, want_bytes, id);

	if (r > 0)
		abort();
	if (r == -EBADMSG)
		return;
	memcpy(&header, packet, sizeof(header));
	if (header.id != id || header.status != r)
		abort();
	if (!r && (bytes < want_bytes || header.type != type))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
	uint16_t type;
	uint32_t id;
	void *packet;

	if (len_bytes < 6)
		return 0;
	memcpy(&type, data, 2);
	memcpy(&id, data + 2, 4);
	len_bytes -= 6;
	/* A block of its own, so that its end is the packet's. */
	packet = malloc(len_bytes ? len_bytes : 1);
	if (!packet)
		return 0;
	memcpy(packet, data + 6, len_bytes);
	check_request(packet, len_bytes);
	check_reply(packet, len_bytes, type, id);
	free(packet);
	return 0;
}
