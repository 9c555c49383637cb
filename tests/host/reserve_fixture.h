/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of reservations begin with: one agent for all, and up to three engines. */
#ifndef PNMEM_TESTS_RESERVE_FIXTURE_H
#define PNMEM_TESTS_RESERVE_FIXTURE_H

#include "support/agent_proc.h"
#include "support/peer_proc.h"
#include "support/reserve_host.h"

static struct reserve_host host;
static struct peer_proc a, b, c;

/* One agent for most of them: each start costs the second in which it grants nothing. */
static int group_setup(void **state)
{
	int r = reserve_host_open(&host);

	if (!r)
		reserve_host_start(&host);
	return r;
}

static int group_teardown(void **state)
{
	reserve_host_close(&host);
	return 0;
}

static int setup(void **state)
{
	reserve_host_avail(&host, 15 * GIB);
	return 0;
}

static int teardown(void **state)
{
	pn_memwatch_stop();
	peer_proc_kill(&a);
	peer_proc_kill(&b);
	peer_proc_kill(&c);
	return 0;
}

static bool nothing_reserved(void *arg)
{
	struct peer_answer got = peer_look(arg);

	return got.source == PN_SOURCE_AGENT && !got.host_reserved_bytes;
}

static void start_peer(struct peer_proc *peer, uid_t as_uid)
{
	assert_int_equal(peer_proc_start(peer, as_uid), 0);
	assert_int_equal(peer_proc_do(peer, (struct peer_ask){ .op = PEER_START }).r, 0);
}

static void start_both(void)
{
	start_peer(&a, 0);
	start_peer(&b, 0);
	assert_true(test_until(nothing_reserved, &b, 10000)); /* the test's before has gone */
}

#endif
