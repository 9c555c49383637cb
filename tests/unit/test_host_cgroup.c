/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finding the memory cgroup and its headroom, on made-up trees: every layout, container mounts,
 * nesting, ancestors' limits, removal and moves. Time is a number here; nothing waits.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "host/cgroup.h"
#include "host_tree.h"

#define MIB  (1ull << 20)
#define GIB  (1ull << 30)
#define NONE "9223372036854771712"

/* A tree with proc/7/cgroup and cg/, and a cgroup on it. */
struct fixture {
	struct host_tree tree;
	struct cgroup cg;
	struct cgroup_bytes bytes;
	int procfs_fd, cgroupfs_fd;
	uint64_t now_ns;
};

static void fixture_open(struct fixture *fx, const char *proc_text)
{
	tree_make(&fx->tree);
	tree_write(&fx->tree, "proc/7/cgroup", "%s", proc_text);
	tree_mkdirs(&fx->tree, "cg/");
	fx->procfs_fd = tree_opendir(&fx->tree, "proc");
	fx->cgroupfs_fd = tree_opendir(&fx->tree, "cg");
	fx->now_ns = 5;
	cgroup_init(&fx->cg, fx->procfs_fd, fx->cgroupfs_fd, 7);
}

static void fixture_close(struct fixture *fx)
{
	cgroup_close(&fx->cg);
	close(fx->procfs_fd);
	close(fx->cgroupfs_fd);
	tree_free(&fx->tree);
}

static void later(struct fixture *fx)
{
	fx->now_ns += HOST_TREE_SECOND_NS;
}

static int read_bytes(struct fixture *fx)
{
	return cgroup_read_bytes(&fx->cg, fx->now_ns, &fx->bytes);
}

/* A v2 group, with "max" or a number in text for its limits. */
static void write_v2(struct fixture *fx, const char *group, uint64_t current, const char *high,
		     const char *max, uint64_t inactive)
{
	char name[4400];

	snprintf(name, sizeof(name), "cg%s/memory.current", group);
	tree_write(&fx->tree, name, "%ju\n", (uintmax_t)current);
	snprintf(name, sizeof(name), "cg%s/memory.high", group);
	tree_write(&fx->tree, name, "%s\n", high);
	snprintf(name, sizeof(name), "cg%s/memory.max", group);
	tree_write(&fx->tree, name, "%s\n", max);
	snprintf(name, sizeof(name), "cg%s/memory.stat", group);
	tree_write(&fx->tree, name, "anon 1\nfile 2\ninactive_file %ju\n", (uintmax_t)inactive);
}

static void write_v2_root(struct fixture *fx)
{
	tree_write(&fx->tree, "cg/cgroup.controllers", "cpu memory\n");
	tree_write(&fx->tree, "cg/memory.stat", "inactive_file 4096\n");
	tree_write(&fx->tree, "cg/memory.pressure",
		   "some avg10=9.00 avg60=0.00 avg300=0.00 total=9\n");
}

static void write_v1(struct fixture *fx, const char *group, uint64_t usage, const char *limit,
		     uint64_t inactive)
{
	char name[4400];

	snprintf(name, sizeof(name), "cg/memory%s/memory.usage_in_bytes", group);
	tree_write(&fx->tree, name, "%ju\n", (uintmax_t)usage);
	snprintf(name, sizeof(name), "cg/memory%s/memory.limit_in_bytes", group);
	tree_write(&fx->tree, name, "%s\n", limit);
	snprintf(name, sizeof(name), "cg/memory%s/memory.stat", group);
	tree_write(&fx->tree, name, "inactive_file 1\ntotal_inactive_file %ju\n",
		   (uintmax_t)inactive);
}

