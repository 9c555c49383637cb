/* SPDX-License-Identifier: BSD-2-Clause */
/* /proc/vmstat: the wanted lines, those that look like them, and texts that are not whole. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "host/vmstat.h"

static void test_lines(void **state)
{
	static const char text[] =
		"nr_free_pages 1\npgfault 7\npgmajfault 8\npgscan_kswapd 3\n"
		"pgscan_direct 5\npgscan_direct_throttle 99\n"
		"pgscan_anon 10\npgscan_file 20\npgsteal_anon 30\n"
		"pgsteal_file 40\npgsteal_kswapd 2\npgsteal_direct 4\npg 1\npgfaultx\n";
	struct trace_vmstat v;

	assert_int_equal(vmstat_parse(text, strlen(text), &v), 0);
	assert_int_equal(v.fault_count, 7);
	assert_int_equal(v.major_fault_count, 8);
	assert_int_equal(v.scan_kswapd_pages, 3);
	assert_int_equal(v.scan_direct_pages, 5);
	assert_int_equal(v.steal_kswapd_pages, 2);
	assert_int_equal(v.steal_direct_pages, 4);
	assert_int_equal(v.scan_all_pages, 30);
	assert_int_equal(v.steal_all_pages, 70);
}

static void test_odd(void **state)
{
	static const struct {
		const char *text;
		int r;
	} cases[] = {
		{ "", 0 }, /* a kernel without any */
		{ "nr_free_pages 1\n", 0 },
		{ "pgfault 7", -EBADMSG },
		{ "pgfault x\n", -EBADMSG },
		{ "pgfault 99999999999999999999\n", -EBADMSG },
		{ "pgfault\n", 0 },
	};
	struct trace_vmstat v;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(vmstat_parse(cases[i].text, strlen(cases[i].text), &v),
				 cases[i].r);
}

/* This machine's own. */
static void test_here(void **state)
{
	char text[32768];
	struct trace_vmstat v;
	FILE *file = fopen("/proc/vmstat", "re");
	size_t n;

	assert_non_null(file);
	n = fread(text, 1, sizeof(text), file);
	fclose(file);
	assert_true(n < sizeof(text));
	assert_int_equal(vmstat_parse(text, n, &v), 0);
	assert_true(v.fault_count > 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_odd),
		cmocka_unit_test(test_here),
	};

	return cmocka_run_group_tests_name("vmstat", tests, NULL, NULL);
}
