/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pn_host_signals: what becomes of a source (absent, ok, stale) on a made-up tree whose files
 * change between reads, then the real /proc and cgroups of this machine.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "host/clock.h"
#include "host_tree.h"
#include "pn_host_signals.h"
#include "../skip.h"

#define MEMINFO(avail)                                                                             \
	"MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: " avail " kB\nSwapFree: 3 kB\n"
#define PSI(avg10)                                                                                 \
	"some avg10=" avg10 " avg60=2.00 avg300=1.00 total=5\n"                                    \
	"full avg10=0.25 avg60=0.00 avg300=0.00 total=4\n"

struct fixture {
	struct host_tree tree;
	pn_host_signals *hs;
	pn_host_sample sample;
	int procfs_fd, cgroupfs_fd;
	uint64_t now_ns;
};

static void fixture_open(struct fixture *fx)
{
	tree_make(&fx->tree);
	tree_mkdirs(&fx->tree, "proc/");
	tree_mkdirs(&fx->tree, "cg/");
	tree_write(&fx->tree, "proc/7/cgroup", "0::/a\n");
	fx->procfs_fd = tree_opendir(&fx->tree, "proc");
	fx->cgroupfs_fd = tree_opendir(&fx->tree, "cg");
	fx->now_ns = 1000;
	assert_int_equal(pn_host_signals_open(&fx->hs, fx->procfs_fd, fx->cgroupfs_fd, 7), 0);
}

static void fixture_close(struct fixture *fx)
{
	pn_host_signals_close(fx->hs);
	close(fx->procfs_fd);
	close(fx->cgroupfs_fd);
	tree_free(&fx->tree);
}

static int read_all(struct fixture *fx)
{
	fx->now_ns++;
	return pn_host_signals_read(fx->hs, PN_HOST_READ_ALL, fx->now_ns, &fx->sample);
}

/* Writes every file. */
static void write_all(struct fixture *fx)
{
	tree_write(&fx->tree, "proc/meminfo", MEMINFO("500"));
	tree_write(&fx->tree, "proc/pressure/memory", PSI("7.25"));
	tree_write(&fx->tree, "cg/cgroup.controllers", "memory\n");
	tree_write(&fx->tree, "cg/a/memory.current", "4096\n");
	tree_write(&fx->tree, "cg/a/memory.high", "max\n");
	tree_write(&fx->tree, "cg/a/memory.max", "16384\n");
	tree_write(&fx->tree, "cg/a/memory.stat", "inactive_file 1024\n");
	tree_write(&fx->tree, "cg/a/memory.pressure", PSI("1.75"));
}

static void assert_states(const pn_host_sample *sample, int meminfo, int psi, int cgroup,
			  int cgroup_psi)
{
	assert_int_equal(sample->source_state[PN_SRC_MEMINFO], meminfo);
	assert_int_equal(sample->source_state[PN_SRC_PSI], psi);
	assert_int_equal(sample->source_state[PN_SRC_CGROUP], cgroup);
	assert_int_equal(sample->source_state[PN_SRC_CGROUP_PSI], cgroup_psi);
}

/* The values of write_all. */
static void assert_values(const pn_host_sample *sample)
{
	assert_int_equal(sample->total_bytes, 1024000);
	assert_int_equal(sample->avail_bytes, 512000);
	assert_int_equal(sample->swap_free_bytes, 3072);
	assert_true(sample->psi_some_avg10 == 7.25);
	assert_true(sample->psi_full_avg10 == 0.25);
	assert_true(sample->psi_some_avg60 == 2.0);
	assert_true(sample->psi_some_avg300 == 1.0);
	assert_int_equal(sample->psi_some_total_us, 5);
	assert_int_equal(sample->psi_full_total_us, 4);
	assert_int_equal(sample->cgroup_current_bytes, 4096);
	assert_int_equal(sample->cgroup_high_bytes, 0);
	assert_int_equal(sample->cgroup_max_bytes, 16384);
	assert_int_equal(sample->cgroup_headroom_bytes, 16384 - 4096 + 1024);
	assert_int_equal(sample->cgroup_limit_bytes, 16384);
	assert_true(sample->cgroup_psi_some_avg10 == 1.75);
	assert_true(sample->cgroup_psi_full_avg10 == 0.25);
	assert_int_equal(sample->cgroup_psi_some_total_us, 5);
	assert_int_equal(sample->cgroup_psi_full_total_us, 4);
}

