/* SPDX-License-Identifier: BSD-2-Clause */
/* Which dies a pass leaves out after they failed, and when each is tried again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "core/die_retry.h"

#define A "0000:3b:00.0"
#define B "0000:3c:00.0"

static struct die_request ask(struct die_retry *retry, bool first_pass, uint64_t now_ns)
{
	struct die_request request = { .n_skip = 99 };

	die_retry_ask(retry, first_pass, now_ns, &request);
	return request;
}

static void test_none_failed(void **state)
{
	struct die_retry retry = { 0 };

	assert_int_equal(ask(&retry, true, 5).n_skip, 0);
	assert_true(die_retry_due_ns(&retry) == UINT64_MAX);
	die_retry_good(&retry, A);
	assert_int_equal(retry.count, 0);
}

/* Twice the time with each try, up to the longest; the other die has its own. */
static void test_backoff(void **state)
{
	struct die_retry retry = { 0 };
	struct die_request request;
	uint64_t now_ns = 1000, wait_ns = DIE_RETRY_MIN_NS;

	die_retry_failed(&retry, A, now_ns);
	for (int i = 0; i < 12; i++) {
		assert_true(die_retry_due_ns(&retry) == now_ns + wait_ns);
		request = ask(&retry, false, now_ns + wait_ns - 1);
		assert_true(die_request_skips(&request, A));
		assert_false(die_request_skips(&request, B));
		now_ns += wait_ns;
		assert_int_equal(ask(&retry, false, now_ns).n_skip, 0);
		die_retry_failed(&retry, A, now_ns + 1); /* and it did fail again */
		wait_ns = 2 * wait_ns < DIE_RETRY_MAX_NS ? 2 * wait_ns : DIE_RETRY_MAX_NS;
	}
	assert_int_equal(retry.count, 1);
	die_retry_failed(&retry, B, now_ns);
	assert_true(die_retry_due_ns(&retry) == now_ns + DIE_RETRY_MIN_NS);
	die_retry_good(&retry, A);
	request = ask(&retry, false, now_ns);
	assert_int_equal(request.n_skip, 1);
	assert_true(die_request_skips(&request, B));
	die_retry_good(&retry, B);
	die_retry_failed(&retry, A, now_ns);
	assert_true(die_retry_due_ns(&retry) == now_ns + DIE_RETRY_MIN_NS); /* anew */
}

/* The first pass of a process leaves out what failed, due or not, and that waits no longer. */
static void test_first_pass(void **state)
{
	struct die_retry retry = { 0 };
	uint64_t due_ns;

	die_retry_failed(&retry, A, 0);
	die_retry_failed(&retry, "", 0);
	due_ns = die_retry_due_ns(&retry);
	assert_int_equal(ask(&retry, true, 10 * due_ns).n_skip, 2);
	assert_true(die_retry_due_ns(&retry) == due_ns);
	assert_int_equal(ask(&retry, false, 10 * due_ns).n_skip, 0);
}

static void test_no_room(void **state)
{
	struct die_retry retry = { 0 };
	struct die_request request;
	char pci[16];

	for (int i = 0; i < DIE_MESSAGE_MAX_DIES + 5; i++) {
		snprintf(pci, sizeof(pci), "0000:%02x:00.0", i);
		die_retry_failed(&retry, pci, 0);
	}
	assert_int_equal(retry.count, DIE_MESSAGE_MAX_DIES);
	request = ask(&retry, true, 0);
	request.header = die_header_make(DIE_SAMPLE_NOW, 1);
	assert_int_equal(die_request_check(&request, sizeof(request), &request), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none_failed),
		cmocka_unit_test(test_backoff),
		cmocka_unit_test(test_first_pass),
		cmocka_unit_test(test_no_room),
	};

	return cmocka_run_group_tests_name("die_retry", tests, NULL, NULL);
}
