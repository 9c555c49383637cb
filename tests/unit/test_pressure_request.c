/* SPDX-License-Identifier: BSD-2-Clause */
/* What a program may write to the pressure socket, and what is made of all else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/pressure_request.h"

#define TEXT(text) text, sizeof(text) - 1

static void test_requests(void **state)
{
	static const struct {
		const char *text;
		size_t bytes;
		pn_mem_level level;
	} cases[] = {
		{ TEXT(""), PRESSURE_LEVEL_DEFAULT },
		{ TEXT("WATCH"), PN_MEM_LEVEL_WATCH },
		{ TEXT("watch\n"), PN_MEM_LEVEL_WATCH },
		{ TEXT("Tight"), PN_MEM_LEVEL_TIGHT },
		{ TEXT("CRITICAL"), PN_MEM_LEVEL_CRITICAL },
		{ TEXT("CRITICAL\0"), PN_MEM_LEVEL_CRITICAL },
		{ TEXT("critical and more"), PN_MEM_LEVEL_CRITICAL },
		{ TEXT("CRITICA"), PRESSURE_LEVEL_DEFAULT },
		{ TEXT("CRITICALLY"), PRESSURE_LEVEL_DEFAULT },
		{ TEXT(" CRITICAL"), PRESSURE_LEVEL_DEFAULT },
		{ TEXT("WATCHED"), PRESSURE_LEVEL_DEFAULT },
		{ TEXT("OK"), PRESSURE_LEVEL_DEFAULT },
		{ TEXT("some 200000 2000000\0"), PRESSURE_LEVEL_DEFAULT },
		{ TEXT("full 100000 1000000"), PRESSURE_LEVEL_DEFAULT },
		{ TEXT("\0WATCH"), PRESSURE_LEVEL_DEFAULT },
		{ TEXT("\xff\xfe\xfd"), PRESSURE_LEVEL_DEFAULT },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		/* A copy of just its bytes: reading past them is seen by the sanitizer. */
		char *text = malloc(cases[i].bytes ? cases[i].bytes : 1);

		assert_non_null(text);
		memcpy(text, cases[i].text, cases[i].bytes);
		if (pressure_request_level(text, cases[i].bytes) != cases[i].level)
			fail_msg("case %zu", i);
		free(text);
	}
	assert_int_equal(PRESSURE_LEVEL_DEFAULT, PN_MEM_LEVEL_TIGHT);
}

int main(void)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(test_requests) };

	return cmocka_run_group_tests_name("pressure_request", tests, NULL, NULL);
}