/* Nothing there, then everything: picked up within a second. */
static void test_absent_then_there(void **state)
{
	struct fixture fx;

	fixture_open(&fx);
	assert_int_equal(pn_host_signals_read(fx.hs, PN_HOST_READ_PSI, 1, &fx.sample), -ENODATA);
	assert_int_equal(read_all(&fx), -ENOENT);
	assert_states(&fx.sample, PN_SRC_ABSENT, PN_SRC_ABSENT, PN_SRC_ABSENT, PN_SRC_ABSENT);
	assert_true(fx.sample.cgroup_headroom_bytes == UINT64_MAX);
	write_all(&fx);
	fx.now_ns += 2 * HOST_TREE_SECOND_NS;
	assert_int_equal(read_all(&fx), 0);
	assert_states(&fx.sample, PN_SRC_OK, PN_SRC_OK, PN_SRC_OK, PN_SRC_OK);
	assert_values(&fx.sample);
	for (int source = PN_SRC_MEMINFO; source <= PN_SRC_CGROUP_PSI; source++) {
		assert_int_equal(fx.sample.source_ns[source], fx.now_ns);
		assert_int_equal(fx.sample.source_err[source], 0);
	}
	fixture_close(&fx);
}

/* Field case 2: a file that turns bad keeps its values, says so, and recovers. */
static void test_stale(void **state)
{
	static const struct {
		const char *name, *text; /* NULL: removed */
		int source, err;
	} cases[] = {
		{ "proc/meminfo", "", PN_SRC_MEMINFO, -EBADMSG },
		{ "proc/meminfo", "garbage\n", PN_SRC_MEMINFO, -EBADMSG },
		{ "proc/meminfo", "MemTotal: 1000 kB\nMemFree: 900 kB\n", PN_SRC_MEMINFO,
		  -EBADMSG },
		{ "proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 4", PN_SRC_MEMINFO, -EBADMSG },
		{ "proc/meminfo", NULL, PN_SRC_MEMINFO, -ENODEV },
		{ "proc/pressure/memory", "", PN_SRC_PSI, -EBADMSG },
		{ "proc/pressure/memory", "some avg10=9.00\n", PN_SRC_PSI, -EBADMSG },
		{ "proc/pressure/memory", NULL, PN_SRC_PSI, -ENODEV },
		{ "proc/pressure", NULL, PN_SRC_PSI, -ENODEV },
		{ "cg/a/memory.current", "", PN_SRC_CGROUP, -EBADMSG },
		{ "cg/a/memory.max", "many\n", PN_SRC_CGROUP, -EBADMSG },
		{ "cg/a/memory.stat", "anon 4\n", PN_SRC_CGROUP, -EBADMSG },
		{ "cg/a/memory.current", NULL, PN_SRC_CGROUP, -ENODEV },
		{ "cg/a/memory.pressure", "full\n", PN_SRC_CGROUP_PSI, -EBADMSG },
		{ "cg/a/memory.pressure", NULL, PN_SRC_CGROUP_PSI, -ENODEV },
		{ "cg/a", NULL, PN_SRC_CGROUP, -ENODEV },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int source = cases[i].source;
		struct fixture fx;
		uint64_t good_ns;

		fixture_open(&fx);
		write_all(&fx);
		assert_int_equal(read_all(&fx), 0);
		good_ns = fx.now_ns;
		if (cases[i].text)
			tree_write(&fx.tree, cases[i].name, "%s", cases[i].text);
		else
			tree_remove(&fx.tree, cases[i].name);
		assert_int_equal(read_all(&fx), 0);
		if (fx.sample.source_err[source] != cases[i].err)
			fail_msg("%s \"%s\": %d, not %d", cases[i].name, cases[i].text,
				 fx.sample.source_err[source], cases[i].err);
		assert_int_equal(fx.sample.source_state[source],
				 cases[i].err == -ENODEV && source >= PN_SRC_CGROUP ? PN_SRC_GONE
										    : PN_SRC_STALE);
		assert_int_equal(fx.sample.source_ns[source], good_ns);
		assert_values(&fx.sample);

		write_all(&fx);
		fx.now_ns += HOST_TREE_SECOND_NS;
		assert_int_equal(read_all(&fx), 0);
		assert_states(&fx.sample, PN_SRC_OK, PN_SRC_OK, PN_SRC_OK, PN_SRC_OK);
		assert_int_equal(fx.sample.source_err[source], 0);
		assert_int_equal(fx.sample.source_ns[source], fx.now_ns);
		assert_values(&fx.sample);
		fixture_close(&fx);
	}
}

