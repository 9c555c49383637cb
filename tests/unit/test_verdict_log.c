/* SPDX-License-Identifier: BSD-2-Clause */
/* Verdicts on their way to the agent: whole, in order, counted where dropped, never waited for. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/proto.h"
#include "host/clock.h"
#include "lib/verdict_log.h"

#define IDLE_MS 1000

static struct link link_to_agent;
static int agent_sock;

static int setup(void **state)
{
	int socks[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks), 0);
	link_to_agent = (struct link){ .sock = socks[0], .features = PROTO_TAKES_VERDICTS };
	agent_sock = socks[1];
	return 0;
}

struct sum {
	uint64_t count;
	uint64_t dropped;
};

/* All packets that are there; fn is called for each verdict. */
static void receive(struct sum *sum, void (*fn)(void *arg, const struct trace_verdict *v),
		    void *arg)
{
	struct proto_verdicts packet;
	ssize_t n;

	while ((n = recv(agent_sock, &packet, sizeof(packet), MSG_DONTWAIT)) > 0) {
		assert_int_equal(proto_check_request(&packet, (size_t)n), 0);
		assert_in_range(packet.count, 0, PROTO_VERDICTS_MAX);
		sum->count += packet.count;
		sum->dropped += packet.dropped;
		for (uint32_t i = 0; i < packet.count; i++) {
			assert_true(packet.at[i].ts_ns <= clock_now_ns());
			assert_string_equal(packet.at[i].verdict.comm, "test_verdict_lo");
			fn(arg, &packet.at[i].verdict);
		}
	}
}

static void ignore(void *arg, const struct trace_verdict *v)
{
}

static int teardown(void **state)
{
	struct sum sum = { 0 };

	/* Nothing is left for the next test. */
	while (verdict_log_send(&link_to_agent, IDLE_MS) != IDLE_MS)
		receive(&sum, ignore, NULL);
	close(agent_sock);
	link_close(&link_to_agent);
	verdict_log_send(&link_to_agent, IDLE_MS);
	return 0;
}

static void put(int n_tokens)
{
	const pn_admit_result result = {
		.verdict = PN_VERDICT_CAP,
		.check = PN_CHECK_HOST,
		.fit_tokens = n_tokens / 2,
		.die_id = -1,
		.need_bytes = 3,
		.psi_full_pct = 1.5,
	};

	verdict_log(TRACE_ASK_REQUEST, TRACE_ASK_F_KV_Q4, n_tokens, 99, &result);
}

static void expect_next(void *arg, const struct trace_verdict *v)
{
	int *next = arg;

	assert_int_equal(v->n_tokens, *next);
	assert_int_equal(v->fit_tokens, *next / 2);
	assert_int_equal(v->ask, TRACE_ASK_REQUEST);
	assert_int_equal(v->flags, TRACE_ASK_F_KV_Q4);
	assert_int_equal(v->max_window, 99);
	assert_int_equal(v->verdict, PN_VERDICT_CAP);
	assert_int_equal(v->check, PN_CHECK_HOST);
	assert_int_equal(v->die_id, -1);
	assert_int_equal(v->need_bytes, 3);
	++*next;
}

static void test_in_order(void **state)
{
	struct sum sum = { 0 };
	int next = 0;

	assert_int_equal(verdict_log_send(&link_to_agent, IDLE_MS), IDLE_MS);
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 40; i++)
			put(round * 40 + i);
		assert_true(verdict_log_send(&link_to_agent, IDLE_MS) < IDLE_MS);
		receive(&sum, expect_next, &next);
	}
	assert_int_equal(next, 2000);
	assert_int_equal(sum.dropped, 0);
}

