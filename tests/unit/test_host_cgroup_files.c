/* SPDX-License-Identifier: BSD-2-Clause */
/* Parsers of the cgroup's files: usage, limit, memory.stat, /proc/PID/cgroup. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "host/cgroup_files.h"
#include "host_tree.h"

static void test_values(void **state)
{
	static const struct {
		const char *text;
		int usage_err, limit_err;
		uint64_t usage_bytes, limit_bytes;
	} cases[] = {
		{ "0\n", 0, 0, 0, 0 },
		{ "4096\n", 0, 0, 4096, 4096 },
		{ "0004096\n", 0, 0, 4096, 4096 },
		{ "4096 8192\n9\n", 0, 0, 4096, 4096 },
		{ "max\n", -EBADMSG, 0, 0, CGROUP_NO_LIMIT },
		/* v1's "none" with 4 KiB and 64 KiB pages, and above */
		{ "9223372036854771712\n", 0, 0, 0x7ffffffffffff000, CGROUP_NO_LIMIT },
		{ "9223372036854710272\n", 0, 0, 0x7fffffffffff0000, CGROUP_NO_LIMIT },
		{ "9223372036854710271\n", 0, 0, 0x7ffffffffffeffff, 0x7ffffffffffeffff },
		{ "18446744073709551615\n", 0, 0, UINT64_MAX, CGROUP_NO_LIMIT },
		{ "18446744073709551616\n", -EBADMSG, -EBADMSG, 0, 0 },
		{ "4096", -EBADMSG, -EBADMSG, 0, 0 },
		{ "max", -EBADMSG, -EBADMSG, 0, 0 },
		{ "maximum\n", -EBADMSG, -EBADMSG, 0, 0 },
		{ "-1\n", -EBADMSG, -EBADMSG, 0, 0 },
		{ "0x1000\n", -EBADMSG, -EBADMSG, 0, 0 },
		{ "\n", -EBADMSG, -EBADMSG, 0, 0 },
		{ "", -EBADMSG, -EBADMSG, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *text = cases[i].text;
		uint64_t usage = 0, limit = 0;

		if (cgroup_files_usage(text, strlen(text), &usage) != cases[i].usage_err ||
		    usage != cases[i].usage_bytes)
			fail_msg("usage \"%s\": %ju", text, (uintmax_t)usage);
		if (cgroup_files_limit(text, strlen(text), &limit) != cases[i].limit_err ||
		    limit != cases[i].limit_bytes)
			fail_msg("limit \"%s\": %ju", text, (uintmax_t)limit);
	}
}

static void test_stat(void **state)
{
	uint64_t bytes = 7;
	char text[16384];
	size_t len = data_read("cgroup/memory.stat.v2.txt", text, sizeof(text));

	assert_int_equal(cgroup_files_stat(text, len, "inactive_file", &bytes), 0);
	assert_int_equal(bytes, 26843545600);
	assert_int_equal(cgroup_files_stat(text, len, "total_inactive_file", &bytes), -EBADMSG);
	assert_int_equal(bytes, 26843545600);

	len = data_read("cgroup/memory.stat.v1.txt", text, sizeof(text));
	assert_int_equal(cgroup_files_stat(text, len, "total_inactive_file", &bytes), 0);
	assert_int_equal(bytes, 122789888);
	len = (size_t)(strstr(text, "total_inactive_file") - text) +
	      strlen("total_inactive_file 12");
	assert_int_equal(cgroup_files_stat(text, len, "total_inactive_file", &bytes), -EBADMSG);

	assert_int_equal(cgroup_files_stat("inactive_file\n", 14, "inactive_file", &bytes),
			 -EBADMSG);
	assert_int_equal(cgroup_files_stat("inactive_file -1\n", 17, "inactive_file", &bytes),
			 -EBADMSG);
}

static void assert_path(struct scan path, const char *want)
{
	if (!want) {
		assert_null(path.at);
		return;
	}
	assert_non_null(path.at);
	assert_int_equal(path.end - path.at, strlen(want));
	assert_memory_equal(path.at, want, strlen(want));
}

static void test_paths(void **state)
{
	static const struct {
		const char *file;
		const char *v2, *v1_memory;
	} cases[] = {
		{ "proc-hybrid", "/", "/process_api/2abba29e" },
		{ "proc-v2", "/user.slice/user-1000.slice/run-r5a:b.scope", NULL },
		{ "proc-joined", NULL, "/a" },
		{ "proc-outside", "/../../other", NULL },
	};
	static const char *const garbled[] = {
		"", "\n", "0::/a", "0::\n", "0::a\n", "x::/a\n", "0:/a\n", "1:memory\n", "::/\n",
	};
	struct cgroup_paths paths;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char name[64], text[1024];
		size_t len;

		snprintf(name, sizeof(name), "cgroup/%s.txt", cases[i].file);
		len = data_read(name, text, sizeof(text));
		assert_int_equal(cgroup_files_paths(text, len, &paths), 0);
		assert_path(paths.v2, cases[i].v2);
		assert_path(paths.v1_memory, cases[i].v1_memory);
	}
	for (size_t i = 0; i < sizeof(garbled) / sizeof(garbled[0]); i++)
		if (cgroup_files_paths(garbled[i], strlen(garbled[i]), &paths) != -EBADMSG)
			fail_msg("accepted \"%s\"", garbled[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_stat),
		cmocka_unit_test(test_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
