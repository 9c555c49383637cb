/* SPDX-License-Identifier: BSD-2-Clause */
/* /proc/vmstat's parser: which counters are summed, and what is refused. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_live),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
