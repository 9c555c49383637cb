/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Errors that only a kernel makes (PSI switched off, a removed cgroup, no descriptors left), and
 * the number of system calls: this program's own openat and pread stand before the C library's.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/syscall.h>

#include "host/host_file.h"
#include "host_tree.h"
#include "pn_host_signals.h"

#define MS_NS 1000000ull

/* What is done to the file opened under this name, and what was counted. */
static struct {
	const char *name;
	int open_errno;
	int read_errno;
	int fd;
	int opens; /* of the name */
	int reads;
	int all_opens;
} fault;

int openat(int dir_fd, const char *path, int flags, ...);
int openat(int dir_fd, const char *path, int flags, ...)
{
	bool meant = fault.name && !strcmp(path, fault.name);
	mode_t mode = 0;
	va_list args;
	int fd;

	if (flags & O_CREAT) {
		va_start(args, flags);
		mode = va_arg(args, mode_t);
		va_end(args);
	}
	fault.all_opens++;
	fault.opens += meant;
	if (meant && fault.open_errno) {
		errno = fault.open_errno;
		return -1;
	}
	fd = (int)syscall(SYS_openat, dir_fd, path, flags, mode);
	if (meant && fd >= 0)
		fault.fd = fd;
	else if (fd == fault.fd)
		fault.fd = -1;
	return fd;
}

ssize_t pread(int fd, void *buf, size_t len, off_t offset)
{
	if (fd >= 0 && fd == fault.fd) {
		fault.reads++;
		if (fault.read_errno) {
			errno = fault.read_errno;
			return -1;
		}
	}
	return syscall(SYS_pread64, fd, buf, len, offset);
}

static void watch(const char *name)
{
	memset(&fault, 0, sizeof(fault));
	fault.name = name;
	fault.fd = -1;
}

struct fixture {
	struct host_tree tree;
	pn_host_signals *hs;
	pn_host_sample sample;
	int procfs_fd, cgroupfs_fd;
	uint64_t now_ns;
};

static void fixture_open(struct fixture *fx, const char *name)
{
	watch(name);
	tree_make(&fx->tree);
	tree_write(&fx->tree, "proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 50 kB\n");
	tree_write(&fx->tree, "proc/pressure/memory",
		   "some avg10=3.00 avg60=2.00 avg300=1.00 total=5\n"
		   "full avg10=1.00 avg60=2.00 avg300=1.00 total=4\n");
	tree_write(&fx->tree, "proc/7/cgroup", "0::/a\n");
	tree_write(&fx->tree, "cg/cgroup.controllers", "memory\n");
	tree_write(&fx->tree, "cg/a/memory.current", "4096\n");
	tree_write(&fx->tree, "cg/a/memory.max", "16384\n");
	tree_write(&fx->tree, "cg/a/memory.pressure",
		   "some avg10=3.00 avg60=2.00 avg300=1.00 total=5\n");
	fx->procfs_fd = tree_opendir(&fx->tree, "proc");
	fx->cgroupfs_fd = tree_opendir(&fx->tree, "cg");
	fx->now_ns = 1000 * HOST_TREE_SECOND_NS;
	assert_int_equal(pn_host_signals_open(&fx->hs, fx->procfs_fd, fx->cgroupfs_fd, 7), 0);
}

static void fixture_close(struct fixture *fx)
{
	pn_host_signals_close(fx->hs);
	close(fx->procfs_fd);
	close(fx->cgroupfs_fd);
	tree_free(&fx->tree);
	watch(NULL);
}

static void read_all(struct fixture *fx)
{
	pn_host_signals_read(fx->hs, PN_HOST_READ_ALL, fx->now_ns, &fx->sample);
}

/* Reads every millisecond of one second. */
static void read_for_a_second(struct fixture *fx)
{
	for (int i = 0; i < 1000; i++) {
		fx->now_ns += MS_NS;
		read_all(fx);
	}
}

