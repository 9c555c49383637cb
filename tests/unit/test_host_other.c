/* SPDX-License-Identifier: BSD-2-Clause */
/* The branch for systems without procfs, built here under other names beside the Linux one. */
#define PN_HOST_SIGNALS_OTHER
#define pn_host_signals        other_signals
#define pn_host_signals_sample other_signals_sample
#define pn_host_signals_open   other_signals_open
#define pn_host_signals_read   other_signals_read
#define pn_host_signals_close  other_signals_close

#include "host/pn_host_signals_other.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void assert_bytes_only(const pn_host_sample *sample)
{
	assert_true(sample->total_bytes > 0);
	assert_true(sample->avail_bytes > 0);
	assert_true(sample->avail_bytes <= sample->total_bytes);
	assert_true(sample->psi_some_avg10 == 0.0 && sample->psi_full_avg10 == 0.0);
	assert_int_equal(sample->psi_some_total_us, 0);
	assert_int_equal(sample->cgroup_current_bytes, 0);
	assert_int_equal(sample->cgroup_max_bytes, 0);
	assert_int_equal(sample->cgroup_limit_bytes, 0);
	assert_true(sample->cgroup_headroom_bytes == UINT64_MAX);
	assert_int_equal(sample->source_state[PN_SRC_MEMINFO], PN_SRC_OK);
	assert_int_equal(sample->source_state[PN_SRC_PSI], PN_SRC_ABSENT);
	assert_int_equal(sample->source_state[PN_SRC_CGROUP], PN_SRC_ABSENT);
}

static void test_sample(void **state)
{
	pn_host_sample sample;

	assert_int_equal(other_signals_sample(&sample), 0);
	assert_bytes_only(&sample);
	assert_true(sample.source_ns[PN_SRC_MEMINFO] > 0);
}

static void test_reader(void **state)
{
	pn_host_sample sample;
	pn_host_signals *hs;

	assert_int_equal(other_signals_open(&hs, -1, -1, 0), 0);
	assert_int_equal(other_signals_read(hs, PN_HOST_READ_PSI, 5, &sample), -ENODATA);
	assert_int_equal(other_signals_read(hs, PN_HOST_READ_ALL, 6, &sample), 0);
	assert_bytes_only(&sample);
	assert_int_equal(sample.source_ns[PN_SRC_MEMINFO], 6);
	assert_int_equal(other_signals_read(hs, 0, 7, &sample), 0);
	assert_int_equal(sample.source_ns[PN_SRC_MEMINFO], 6);
	other_signals_close(hs);
	other_signals_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sample),
		cmocka_unit_test(test_reader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
