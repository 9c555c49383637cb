/* SPDX-License-Identifier: BSD-2-Clause */
/* Whose memory counts towards whose limit, on a made-up tree of groups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "host/signals.h"
#include "host_tree.h"

static struct host_tree tree;
static int procfs_fd, cgroupfs_fd;

static void write_group(const char *path, const char *max, int current)
{
	char name[256];

	snprintf(name, sizeof(name), "cg%s/memory.max", path);
	tree_write(&tree, name, "%s\n", max);
	snprintf(name, sizeof(name), "cg%s/memory.current", path);
	tree_write(&tree, name, "%d\n", current);
}

static pn_host_signals *open_in(int pid, const char *path)
{
	pn_host_signals *hs;
	pn_host_sample sample;
	char name[64];

	snprintf(name, sizeof(name), "proc/%d/cgroup", pid);
	tree_write(&tree, name, "0::%s\n", path);
	assert_int_equal(pn_host_signals_open(&hs, procfs_fd, cgroupfs_fd, pid), 0);
	assert_int_equal(pn_host_signals_read(hs, PN_HOST_READ_ALL, 5, &sample), 0);
	return hs;
}

static int setup(void **state)
{
	tree_make(&tree);
	tree_write(&tree, "cg/cgroup.controllers", "memory\n");
	tree_write(&tree, "proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 1000 kB\n");
	write_group("/pod", "2000", 1500);
	write_group("/pod/roomy", "1800", 100); /* the pod binds: 500 left */
	write_group("/pod/small", "200", 100);  /* it binds itself */
	write_group("/pod/small/leaf", "max", 0);
	write_group("/podium", "max", 0);
	write_group("/other", "max", 0);
	procfs_fd = tree_opendir(&tree, "proc");
	cgroupfs_fd = tree_opendir(&tree, "cg");
	return 0;
}

static int teardown(void **state)
{
	close(procfs_fd);
	close(cgroupfs_fd);
	tree_free(&tree);
	return 0;
}

static void counts_within(void **state)
{
	static const struct {
		const char *path, *limited;
		bool counts;
	} rows[] = {
		{ "/pod/roomy", "/pod/roomy", true },
		{ "/pod/small", "/pod/roomy", true },
		{ "/pod/small/leaf", "/pod/roomy", true },
		{ "/pod", "/pod/roomy", true },
		{ "/podium", "/pod/roomy", false }, /* a name that begins alike */
		{ "/other", "/pod/roomy", false },
		{ "/", "/pod/roomy", false },
		{ "/pod/small/leaf", "/pod/small", true },
		{ "/pod/small", "/pod/small/leaf", true }, /* bound one group up */
		{ "/pod/roomy", "/pod/small/leaf", false },
		{ "/pod/roomy", "/pod/small", false },
		{ "/other", "/other", false }, /* there is no limit */
		{ "/pod/roomy", "/", false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		pn_host_signals *a = open_in(7, rows[i].path), *b = open_in(8, rows[i].limited);

		if (signals_count_within(a, b) != rows[i].counts)
			fail_msg("%s within %s's limit", rows[i].path, rows[i].limited);
		pn_host_signals_close(a);
		pn_host_signals_close(b);
	}
}

/* A limit on the root binds all; a view of no process is in no group. */
static void root_and_none(void **state)
{
	pn_host_signals *a, *b, *none;

	write_group("", "1600", 1500);
	a = open_in(7, "/other");
	b = open_in(8, "/pod/roomy");
	assert_int_equal(pn_host_signals_open(&none, procfs_fd, cgroupfs_fd, -1), 0);
	assert_true(signals_count_within(a, b));
	assert_false(signals_count_within(none, b));
	assert_false(signals_count_within(a, none));
	pn_host_signals_close(a);
	pn_host_signals_close(b);
	pn_host_signals_close(none);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(counts_within, setup, teardown),
		cmocka_unit_test_setup_teardown(root_and_none, setup, teardown),
	};

	return cmocka_run_group_tests_name("host_group", tests, NULL, NULL);
}
