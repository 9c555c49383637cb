/* SPDX-License-Identifier: BSD-2-Clause */
/* /proc/vmstat's parsers: the wanted lines, those that look like them, and what is refused. */
#include <errno.h>
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

#include "host/host_file.h"
#include "host/vmstat.h"

static void test_texts(void **state)
{
	static const struct {
		const char *text;
		int err;
		uint64_t pages;
	} cases[] = {
		{ "nr_free_pages 7\npgalloc_dma 1\npgalloc_dma32 2\npgalloc_normal 40\n"
		  "pgalloc_movable 0\nallocstall_normal 9\npgactivate 300\npgdeactivate 9\n",
		  0, 343 },
		{ "pgalloc_normal 00040\n", 0, 40 },
		{ "pgactivate 5 6\n", 0, 5 },
		{ "pgalloc_normal 18446744073709551615\npgactivate 2\n", 0, 1 },
		{ "", -EBADMSG, 0 },
		{ "nr_free_pages 7\n", -EBADMSG, 0 },
		{ "pgalloc_normal 40\npgactivate 3", -EBADMSG, 0 },
		{ "pgalloc_normal\n", -EBADMSG, 0 },
		{ "pgalloc_normal x\n", -EBADMSG, 0 },
		{ "pgactivates 3\n", -EBADMSG, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t pages = 0;

		assert_int_equal(vmstat_churn(cases[i].text, strlen(cases[i].text), &pages),
				 cases[i].err);
		assert_int_equal(pages, cases[i].pages);
	}
}

/* What this process takes shows: 8 MiB are at least 2048 pages of the smallest kind. */
static void test_live(void **state)
{
	enum { BYTES = 8 << 20 };
	int dir_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct host_file file = HOST_FILE_INIT;
	char text[VMSTAT_TEXT_BYTES];
	uint64_t before, after;
	char *memory;
	size_t len;

	assert_int_equal(host_file_read(&file, dir_fd, "vmstat", 1, text, sizeof(text), &len), 0);
	assert_int_equal(vmstat_churn(text, len, &before), 0);
	memory = malloc(BYTES);
	assert_non_null(memory);
	memset(memory, 1, BYTES);
	assert_int_equal(host_file_read(&file, dir_fd, "vmstat", 2, text, sizeof(text), &len), 0);
	assert_int_equal(vmstat_churn(text, len, &after), 0);
	free(memory);
	host_file_close(&file);
	close(dir_fd);
	assert_true((after - before) * 65536 >= BYTES);
}

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
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts), cmocka_unit_test(test_live),
		cmocka_unit_test(test_lines), cmocka_unit_test(test_odd),
		cmocka_unit_test(test_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
