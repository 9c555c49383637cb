/* SPDX-License-Identifier: BSD-2-Clause */
/* Environment settings: good ones are taken, bad ones are named and the default stays. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/settings.h"

static const char *set_name, *set_value;
static char warned[256];
static int n_warned;

static const char *get(void *arg, const char *name)
{
	return set_name && !strcmp(name, set_name) ? set_value : NULL;
}

static void warn(void *arg, const char *name, const char *value, const char *fallback)
{
	n_warned++;
	snprintf(warned, sizeof(warned), "%s|%s|%s", name, value, fallback);
}

static struct level_config with(const char *name, const char *value)
{
	struct level_config config;

	set_name = name;
	set_value = value;
	n_warned = 0;
	settings_level(&config, get, NULL, warn, NULL);
	return config;
}

static void test_good(void **state)
{
	assert_int_equal(with(NULL, NULL).host_reserve_bytes, 0);
	assert_true(with(NULL, NULL).psi_full_reject_pct == 15);
	assert_int_equal(with(NULL, NULL).die_reserve_bytes, 1ull << 30);
	assert_int_equal(with(NULL, NULL).hold_ns, 250000000);
	assert_true(with(NULL, NULL).cgroup_level);

	assert_int_equal(with("PN_HOST_RESERVE_BYTES", "123456").host_reserve_bytes, 123456);
	assert_int_equal(with("PN_HOST_RESERVE_BYTES", "2G").host_reserve_bytes, 2ull << 30);
	assert_true(with("PN_PSI_FULL_REJECT", "7.5").psi_full_reject_pct == 7.5);
	assert_int_equal(with("PN_DIE_RESERVE_BYTES", "512M").die_reserve_bytes, 512ull << 20);
	assert_int_equal(with("PN_LEVEL_HOLD_MS", "0").hold_ns, 0);
	assert_false(with("PN_CGROUP_LEVEL", "0").cgroup_level);
	assert_int_equal(with("PN_LEVEL_HOLD_MS", "").hold_ns, 250000000); /* as if unset */
	assert_int_equal(n_warned, 0);
}

static void test_bad(void **state)
{
	static const struct {
		const char *name, *value, *warning;
	} cases[] = {
		{ "PN_HOST_RESERVE_BYTES", "lots", "PN_HOST_RESERVE_BYTES|lots|max(1 GiB, 15 %)" },
		{ "PN_HOST_RESERVE_BYTES", "-1", "PN_HOST_RESERVE_BYTES|-1|max(1 GiB, 15 %)" },
		{ "PN_HOST_RESERVE_BYTES", "1e9", "PN_HOST_RESERVE_BYTES|1e9|max(1 GiB, 15 %)" },
		{ "PN_PSI_FULL_REJECT", "0", "PN_PSI_FULL_REJECT|0|15" },
		{ "PN_PSI_FULL_REJECT", "100.1", "PN_PSI_FULL_REJECT|100.1|15" },
		{ "PN_PSI_FULL_REJECT", "nan", "PN_PSI_FULL_REJECT|nan|15" },
		{ "PN_DIE_RESERVE_BYTES", "1KB", "PN_DIE_RESERVE_BYTES|1KB|1073741824" },
		{ "PN_LEVEL_HOLD_MS", "60001", "PN_LEVEL_HOLD_MS|60001|250" },
		{ "PN_CGROUP_LEVEL", "2", "PN_CGROUP_LEVEL|2|1" },
		{ "PN_CGROUP_LEVEL", "yes", "PN_CGROUP_LEVEL|yes|1" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct level_config config = with(cases[i].name, cases[i].value);

		assert_int_equal(n_warned, 1);
		assert_string_equal(warned, cases[i].warning);
		assert_memory_equal(&config.hold_ns, &level_config_default.hold_ns,
				    sizeof(config.hold_ns));
		assert_true(config.psi_full_reject_pct == level_config_default.psi_full_reject_pct);
		assert_int_equal(config.host_reserve_bytes, 0);
	}
}

static const char *die_source_text;

static const char *get_die_source(void *arg, const char *name)
{
	return strcmp(name, "PN_DIE_SOURCE") ? NULL : die_source_text;
}

static void warn_die_source(void *arg, const char *name, const char *value, const char *fallback)
{
	assert_string_equal(fallback, "auto");
	++*(int *)arg;
}

static void test_die_source(void **state)
{
	static const struct {
		const char *text;
		enum die_source want;
		int warnings;
	} cases[] = {
		{ NULL, DIE_SOURCE_AUTO, 0 },   { "", DIE_SOURCE_AUTO, 0 },
		{ "auto", DIE_SOURCE_AUTO, 0 }, { "cuda", DIE_SOURCE_CUDA, 0 },
		{ "push", DIE_SOURCE_PUSH, 0 }, { "off", DIE_SOURCE_OFF, 0 },
		{ "nvml", DIE_SOURCE_AUTO, 1 }, { "Off", DIE_SOURCE_AUTO, 1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int warnings = 0;

		die_source_text = cases[i].text;
		assert_int_equal(
			settings_die_source(get_die_source, NULL, warn_die_source, &warnings),
			cases[i].want);
		assert_int_equal(warnings, cases[i].warnings);
		assert_int_equal(settings_die_source(get_die_source, NULL, NULL, NULL),
				 cases[i].want);
	}
}

static void test_parsers(void **state)
{
	uint64_t bytes;
	double value;

	assert_int_equal(settings_parse_bytes("18446744073709551615", &bytes), 0);
	assert_true(bytes == UINT64_MAX);
	assert_int_equal(settings_parse_bytes("18446744073709551616", &bytes), -ERANGE);
	assert_int_equal(settings_parse_bytes("17179869184G", &bytes), -ERANGE);
	assert_int_equal(settings_parse_bytes("007", &bytes), 0);
	assert_int_equal(bytes, 7); /* base 10 */
	assert_int_equal(settings_parse_bytes("", &bytes), -EINVAL);
	assert_int_equal(settings_parse_bytes("0x10", &bytes), -EINVAL);
	assert_int_equal(settings_parse_bytes("1GG", &bytes), -EINVAL);
	assert_int_equal(settings_parse_decimal(".5", &value), 0);
	assert_true(value == 0.5);
	assert_int_equal(settings_parse_decimal("1.2.3", &value), -EINVAL);
	assert_int_equal(settings_parse_decimal(".", &value), -EINVAL);
	assert_int_equal(settings_parse_decimal("1,5", &value), -EINVAL);
	assert_int_equal(settings_parse_decimal("99999999999999999999", &value), -EINVAL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_die_source),
		cmocka_unit_test(test_parsers),
	};

	return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
