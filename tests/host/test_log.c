/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent's log: lines that others can cause are bounded by kind, and the rest is counted. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/log.h"
#include "host/clock.h"

#define FLOOD 12000

/* Standard error goes to a file while fn runs. Returns what it wrote; the caller frees it. */
static char *lines_of(void (*fn)(void))
{
	char path[] = "/tmp/pnmem-log-XXXXXX", *text = calloc(1, 1u << 20);
	int file = mkstemp(path), saved = dup(STDERR_FILENO);

	assert_true(file >= 0 && saved >= 0 && text);
	unlink(path);
	dup2(file, STDERR_FILENO);
	fn();
	dup2(saved, STDERR_FILENO);
	close(saved);
	assert_true(pread(file, text, (1u << 20) - 1, 0) >= 0);
	close(file);
	return text;
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

static void flood(void)
{
	for (int i = 0; i < FLOOD; i++)
		log_limited(LOG_KIND_GROUPS, LOG_NOTICE, "group %d has gone", i);
	log_limited(LOG_KIND_REFUSALS, LOG_WARNING, "one of another kind");
	log_left_out(clock_now_ns());
	log_line(LOG_NOTICE, "a line of the agent's own");
}

static void later(void)
{
	log_left_out(clock_now_ns() + LOG_LIMIT_NS);
	log_left_out(clock_now_ns() + LOG_LIMIT_NS);
	log_limited(LOG_KIND_GROUPS, LOG_NOTICE, "group %d has gone", FLOOD);
}

static void test_limit(void **state)
{
	char *text = lines_of(flood), expected[64];

	assert_int_equal(count(text, "has gone"), LOG_LIMIT_LINES);
	assert_int_equal(count(text, "one of another kind"), 1);
	assert_int_equal(count(text, "a line of the agent's own"), 1);
	assert_int_equal(count(text, "left out"), 0);
	free(text);

	/* The number is told once, and then there is room again. */
	text = lines_of(later);
	snprintf(expected, sizeof(expected), "%d more lines about cgroups were left out",
		 FLOOD - LOG_LIMIT_LINES);
	assert_int_equal(count(text, expected), 1);
	assert_int_equal(count(text, "left out"), 1);
	assert_int_equal(count(text, "has gone"), 1);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_limit) };

	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