/* One v2 group: its own limits, clamps, page cache. */
static void test_headroom(void **state)
{
	static const struct {
		const char *what;
		uint64_t current;
		const char *high, *max;
		uint64_t inactive;
		uint64_t want_headroom, want_limit, want_high, want_max;
	} cases[] = {
		{ "no limit", 5 * GIB, "max", "max", GIB, UINT64_MAX, 0, 0, 0 },
		{ "max", 3 * GIB, "max", "4294967296", 0, GIB, 4 * GIB, 0, 4 * GIB },
		{ "high below max", 1 * GIB, "2147483648", "4294967296", 0, GIB, 2 * GIB, 2 * GIB,
		  4 * GIB },
		{ "high alone", 1 * GIB, "2147483648", "max", 0, GIB, 2 * GIB, 2 * GIB, 0 },
		/* field case 5: 25.69 GiB in use, 25 GiB of it page cache */
		{ "page cache, no limit", 27584427622, "max", "max", 26843545600, UINT64_MAX, 0, 0,
		  0 },
		{ "page cache", 27584427622, "max", "34359738368", 26843545600,
		  34359738368 - 740882022, 32 * GIB, 0, 32 * GIB },
		/* field case 13 */
		{ "limit below usage", 3 * GIB, "max", "1073741824", 0, 0, GIB, 0, GIB },
		{ "inactive above usage", GIB, "max", "2147483648", 3 * GIB, 2 * GIB, 2 * GIB, 0,
		  2 * GIB },
		{ "limit 0", GIB, "0", "max", 0, 0, 1, 1, 0 },
		{ "usage beyond belief", UINT64_MAX, "max", "4096", 0, 0, 4096, 0, 4096 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture fx;

		fixture_open(&fx, "0::/a\n");
		write_v2_root(&fx);
		write_v2(&fx, "/a", cases[i].current, cases[i].high, cases[i].max,
			 cases[i].inactive);
		if (read_bytes(&fx) || fx.bytes.headroom_bytes != cases[i].want_headroom ||
		    fx.bytes.limit_bytes != cases[i].want_limit ||
		    fx.bytes.high_bytes != cases[i].want_high ||
		    fx.bytes.max_bytes != cases[i].want_max ||
		    fx.bytes.current_bytes != cases[i].current)
			fail_msg("%s: headroom %ju", cases[i].what,
				 (uintmax_t)fx.bytes.headroom_bytes);
		fixture_close(&fx);
	}
}

/* Field case 6, and limits set and lifted while we look. */
static void test_ancestor_limit(void **state)
{
	struct fixture fx;

	fixture_open(&fx, "0::/parent/mid/leaf\n");
	write_v2_root(&fx);
	write_v2(&fx, "/parent", 19 * GIB, "max", "21474836480", GIB / 2);
	write_v2(&fx, "/parent/mid", 2 * GIB, "max", "max", 0);
	write_v2(&fx, "/parent/mid/leaf", GIB, "max", "max", 0);
	assert_int_equal(read_bytes(&fx), 0);
	assert_int_equal(fx.bytes.current_bytes, GIB);
	assert_int_equal(fx.bytes.max_bytes, 0);
	assert_int_equal(fx.bytes.headroom_bytes, GIB + GIB / 2);
	assert_int_equal(fx.bytes.limit_bytes, 20 * GIB);

	tree_write(&fx.tree, "cg/parent/mid/memory.high", "%ju\n", (uintmax_t)(2 * GIB + 5));
	assert_int_equal(read_bytes(&fx), 0);
	assert_int_equal(fx.bytes.headroom_bytes, 5);
	assert_int_equal(fx.bytes.high_bytes, 0);

	tree_write(&fx.tree, "cg/parent/mid/memory.high", "max\n");
	tree_write(&fx.tree, "cg/parent/memory.max", "max\n");
	assert_int_equal(read_bytes(&fx), 0);
	assert_int_equal(fx.bytes.headroom_bytes, UINT64_MAX);
	assert_int_equal(fx.bytes.limit_bytes, 0);
	fixture_close(&fx);
}

/* A leaf without the memory controller still lives under its ancestor's limit. */
static void test_leaf_without_controller(void **state)
{
	struct fixture fx;

	fixture_open(&fx, "0::/parent/leaf\n");
	write_v2_root(&fx);
	write_v2(&fx, "/parent", 3 * GIB, "max", "4294967296", 0);
	tree_mkdirs(&fx.tree, "cg/parent/leaf/");
	assert_int_equal(read_bytes(&fx), 0);
	assert_int_equal(fx.bytes.current_bytes, 0);
	assert_int_equal(fx.bytes.headroom_bytes, GIB);
	fixture_close(&fx);
}

/* Every group of a deep path counts; beyond 32 levels the nearest 32 and the root do. */
static void test_nested(void **state)
{
	static const struct {
		int depth, limited; /* limited: level below the root that has the limit, 0: root */
		bool seen;
	} cases[] = {
		{ 30, 30, true }, { 30, 1, true },  { 30, 15, true }, { 40, 40, true },
		{ 40, 9, true },  { 40, 8, false }, { 40, 0, true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char path[1024] = "", proc[1100];
		struct fixture fx;

		for (int level = 0; level < cases[i].depth; level++)
			strcat(path, "/group");
		snprintf(proc, sizeof(proc), "0::%s\n", path);
		fixture_open(&fx, proc);
		write_v2_root(&fx);
		for (int level = 0; level <= cases[i].depth; level++) {
			path[level * strlen("/group")] = '\0';
			write_v2(&fx, path, 1 * MIB, "max",
				 level == cases[i].limited ? "3145728" : "max", 0);
			if (level < cases[i].depth)
				path[level * strlen("/group")] = '/';
		}
		assert_int_equal(read_bytes(&fx), 0);
		if (fx.bytes.headroom_bytes != (cases[i].seen ? 2 * MIB : UINT64_MAX))
			fail_msg("depth %d, limit at %d: headroom %ju", cases[i].depth,
				 cases[i].limited, (uintmax_t)fx.bytes.headroom_bytes);
		fixture_close(&fx);
	}
}

/* Field case 7: memory on v1, pressure on v2 at unified/; v1's huge number is no limit. */
static void test_hybrid(void **state)
{
	struct pressure psi;
	struct fixture fx;

	fixture_open(&fx, "4:memory:/job/a\n1:name=systemd:/\n0::/user\n");
	write_v1(&fx, "", 20 * GIB, NONE, 0);
	write_v1(&fx, "/job", 3 * GIB, "4294967296", GIB / 4);
	write_v1(&fx, "/job/a", GIB, NONE, 0);
	tree_write(&fx.tree, "cg/unified/cgroup.controllers", "\n");
	tree_write(&fx.tree, "cg/unified/user/memory.pressure",
		   "some avg10=1.25 avg60=0.00 avg300=0.00 total=77\n");
	assert_int_equal(read_bytes(&fx), 0);
	assert_int_equal(fx.bytes.current_bytes, GIB);
	assert_int_equal(fx.bytes.max_bytes, 0);
	assert_int_equal(fx.bytes.high_bytes, 0);
	assert_int_equal(fx.bytes.headroom_bytes, GIB + GIB / 4);
	assert_int_equal(fx.bytes.limit_bytes, 4 * GIB);
	assert_int_equal(cgroup_read_pressure(&fx.cg, fx.now_ns, &psi), 0);
	assert_true(psi.some.avg10 == 1.25);
	assert_false(psi.has_full);

	tree_write(&fx.tree, "cg/memory/job/memory.limit_in_bytes", NONE "\n");
	assert_int_equal(read_bytes(&fx), 0);
	assert_int_equal(fx.bytes.headroom_bytes, UINT64_MAX);
	assert_int_equal(fx.bytes.limit_bytes, 0);
	fixture_close(&fx);
}

static void test_v1_alone(void **state)
{
	struct pressure psi;
	struct fixture fx;

	fixture_open(&fx, "4:cpu,memory:/job\n");
	write_v1(&fx, "", 20 * GIB, NONE, 0);
	write_v1(&fx, "/job", 3 * GIB, "4294967296", 0);
	assert_int_equal(read_bytes(&fx), 0);
	assert_int_equal(fx.bytes.max_bytes, 4 * GIB);
	assert_int_equal(fx.bytes.headroom_bytes, GIB);
	assert_int_equal(cgroup_read_pressure(&fx.cg, fx.now_ns, &psi), -ENOENT);
	fixture_close(&fx);
}

/* Where the process is, against what the mount shows. */
static void test_places(void **state)
{
	static const struct {
		const char *proc;
		int err;
		uint64_t current;
	} cases[] = {
		{ "0::/a\n", 0, 11 },
		{ "0:://a/\n", 0, 11 },
		{ "0::/a/b:c d\n", 0, 22 },
		{ "0::/\n", 0, 33 },
		{ "0::/docker/4f3a\n", 0, 33 }, /* no cgroup namespace: own group is the root */
		{ "0::/../..\n", 0, 33 },       /* outside of the namespace's root */
		{ "0::/a/../a\n", 0, 33 },
		{ "0::/gone (deleted)\n", -ENODEV, 0 },
		{ "4:memory:/x\n0::/a\n", 0, 11 }, /* no memory/ here */
		{ "4:cpu:/\n", -ENOENT, 0 },
		{ "garbled\n", -EBADMSG, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture fx;
		int err;

		fixture_open(&fx, cases[i].proc);
		write_v2_root(&fx);
		write_v2(&fx, "", 33, "max", "max", 0);
		write_v2(&fx, "/a", 11, "max", "max", 0);
		write_v2(&fx, "/a/b:c d", 22, "max", "max", 0);
		err = read_bytes(&fx);
		if (err != cases[i].err)
			fail_msg("%s: %d, not %d", cases[i].proc, err, cases[i].err);
		if (!err)
			assert_int_equal(fx.bytes.current_bytes, cases[i].current);
		fixture_close(&fx);
	}
}

/* In a container without a cgroup namespace the root group comes back like any other. */
static void test_container_root(void **state)
{
	struct fixture fx;

	fixture_open(&fx, "0::/docker/4f3a\n");
	write_v2_root(&fx);
	write_v2(&fx, "", 33, "max", "4096", 0);
	assert_int_equal(read_bytes(&fx), 0);
	tree_remove(&fx.tree, "cg/memory.current");
	assert_int_equal(read_bytes(&fx), -ENODEV);
	write_v2(&fx, "", 44, "max", "4096", 0);
	later(&fx);
	assert_int_equal(read_bytes(&fx), 0);
	assert_int_equal(fx.bytes.current_bytes, 44);
	tree_remove(&fx.tree, "proc/7");
	later(&fx);
	assert_int_equal(read_bytes(&fx), 0);
	assert_int_equal(fx.bytes.headroom_bytes, 4052);
	fixture_close(&fx);
}

/* The real v2 root group has no memory.current: nothing to know, and no failure. */
static void test_v2_root(void **state)
{
	struct pressure psi;
	struct fixture fx;

	fixture_open(&fx, "0::/\n");
	write_v2_root(&fx);
	assert_int_equal(read_bytes(&fx), -ENOENT);
	assert_int_equal(cgroup_read_pressure(&fx.cg, fx.now_ns, &psi), 0);
	assert_int_equal(psi.some.total_us, 9);
	fixture_close(&fx);
}

static void test_nothing_there(void **state)
{
	struct cgroup_bytes bytes;
	struct pressure psi;
	struct cgroup cg;
	struct fixture fx;

	fixture_open(&fx, "0::/a\n"); /* and cg/ is empty */
	assert_int_equal(read_bytes(&fx), -ENOENT);
	cgroup_init(&cg, fx.procfs_fd, fx.cgroupfs_fd, 8); /* no such process */
	assert_int_equal(cgroup_read_bytes(&cg, fx.now_ns, &bytes), -ENOENT);
	cgroup_close(&cg);
	cgroup_init(&cg, -1, -1, 7);
	assert_int_equal(cgroup_read_bytes(&cg, fx.now_ns, &bytes), -ENOENT);
	assert_int_equal(cgroup_read_pressure(&cg, fx.now_ns, &psi), -ENOENT);
	cgroup_close(&cg);
	fixture_close(&fx);
}

/* Field case 8: a removed group is gone, not its parent's; one made again is found again. */
static void test_removed(void **state)
{
	struct fixture fx;

	fixture_open(&fx, "0::/a/b\n");
	write_v2_root(&fx);
	write_v2(&fx, "", 1000, "max", "max", 0);
	write_v2(&fx, "/a", 100, "max", "max", 0);
	write_v2(&fx, "/a/b", 10, "max", "max", 0);
	assert_int_equal(read_bytes(&fx), 0);
	tree_remove(&fx.tree, "cg/a/b");
	assert_int_equal(read_bytes(&fx), -ENODEV);
	for (int i = 0; i < 3; i++) {
		later(&fx);
		assert_int_equal(read_bytes(&fx), -ENODEV);
	}
	tree_write(&fx.tree, "proc/7/cgroup", "0::/a/b (deleted)\n");
	later(&fx);
	assert_int_equal(read_bytes(&fx), -ENODEV);

	tree_write(&fx.tree, "proc/7/cgroup", "0::/a/b\n");
	write_v2(&fx, "/a/b", 20, "max", "max", 0);
	later(&fx);
	assert_int_equal(read_bytes(&fx), 0);
	assert_int_equal(fx.bytes.current_bytes, 20);

	/* the group without its accounting: still a failure when it is looked up again */
	tree_remove(&fx.tree, "cg/a/b/memory.current");
	assert_int_equal(read_bytes(&fx), -ENODEV);
	later(&fx);
	assert_int_equal(read_bytes(&fx), -ENODEV);
	fixture_close(&fx);
}

/* A process that moves is followed within a second; one that exits keeps its group. */
static void test_moved(void **state)
{
	struct fixture fx;

	fixture_open(&fx, "0::/a\n");
	write_v2_root(&fx);
	write_v2(&fx, "/a", 10, "max", "4096", 0);
	write_v2(&fx, "/b", 20, "max", "max", 0);
	assert_int_equal(read_bytes(&fx), 0);
	tree_write(&fx.tree, "proc/7/cgroup", "0::/b\n");
	later(&fx);
	assert_int_equal(read_bytes(&fx), 0);
	assert_int_equal(fx.bytes.current_bytes, 20);
	assert_int_equal(fx.bytes.headroom_bytes, UINT64_MAX);

	tree_remove(&fx.tree, "proc/7");
	later(&fx);
	assert_int_equal(read_bytes(&fx), 0);
	/* The pid again: another process. */
	tree_write(&fx.tree, "proc/7/cgroup", "0::/a\n");
	later(&fx);
	assert_int_equal(read_bytes(&fx), 0);
	assert_int_equal(fx.bytes.current_bytes, 20);
	fixture_close(&fx);
}

/*
 * A pinned reader stays with its group wherever the process goes, also when that is removed and
 * made again; and it knows its own group and the ancestors by their ids.
 */
static void test_pinned(void **state)
{
	struct fixture fx;
	struct stat st;

	fixture_open(&fx, "0::/a/b\n");
	write_v2_root(&fx);
	write_v2(&fx, "/a", 10, "max", "4096", 0);
	write_v2(&fx, "/a/b", 20, "max", "max", 0);
	write_v2(&fx, "/c", 30, "max", "max", 0);
	assert_int_equal(read_bytes(&fx), 0);
	cgroup_pin(&fx.cg);
	cgroup_pin(&fx.cg);
	tree_write(&fx.tree, "proc/7/cgroup", "0::/c\n");
	later(&fx);
	assert_int_equal(read_bytes(&fx), 0);
	assert_int_equal(fx.bytes.current_bytes, 20);

	tree_remove(&fx.tree, "cg/a/b");
	later(&fx);
	assert_int_equal(read_bytes(&fx), -ENODEV);
	later(&fx);
	assert_int_equal(read_bytes(&fx), -ENODEV);
	write_v2(&fx, "/a/b", 25, "max", "max", 0);
	later(&fx);
	assert_int_equal(read_bytes(&fx), 0);
	assert_int_equal(fx.bytes.current_bytes, 25);

	for (int i = 0; i < 4; i++) {
		static const char *const names[] = { "a/b", "a", ".", "c" };

		assert_int_equal(fstatat(fx.cgroupfs_fd, names[i], &st, 0), 0);
		assert_int_equal(cgroup_is_within(&fx.cg, st.st_ino), i < 3);
	}
	assert_false(cgroup_is_within(&fx.cg, 0));
	fixture_close(&fx);
}

/* Any file of the chain that turns bad fails the read and leaves the caller's values alone. */
static void test_bad_files(void **state)
{
	static const struct {
		const char *name, *text;
		int err;
	} cases[] = {
		{ "cg/a/memory.current", "", -EBADMSG },
		{ "cg/a/memory.current", "max\n", -EBADMSG },
		{ "cg/a/memory.max", "81", -EBADMSG },
		{ "cg/a/memory.high", "-1\n", -EBADMSG },
		{ "cg/a/memory.stat", "anon 1\n", -EBADMSG },
		{ "cg/a/memory.stat", "inactive_file 40", -EBADMSG },
		{ "cg/a/memory.current", NULL, -ENODEV },
		{ "cg/a/memory.max", NULL, -ENODEV },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture fx;
		int err;

		fixture_open(&fx, "0::/a/b\n");
		write_v2_root(&fx);
		write_v2(&fx, "/a", 100, "max", "8192", 0);
		write_v2(&fx, "/a/b", 10, "max", "max", 0);
		/* the group with the limit is the process's own in half of the cases */
		if (i % 2)
			tree_write(&fx.tree, "proc/7/cgroup", "0::/a\n");
		assert_int_equal(read_bytes(&fx), 0);
		if (cases[i].text)
			tree_write(&fx.tree, cases[i].name, "%s", cases[i].text);
		else
			tree_remove(&fx.tree, cases[i].name);
		err = read_bytes(&fx);
		if (err != cases[i].err)
			fail_msg("%s \"%s\": %d, not %d", cases[i].name, cases[i].text, err,
				 cases[i].err);
		assert_int_equal(fx.bytes.headroom_bytes, 8092);

		write_v2(&fx, "/a", 200, "max", "8192", 0);
		later(&fx);
		assert_int_equal(read_bytes(&fx), 0);
		assert_int_equal(fx.bytes.headroom_bytes, 7992);
		fixture_close(&fx);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_headroom),
		cmocka_unit_test(test_ancestor_limit),
		cmocka_unit_test(test_leaf_without_controller),
		cmocka_unit_test(test_nested),
		cmocka_unit_test(test_hybrid),
		cmocka_unit_test(test_v1_alone),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_container_root),
		cmocka_unit_test(test_v2_root),
		cmocka_unit_test(test_nothing_there),
		cmocka_unit_test(test_removed),
		cmocka_unit_test(test_moved),
		cmocka_unit_test(test_pinned),
		cmocka_unit_test(test_bad_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
