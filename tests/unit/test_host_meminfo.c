/* SPDX-License-Identifier: BSD-2-Clause */
/* Parser of /proc/meminfo: captured files, each with one thing changed, and cut at every byte. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "host/meminfo.h"
#include "host_tree.h"

#define KIB 1024ull

static void test_files(void **state)
{
	static const struct {
		const char *name;
		int err;
		uint64_t avail_kib;
		uint64_t swap_free_kib;
	} cases[] = {
		{ "linux-6.18", 0, 24350804, 0 },  { "leading-zeros", 0, 3944876, 0 },
		{ "trailing", 0, 3944876, 0 },     { "no-swap", 0, 24350804, 0 },
		{ "above-total", 0, 24684084, 0 }, { "no-available", -EBADMSG, 0, 0 },
		{ "hex", -EBADMSG, 0, 0 },         { "negative", -EBADMSG, 0, 0 },
		{ "overflow", -EBADMSG, 0, 0 },    { "no-unit", -EBADMSG, 0, 0 },
		{ "zero-total", -EBADMSG, 0, 0 },  { "cut-in-number", -EBADMSG, 0, 0 },
		{ "cut-later", -EBADMSG, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct meminfo mi = { 1, 2, 3 };
		char name[64], text[8192];
		size_t len;
		int err;

		snprintf(name, sizeof(name), "meminfo/%s.txt", cases[i].name);
		len = data_read(name, text, sizeof(text));
		err = meminfo_parse(text, len, &mi);
		if (err != cases[i].err)
			fail_msg("%s: %d, not %d", name, err, cases[i].err);
		if (err) {
			assert_int_equal(mi.avail_bytes, 2);
			continue;
		}
		if (mi.avail_bytes != cases[i].avail_kib * KIB)
			fail_msg("%s: %ju bytes available", name, (uintmax_t)mi.avail_bytes);
		assert_int_equal(mi.total_bytes, 24684084 * KIB);
		assert_int_equal(mi.swap_free_bytes, cases[i].swap_free_kib * KIB);
	}
}

static void test_lines(void **state)
{
	static const struct {
		const char *text;
		int err;
		uint64_t swap_free_bytes;
	} cases[] = {
		{ "MemTotal: 8 kB\nMemAvailable: 4 kB\nSwapFree: 2 kB\n", 0, 2048 },
		{ "SwapFree:\t2 kB\nMemAvailable:\t4 kB\n\nMemTotal:\t8 kB\n", 0, 2048 },
		{ "MemTotal: 8 kB\nMemAvailable: 4 kB\nSwapFree: x kB\n", -EBADMSG, 0 },
		{ "MemTotal: 8 kB\nMemAvailable: +4 kB\n", -EBADMSG, 0 },
		{ "MemTotal: 8 kB\nMemAvailable: 4.5 kB\n", -EBADMSG, 0 },
		{ "MemTotal: 8 kB\nMemAvailable: kB\n", -EBADMSG, 0 },
		{ "MemTotal: 8 kB\nMemAvailable: 4 kBs\n", -EBADMSG, 0 },
		{ "MemTotal: 8 kB\nMemAvailable: 18446744073709551616 kB\n", -EBADMSG, 0 },
		{ "MemTotal: 8 kB\nXMemAvailable: 4 kB\n", -EBADMSG, 0 },
		{ "MemAvailable: 4 kB\n", -EBADMSG, 0 },
		{ "\n\n", -EBADMSG, 0 },
		{ "", -EBADMSG, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct meminfo mi;
		int err = meminfo_parse(cases[i].text, strlen(cases[i].text), &mi);

		if (err != cases[i].err)
			fail_msg("\"%s\": %d, not %d", cases[i].text, err, cases[i].err);
		if (err)
			continue;
		assert_int_equal(mi.total_bytes, 8192);
		assert_int_equal(mi.avail_bytes, 4096);
		assert_int_equal(mi.swap_free_bytes, cases[i].swap_free_bytes);
	}
}

/* A file that stops anywhere gives no number or the right one, never part of one. */
static void test_every_cut(void **state)
{
	char text[8192];
	size_t len = data_read("meminfo/linux-6.18.txt", text, sizeof(text));
	struct meminfo whole, cut;

	assert_int_equal(meminfo_parse(text, len, &whole), 0);
	for (size_t at = 0; at < len; at++) {
		if (meminfo_parse(text, at, &cut))
			continue;
		assert_int_equal(text[at - 1], '\n');
		assert_int_equal(cut.total_bytes, whole.total_bytes);
		assert_int_equal(cut.avail_bytes, whole.avail_bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_every_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