/* Bad from the start: never a value, and not taken for absent. */
static void test_never_good(void **state)
{
	struct fixture fx;

	fixture_open(&fx);
	write_all(&fx);
	tree_write(&fx.tree, "proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: x kB\n");
	assert_int_equal(read_all(&fx), -EBADMSG);
	assert_states(&fx.sample, PN_SRC_STALE, PN_SRC_OK, PN_SRC_OK, PN_SRC_OK);
	assert_int_equal(fx.sample.source_ns[PN_SRC_MEMINFO], 0);
	assert_int_equal(fx.sample.avail_bytes, 0);
	fixture_close(&fx);
}

/* Only what is asked for is read; the rest keeps its values and times. */
static void test_what(void **state)
{
	struct fixture fx;
	uint64_t first_ns;

	fixture_open(&fx);
	write_all(&fx);
	assert_int_equal(read_all(&fx), 0);
	first_ns = fx.now_ns;
	tree_write(&fx.tree, "proc/meminfo", MEMINFO("2000"));
	tree_write(&fx.tree, "proc/pressure/memory", PSI("8.00"));
	tree_write(&fx.tree, "cg/a/memory.current", "8192\n");
	assert_int_equal(pn_host_signals_read(fx.hs, PN_HOST_READ_CGROUP, first_ns + 1, &fx.sample),
			 0);
	assert_int_equal(fx.sample.cgroup_current_bytes, 8192);
	assert_int_equal(fx.sample.avail_bytes, 512000);
	assert_true(fx.sample.psi_some_avg10 == 7.25);
	assert_int_equal(fx.sample.source_ns[PN_SRC_MEMINFO], first_ns);
	assert_int_equal(fx.sample.source_ns[PN_SRC_CGROUP], first_ns + 1);

	assert_int_equal(pn_host_signals_read(fx.hs, PN_HOST_READ_BYTES, first_ns + 2, &fx.sample),
			 0);
	assert_int_equal(fx.sample.avail_bytes, 1024000); /* clamped to the total */
	assert_true(fx.sample.psi_some_avg10 == 7.25);
	fixture_close(&fx);
}

/* A process that leaves a limited group does not keep its limit. */
static void test_left_the_limit(void **state)
{
	struct fixture fx;

	fixture_open(&fx);
	write_all(&fx);
	assert_int_equal(read_all(&fx), 0);
	tree_write(&fx.tree, "proc/7/cgroup", "0::/\n");
	fx.now_ns += HOST_TREE_SECOND_NS;
	assert_int_equal(read_all(&fx), 0);
	assert_states(&fx.sample, PN_SRC_OK, PN_SRC_OK, PN_SRC_ABSENT, PN_SRC_ABSENT);
	assert_int_equal(fx.sample.cgroup_limit_bytes, 0);
	assert_true(fx.sample.cgroup_headroom_bytes == UINT64_MAX);
	assert_true(fx.sample.cgroup_psi_some_avg10 == 0.0);
	fixture_close(&fx);
}