/* Off while there is nobody: nothing is kept, nothing is dropped. */
static void test_off(void **state)
{
	struct link closed = LINK_CLOSED, old = link_to_agent, broken = link_to_agent;
	struct sum sum = { 0 };

	old.features = 0;
	broken.broken = true;
	for (int i = 0; i < 3; i++) {
		struct link *links[] = { &closed, &old, &broken };

		verdict_log_send(&link_to_agent, IDLE_MS);
		assert_true(verdict_log_on);
		verdict_log_send(links[i], IDLE_MS);
		assert_false(verdict_log_on);
		put(1);
	}
	verdict_log_send(&link_to_agent, IDLE_MS);
	receive(&sum, ignore, NULL);
	assert_int_equal(sum.count + sum.dropped, 0);
}

static void test_full(void **state)
{
	struct sum sum = { 0 };
	int next = 0;

	verdict_log_send(&link_to_agent, IDLE_MS);
	for (int i = 0; i < 10000; i++)
		put(i);
	while (verdict_log_send(&link_to_agent, IDLE_MS) != IDLE_MS)
		receive(&sum, expect_next, &next); /* the oldest stay */
	assert_int_equal(sum.count + sum.dropped, 10000);
	assert_true(sum.count >= 256);
	assert_true(sum.dropped > 0);
}

/* An agent that does not read: a request still finds room, and nothing waits. */
static void test_agent_that_does_not_read(void **state)
{
	struct proto_header ask = proto_header_make(PROTO_POLL_NOW, sizeof(ask), 1);
	struct sum sum = { 0 };

	verdict_log_send(&link_to_agent, IDLE_MS);
	for (int i = 0; i < 100; i++) {
		for (int j = 0; j < 400; j++)
			put(j);
		verdict_log_send(&link_to_agent, IDLE_MS);
	}
	assert_int_equal(send(link_to_agent.sock, &ask, sizeof(ask), MSG_DONTWAIT), sizeof(ask));
	/* What was sent before the request, it, and then the rest. */
	for (;;) {
		struct proto_verdicts packet;

		assert_true(recv(agent_sock, &packet, sizeof(packet), MSG_DONTWAIT) > 0);
		if (packet.header.type == PROTO_POLL_NOW)
			break;
		sum.count += packet.count;
		sum.dropped += packet.dropped;
	}
	while (verdict_log_send(&link_to_agent, IDLE_MS) != IDLE_MS)
		receive(&sum, ignore, NULL);
	assert_int_equal(sum.count + sum.dropped, 40000);
}

/* ---- from many threads ----------------------------------------------------------------------- */

#define THREADS 4
#ifdef PN_TSAN
#define EACH 5000
#else
#define EACH 50000
#endif

static void *put_many(void *arg)
{
	for (int i = 0; i < EACH; i++)
		put((int)(intptr_t)arg * EACH + i);
	return NULL;
}

/* The verdicts of one thread are in order. */
static void expect_order(void *arg, const struct trace_verdict *v)
{
	int *last = arg, thread = v->n_tokens / EACH;

	assert_in_range(thread, 0, THREADS - 1);
	assert_int_equal(v->fit_tokens, v->n_tokens / 2);
	assert_true(v->n_tokens > last[thread]);
	last[thread] = v->n_tokens;
}

static void test_threads(void **state)
{
	int last[THREADS] = { -1, -1, -1, -1 };
	pthread_t threads[THREADS];
	struct sum sum = { 0 };

	verdict_log_send(&link_to_agent, IDLE_MS);
	for (intptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, put_many, (void *)i), 0);
	while (sum.count + sum.dropped < THREADS * EACH) {
		verdict_log_send(&link_to_agent, IDLE_MS);
		receive(&sum, expect_order, last);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(sum.count + sum.dropped, THREADS * EACH);
	assert_true(sum.count >= 512);
}

#define log_test(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		log_test(test_in_order), log_test(test_off),
		log_test(test_full),     log_test(test_agent_that_does_not_read),
		log_test(test_threads),
	};

	return cmocka_run_group_tests_name("verdict_log", tests, NULL, NULL);
}