static void test_one_pread(void **state)
{
	static const char *const names[] = {
		"meminfo", "pressure/memory", "memory.current", "memory.max", "memory.pressure",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct fixture fx;

		fixture_open(&fx, names[i]);
		for (int n = 0; n < 10; n++)
			read_all(&fx);
		if (fault.reads != 10)
			fail_msg("%s: %d reads for 10 samples", names[i], fault.reads);
		/* the root group, without limits, is asked for memory.max once as well */
		assert_in_range(fault.opens, 1, 2);
		fixture_close(&fx);
	}
}

/* Field case 3: unsupported is not failed, and counts as no pressure. */
static void test_psi_off(void **state)
{
	static const struct {
		const char *name;
		int source;
	} cases[] = {
		{ "pressure/memory", PN_SRC_PSI },
		{ "memory.pressure", PN_SRC_CGROUP_PSI },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture fx;

		fixture_open(&fx, cases[i].name);
		fault.read_errno = EOPNOTSUPP;
		read_all(&fx);
		assert_int_equal(fx.sample.source_state[cases[i].source], PN_SRC_UNSUPPORTED);
		assert_int_equal(fx.sample.source_err[cases[i].source], -EOPNOTSUPP);
		assert_int_equal(fx.sample.source_ns[cases[i].source], 0);
		assert_int_equal(fx.sample.source_state[PN_SRC_MEMINFO], PN_SRC_OK);
		assert_int_equal(fx.sample.avail_bytes, 51200);
		read_for_a_second(&fx);
		assert_in_range(fault.opens, 1, 2);

		/* On again, then off while it runs: the last averages must not stay. */
		fault.read_errno = 0;
		fx.now_ns += HOST_TREE_SECOND_NS;
		read_all(&fx);
		assert_int_equal(fx.sample.source_state[cases[i].source], PN_SRC_OK);
		assert_true(fx.sample.psi_some_avg10 == 3.0);
		fault.read_errno = EOPNOTSUPP;
		read_all(&fx);
		assert_int_equal(fx.sample.source_state[cases[i].source], PN_SRC_UNSUPPORTED);
		if (cases[i].source == PN_SRC_PSI) {
			assert_true(fx.sample.psi_some_avg10 == 0.0);
			assert_true(fx.sample.psi_full_avg10 == 0.0);
		} else {
			assert_true(fx.sample.cgroup_psi_some_avg10 == 0.0);
		}
		fixture_close(&fx);
	}
}