static void test_open_errors(void **state)
{
	pn_host_signals *hs = NULL;
	pn_host_sample sample;
	int low_fd = open("/", O_PATH | O_CLOEXEC);
	int fd = fcntl(low_fd, F_DUPFD_CLOEXEC, 500); /* no open below will take that number */

	assert_true(fd >= 500);
	close(low_fd);
	close(fd);
	assert_int_equal(pn_host_signals_open(&hs, fd, -1, 0), -EBADF);
	assert_int_equal(pn_host_signals_open(&hs, -1, fd, 0), -EBADF);
	assert_int_equal(pn_host_signals_open(&hs, -1, -1, -2), -EINVAL);
	assert_null(hs);
	pn_host_signals_close(NULL);

	assert_int_equal(pn_host_signals_open(&hs, -1, -1, -1), 0);
	assert_int_equal(pn_host_signals_read(hs, PN_HOST_READ_ALL, 1, &sample), 0);
	assert_int_equal(sample.source_state[PN_SRC_CGROUP], PN_SRC_ABSENT);
	assert_int_equal(sample.source_err[PN_SRC_CGROUP], 0);
	pn_host_signals_close(hs);
}

static void test_no_leak(void **state)
{
	int before = open_descriptors();
	struct fixture fx;
	pn_host_sample sample;

	for (int i = 0; i < 20; i++)
		pn_host_signals_sample(&sample);
	assert_int_equal(open_descriptors(), before);

	fixture_open(&fx);
	for (int i = 0; i < 20; i++) {
		write_all(&fx);
		fx.now_ns += HOST_TREE_SECOND_NS;
		read_all(&fx);
		tree_remove(&fx.tree, i % 2 ? "cg/a" : "cg/a/memory.max");
		if (i % 3 == 0)
			tree_remove(&fx.tree, "proc/meminfo");
		read_all(&fx);
	}
	fixture_close(&fx);
	assert_int_equal(open_descriptors(), before);
}

/* The real files, against values parsed here with the C library. */
static void test_live(void **state)
{
	unsigned long long total_kib = 0, avail_kib = 0, before_us = 0, after_us = 0;
	pn_host_sample sample;
	char line[256];
	FILE *file;

	file = fopen("/proc/pressure/memory", "re");
	if (file) {
		if (fscanf(file, "some avg10=%*f avg60=%*f avg300=%*f total=%llu", &before_us) != 1)
			before_us = 0;
		fclose(file);
	}
	assert_int_equal(pn_host_signals_sample(&sample), 0);
	file = fopen("/proc/meminfo", "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "MemTotal: %llu kB", &total_kib);
		sscanf(line, "MemAvailable: %llu kB", &avail_kib);
	}
	fclose(file);
	assert_int_equal(sample.source_state[PN_SRC_MEMINFO], PN_SRC_OK);
	assert_int_equal(sample.total_bytes, total_kib * 1024);
	/* other processes run: half of the machine between two reads is too much to be chance */
	assert_in_range(sample.avail_bytes, avail_kib * 512, avail_kib * 2048);

	if (sample.source_state[PN_SRC_PSI] != PN_SRC_OK) {
		assert_int_equal(access("/proc/pressure/memory", F_OK) ? PN_SRC_ABSENT
								       : PN_SRC_UNSUPPORTED,
				 sample.source_state[PN_SRC_PSI]);
		skip_because("this kernel has no PSI");
	}
	file = fopen("/proc/pressure/memory", "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "some avg10=%*f avg60=%*f avg300=%*f total=%llu", &after_us),
			 1);
	fclose(file);
	assert_in_range(sample.psi_some_total_us, before_us, after_us);
}

