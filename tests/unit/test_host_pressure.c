/* SPDX-License-Identifier: BSD-2-Clause */
/* Parser of PSI files. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "host/pressure.h"
#include "host_tree.h"

static void test_files(void **state)
{
	static const struct {
		const char *name;
		int err;
		struct pressure want;
	} cases[] = {
		{ "quiet", 0, { .has_full = true } },
		{ "stalled",
		  0,
		  { { 63.21, 17.05, 4.09, 20481234 }, { 12.3, 3.07, 0.61, 4812345 }, true } },
		{ "no-full", 0, { .some = { 1.5, 0.31, 0.07, 123456 } } },
		{ "more-values",
		  0,
		  { { 1.5, 0.31, 0.07, 123456 }, { 0.5, 0.11, 0.02, 3456 }, true } },
		{ "cut-full", -EBADMSG, { .has_full = false } },
		{ "broken-full", -EBADMSG, { .has_full = false } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct pressure *want = &cases[i].want;
		struct pressure p = { .some.total_us = 7 };
		char name[64], text[512];
		size_t len;
		int err;

		snprintf(name, sizeof(name), "pressure/%s.txt", cases[i].name);
		len = data_read(name, text, sizeof(text));
		err = pressure_parse(text, len, &p);
		if (err != cases[i].err)
			fail_msg("%s: %d, not %d", name, err, cases[i].err);
		if (err) {
			assert_int_equal(p.some.total_us, 7);
			continue;
		}
		/* Hundredths divided by 100 are exactly what the compiler makes of the literal. */
		if (p.some.avg10 != want->some.avg10 || p.some.avg60 != want->some.avg60 ||
		    p.some.avg300 != want->some.avg300 || p.full.avg10 != want->full.avg10 ||
		    p.full.avg60 != want->full.avg60 || p.full.avg300 != want->full.avg300)
			fail_msg("%s: other averages", name);
		assert_int_equal(p.some.total_us, want->some.total_us);
		assert_int_equal(p.full.total_us, want->full.total_us);
		assert_int_equal(p.has_full, want->has_full);
	}
}

static void test_averages(void **state)
{
	static const struct {
		const char *avg10;
		int err;
		double want;
	} cases[] = {
		{ "0.01", 0, 0.01 },
		{ "100.00", 0, 100.0 },
		{ "7", 0, 7.0 },
		{ "7.1", 0, 7.1 },
		{ "7.129", 0, 7.12 },
		{ "007.10", 0, 7.1 },
		{ "100.01", -EBADMSG, 0 },
		{ "101.00", -EBADMSG, 0 },
		{ "18446744073709551617.00", -EBADMSG, 0 },
		{ "-1.00", -EBADMSG, 0 },
		{ "+1.00", -EBADMSG, 0 },
		{ "1,00", -EBADMSG, 0 },
		{ "1e1", -EBADMSG, 0 },
		{ "0x1", -EBADMSG, 0 },
		{ "nan", -EBADMSG, 0 },
		{ ".5", -EBADMSG, 0 },
		{ "5.", -EBADMSG, 0 },
		{ "1.2.3", -EBADMSG, 0 },
		{ "", -EBADMSG, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pressure p;
		char text[128];
		int err;

		snprintf(text, sizeof(text), "some avg10=%s avg60=0.00 avg300=0.00 total=1\n",
			 cases[i].avg10);
		err = pressure_parse(text, strlen(text), &p);
		if (err != cases[i].err)
			fail_msg("avg10=%s: %d, not %d", cases[i].avg10, err, cases[i].err);
		if (!err && p.some.avg10 != cases[i].want)
			fail_msg("avg10=%s: %f", cases[i].avg10, p.some.avg10);
	}
}

static void test_garbled(void **state)
{
	static const char *const texts[] = {
		"",
		"\n",
		"some",
		"some\n",
		"some avg10=0.00 avg60=0.00 avg300=0.00\n",
		"some avg60=0.00 avg300=0.00 total=1\n",
		"some avg10=0.00 avg60=0.00 avg300=0.00 total=-1\n",
		"some avg10=0.00 avg60=0.00 avg300=0.00 total=18446744073709551616\n",
		"full avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
		"some avg10=0.00 avg60=0.00 avg300=0.00 total=1\nfull\n",
	};
	struct pressure p;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (pressure_parse(texts[i], strlen(texts[i]), &p) != -EBADMSG)
			fail_msg("accepted \"%s\"", texts[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_averages),
		cmocka_unit_test(test_garbled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