/* A source that fails keeps its value, is not hammered, and comes back. */
static void test_failing(void **state)
{
	static const struct {
		const char *name;
		int open_errno, read_errno;
		int source, err;
	} cases[] = {
		{ "meminfo", 0, EIO, PN_SRC_MEMINFO, -EIO },
		{ "meminfo", EMFILE, EIO, PN_SRC_MEMINFO, -EMFILE },
		{ "meminfo", ENOENT, ENODEV, PN_SRC_MEMINFO, -ENODEV },
		{ "meminfo", 0, ENOTCONN, PN_SRC_MEMINFO, -ENOTCONN },
		{ "pressure/memory", EACCES, EIO, PN_SRC_PSI, -EACCES },
		/* what the kernel says of a removed cgroup */
		{ "memory.current", ENOENT, ENODEV, PN_SRC_CGROUP, -ENODEV },
		{ "memory.current", ENODEV, ENODEV, PN_SRC_CGROUP, -ENODEV },
		{ "memory.pressure", ENOENT, ENODEV, PN_SRC_CGROUP_PSI, -ENODEV },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int source = cases[i].source;
		struct fixture fx;
		uint64_t good_ns;
		int opens;

		fixture_open(&fx, cases[i].name);
		read_all(&fx);
		assert_int_equal(fx.sample.source_state[source], PN_SRC_OK);
		good_ns = fx.sample.source_ns[source];
		assert_int_equal(good_ns, fx.now_ns);

		fault.open_errno = cases[i].open_errno;
		fault.read_errno = cases[i].read_errno;
		fx.now_ns += MS_NS;
		read_all(&fx);
		if (fx.sample.source_err[source] != cases[i].err)
			fail_msg("case %zu: %d, not %d", i, fx.sample.source_err[source],
				 cases[i].err);
		opens = fault.all_opens;
		read_for_a_second(&fx);
		/* a second's worth: the file, or the group with its five files and its parent */
		assert_in_range(fault.all_opens - opens, 0, 16);
		assert_int_equal(fx.sample.source_state[source],
				 fx.sample.source_err[source] == -ENODEV && source >= PN_SRC_CGROUP
					 ? PN_SRC_GONE
					 : PN_SRC_STALE);
		assert_true(fx.sample.source_ns[source] >= good_ns);
		assert_int_equal(fx.sample.avail_bytes, 51200);
		assert_int_equal(fx.sample.cgroup_headroom_bytes, 12288);
		assert_true(fx.sample.psi_some_avg10 == 3.0);
		assert_true(fx.sample.cgroup_psi_some_avg10 == 3.0);

		fault.open_errno = fault.read_errno = 0;
		read_for_a_second(&fx);
		assert_int_equal(fx.sample.source_state[source], PN_SRC_OK);
		assert_int_equal(fx.sample.source_err[source], 0);
		assert_int_equal(fx.sample.source_ns[source], fx.now_ns);
		fixture_close(&fx);
	}
}

/* host_file alone: replaced, deleted, made again, too long, retries. */
static void test_file(void **state)
{
	struct host_file file = HOST_FILE_INIT;
	struct host_tree tree;
	uint64_t now_ns = 1;
	char buf[16];
	size_t len;

	watch("f");
	tree_make(&tree);
	assert_int_equal(host_file_read(&file, tree.fd, "f", now_ns, buf, sizeof(buf), &len),
			 -ENOENT);
	tree_write(&tree, "./f", "one");
	now_ns += HOST_FILE_RETRY_NS - 1;
	assert_int_equal(host_file_read(&file, tree.fd, "f", now_ns, buf, sizeof(buf), &len),
			 -ENOENT);
	assert_int_equal(fault.opens, 1);
	now_ns++;
	assert_int_equal(host_file_read(&file, tree.fd, "f", now_ns, buf, sizeof(buf), &len), 0);
	assert_int_equal(len, 3);
	assert_memory_equal(buf, "one", 3);

	tree_write(&tree, "./new", "other");
	assert_int_equal(renameat(tree.fd, "new", tree.fd, "f"), 0);
	assert_int_equal(host_file_read(&file, tree.fd, "f", now_ns, buf, sizeof(buf), &len), 0);
	assert_int_equal(len, 5);
	assert_memory_equal(buf, "other", 5);

	tree_write(&tree, "./f", "0123456789abcdef");
	assert_int_equal(host_file_read(&file, tree.fd, "f", now_ns, buf, sizeof(buf), &len),
			 -EMSGSIZE);
	tree_write(&tree, "./f", "0123456789abcde");
	now_ns += HOST_FILE_RETRY_NS;
	assert_int_equal(host_file_read(&file, tree.fd, "f", now_ns, buf, sizeof(buf), &len), 0);
	assert_int_equal(len, 15);

	tree_remove(&tree, "f");
	assert_int_equal(host_file_read(&file, tree.fd, "f", now_ns, buf, sizeof(buf), &len),
			 -ENODEV);
	host_file_close(&file);
	assert_int_equal(host_file_read(&file, -1, "f", now_ns, buf, sizeof(buf), &len), -ENODEV);
	host_file_close(&file);
	tree_free(&tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_pread),
		cmocka_unit_test(test_psi_off),
		cmocka_unit_test(test_failing),
		cmocka_unit_test(test_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