/* Writes a number to a file of a cgroup. */
static int write_number(const char *dir, const char *name, long long number)
{
	char path[256], text[32];
	ssize_t len = snprintf(text, sizeof(text), "%lld\n", number);
	int fd, err;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = write(fd, text, (size_t)len) == len ? 0 : -errno;
	close(fd);
	return err;
}

/* Field case 8 on the kernel itself: a child's group with a limit, removed under the reader. */
static void test_live_removed_group(void **state)
{
	static const uint64_t limit_bytes = 1ull << 30;
	bool v1 = access("/sys/fs/cgroup/memory/memory.limit_in_bytes", F_OK) == 0;
	pn_host_signals *hs;
	pn_host_sample sample;
	char dir[128];
	pid_t child;
	int status;

	snprintf(dir, sizeof(dir), "/sys/fs/cgroup/%spnmem-test-%d", v1 ? "memory/" : "",
		 (int)getpid());
	if (mkdir(dir, 0755))
		skip_because("cannot make a memory cgroup: %s", strerror(errno));
	if (write_number(dir, v1 ? "memory.limit_in_bytes" : "memory.max",
			 (long long)limit_bytes)) {
		rmdir(dir);
		skip_because("no memory controller at the root of the cgroups");
	}
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_true(child > 0);
	assert_int_equal(write_number(dir, "cgroup.procs", child), 0);
	assert_int_equal(pn_host_signals_open(&hs, -1, -1, child), 0);
	assert_int_equal(pn_host_signals_read(hs, PN_HOST_READ_ALL, 1, &sample), 0);
	assert_int_equal(sample.source_state[PN_SRC_CGROUP], PN_SRC_OK);
	assert_int_equal(sample.cgroup_max_bytes, limit_bytes);
	assert_true(sample.cgroup_limit_bytes <= limit_bytes);
	assert_true(sample.cgroup_headroom_bytes <= limit_bytes);

	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (rmdir(dir)) {
		pn_host_signals_close(hs);
		fail_msg("rmdir %s: %s", dir, strerror(errno));
	}
	for (int second = 1; second < 4; second++) {
		pn_host_signals_read(hs, PN_HOST_READ_ALL, (uint64_t)second * HOST_TREE_SECOND_NS,
				     &sample);
		assert_int_equal(sample.source_state[PN_SRC_CGROUP], PN_SRC_GONE);
		assert_int_equal(sample.source_err[PN_SRC_CGROUP], -ENODEV);
		assert_int_equal(sample.source_ns[PN_SRC_CGROUP], 1);
		assert_int_equal(sample.cgroup_max_bytes, limit_bytes);
		assert_int_equal(sample.source_state[PN_SRC_MEMINFO], PN_SRC_OK);
	}
	pn_host_signals_close(hs);
}

/* For the reader of the log; nothing depends on it. */
static void test_print_cost(void **state)
{
	static const struct {
		const char *name;
		unsigned what;
	} cases[] = {
		{ "bytes", PN_HOST_READ_BYTES },
		{ "cgroup", PN_HOST_READ_CGROUP },
	};
	enum { ROUNDS = 1000 };
	pn_host_signals *hs;
	pn_host_sample sample;

	assert_int_equal(pn_host_signals_open(&hs, -1, -1, 0), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t from_ns = clock_now_ns();

		for (int n = 0; n < ROUNDS; n++)
			pn_host_signals_read(hs, cases[i].what, clock_now_ns(), &sample);
		printf("# info: reading %s: %.1f us\n", cases[i].name,
		       (double)(clock_now_ns() - from_ns) / ROUNDS / 1000);
	}
	pn_host_signals_close(hs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_absent_then_there),
		cmocka_unit_test(test_stale),
		cmocka_unit_test(test_never_good),
		cmocka_unit_test(test_what),
		cmocka_unit_test(test_left_the_limit),
		cmocka_unit_test(test_open_errors),
		cmocka_unit_test(test_no_leak),
		cmocka_unit_test(test_live),
		cmocka_unit_test(test_live_removed_group),
		cmocka_unit_test(test_print_cost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
