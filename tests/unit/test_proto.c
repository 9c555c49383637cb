/* SPDX-License-Identifier: BSD-2-Clause */
/* Message checks: every length, type and version that is not one of ours is refused, and what a
 * later version appends is none of our business. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/proto.h"

static void test_requests(void **state)
{
	static const struct {
		uint16_t type;
		size_t bytes;
	} good[] = {
		{ PROTO_HELLO, sizeof(struct proto_header) },
		{ PROTO_POLL_NOW, sizeof(struct proto_header) },
		{ PROTO_HOOKS, sizeof(struct proto_header) },
		{ PROTO_SET_DIE, sizeof(struct proto_set_die) },
		{ PROTO_SET_DIE_ID, sizeof(struct proto_set_die_id) },
		{ PROTO_DIES, sizeof(struct proto_header) },
		{ PROTO_STATS, sizeof(struct proto_header) },
		{ PROTO_SUBSCRIBE, sizeof(struct proto_subscribe) },
		{ PROTO_VIEW_OF, sizeof(struct proto_view_of) },
		{ PROTO_RESERVE, sizeof(struct proto_reserve) },
		{ PROTO_COMMIT, sizeof(struct proto_reservation) },
		{ PROTO_RELEASE, sizeof(struct proto_reservation) },
		{ PROTO_RESERVATIONS, sizeof(struct proto_reservations) },
		{ PROTO_TRACE_DUMP, sizeof(struct proto_header) },
		{ PROTO_TRACE_RECORD, sizeof(struct proto_header) },
		{ PROTO_VERDICT, sizeof(struct proto_verdicts) },
	};
	char packet[2048] = { 0 };

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		for (size_t bytes = 0; bytes < sizeof(packet); bytes++) {
			struct proto_header h = proto_header_make(good[i].type, bytes, 1);

			memcpy(packet, &h, sizeof(h));
			assert_int_equal(proto_check_request(packet, bytes),
					 bytes >= good[i].bytes ? 0 : -EBADMSG);
		}
	}
}

/* The end of a long packet need not be there to be checked, but there is a limit to it. */
static void test_length_limit(void **state)
{
	struct proto_header h = proto_header_make(PROTO_HELLO, PROTO_REQUEST_MAX_BYTES, 1);

	assert_int_equal(proto_check_request(&h, PROTO_REQUEST_MAX_BYTES), 0);
	h.size_bytes++;
	assert_int_equal(proto_check_request(&h, PROTO_REQUEST_MAX_BYTES + 1), -EBADMSG);
}

static void test_refusals(void **state)
{
	struct proto_header good = proto_header_make(PROTO_HELLO, sizeof(good), 1), h;

	h = good;
	h.magic++;
	assert_int_equal(proto_check_request(&h, sizeof(h)), -EBADMSG);
	h = good;
	h.size_bytes++; /* lies about its size */
	assert_int_equal(proto_check_request(&h, sizeof(h)), -EBADMSG);
	h = good;
	h.version++;
	assert_int_equal(proto_check_request(&h, sizeof(h)), -EPROTONOSUPPORT);
	h = good;
	h.type = 99;
	assert_int_equal(proto_check_request(&h, sizeof(h)), -EOPNOTSUPP);
	h.type = PROTO_ACK; /* a reply is no request */
	assert_int_equal(proto_check_request(&h, sizeof(h)), -EOPNOTSUPP);
}

static void test_replies(void **state)
{
	struct proto_header ack = proto_header_make(PROTO_ACK, sizeof(ack), 7), h;
	struct proto_welcome welcome = { .header = proto_header_make(PROTO_WELCOME, 48, 7) };

	assert_int_equal(proto_check_reply(&ack, sizeof(ack), PROTO_ACK, sizeof(ack), 7), 0);
	assert_int_equal(proto_check_reply(&ack, sizeof(ack), PROTO_ACK, sizeof(ack), 8), -EBADMSG);
	assert_int_equal(proto_check_reply(&ack, sizeof(ack), PROTO_WELCOME, sizeof(ack), 7),
			 -EBADMSG);
	assert_int_equal(proto_check_reply(&ack, 8, PROTO_ACK, sizeof(ack), 7), -EBADMSG);
	h = ack;
	h.status = -EINVAL;
	assert_int_equal(proto_check_reply(&h, sizeof(h), PROTO_WELCOME, 48, 7), -EINVAL);
	h.version++; /* also that of an agent of another version */
	assert_int_equal(proto_check_reply(&h, sizeof(h), PROTO_WELCOME, 48, 7), -EINVAL);
	h.status = 0;
	assert_int_equal(proto_check_reply(&h, sizeof(h), PROTO_ACK, sizeof(h), 7), -EBADMSG);
	h = ack;
	h.status = 5; /* a status is 0 or negative */
	assert_int_equal(proto_check_reply(&h, sizeof(h), PROTO_ACK, sizeof(h), 7), -EBADMSG);
	/* A longer one is good, if it says so itself; a shorter one is not. */
	assert_int_equal(proto_check_reply(&welcome, 48, PROTO_WELCOME, 48, 7), 0);
	assert_int_equal(proto_check_reply(&welcome, 48, PROTO_WELCOME, 40, 7), 0);
	assert_int_equal(proto_check_reply(&welcome, 48, PROTO_WELCOME, 56, 7), -EBADMSG);
	assert_int_equal(proto_check_reply(&welcome, 56, PROTO_WELCOME, 48, 7), -EBADMSG);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_length_limit),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_replies),
	};

	return cmocka_run_group_tests_name("proto", tests, NULL, NULL);
}
