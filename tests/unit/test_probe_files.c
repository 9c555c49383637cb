/* SPDX-License-Identifier: BSD-2-Clause */
/* Which files are tried and probed, among users who map as many as they like. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "core/probe_files.h"

static struct probe_files files;

static int reset(void **unused)
{
	memset(&files, 0, sizeof(files));
	return 0;
}

static struct probe_file *see(uint32_t uid, uint64_t inode)
{
	const struct probe_key key = { 8, 1, inode };
	const struct probe_mapping mapping = { 7, uid, 4096, 8192 };

	return probe_files_see(&files, &key, &mapping, false);
}

static void try_bad(uint64_t inode)
{
	struct probe_file *file = probe_files_next(&files);

	assert_non_null(file);
	assert_int_equal(file->key.inode, inode);
	probe_files_bad(&files, file, NULL);
}

static void use(uint32_t uid, uint64_t inode)
{
	struct probe_file *file = see(uid, inode), *leaves;

	assert_ptr_equal(probe_files_next(&files), file);
	assert_true(probe_files_has_place(&files, file, &leaves));
	if (leaves)
		probe_files_forget(leaves);
	probe_files_use(file);
}

static bool is_used(uint64_t inode)
{
	for (size_t i = 0; i < PROBE_FILES_MAX; i++)
		if (files.file[i].state == PROBE_USED && files.file[i].key.inode == inode)
			return true;
	return false;
}

/* More files that are no library than there is room for, and then a library of the same user. */
static void test_bad_files_take_no_place(void **unused)
{
	for (uint64_t inode = 1; inode <= 1000; inode++) {
		if (see(1000, inode))
			try_bad(inode);
		files.round += inode % 50 == 0;
	}
	files.round++;
	use(1000, 5000);
	use(1001, 5001);
	assert_int_equal(probe_files_count(&files, PROBE_USED), 2);
}

/* What one user can have tried in one round is bounded, and others come through. */
static void test_tries_are_bounded(void **unused)
{
	unsigned tried = 0;

	for (uint64_t inode = 1; inode <= 10000; inode++) {
		if (!see(1000, inode))
			continue;
		try_bad(inode);
		tried++;
	}
	assert_true(tried <= PROBE_FILES_MAX);
	use(1001, 20000);
	assert_true(is_used(20000));
}

static void test_one_try_of_each_user(void **unused)
{
	struct probe_file *hangs;

	see(1000, 1);
	hangs = probe_files_next(&files);
	assert_int_equal(hangs->key.inode, 1);
	see(1000, 2);
	assert_null(probe_files_next(&files));
	use(1001, 3);
	probe_files_bad(&files, hangs, NULL);
	try_bad(2);
	for (uint32_t uid = 0; uid < PROBE_TRIES_MAX; uid++) {
		assert_non_null(see(uid, 100 + uid));
		assert_non_null(probe_files_next(&files));
	}
	see(2000, 200);
	assert_null(probe_files_next(&files));
}

/* Rounds after which a file that stays bad is tried. */
static void test_retries_grow_rare(void **unused)
{
	static const uint32_t at[] = { 0, 2, 6, 14, 30, 62, 94, 126 };
	size_t n = 0;

	for (files.round = 0; files.round < 127; files.round++) {
		see(1000, 1);
		if (!probe_files_next(&files))
			continue;
		assert_true(n < sizeof(at) / sizeof(at[0]));
		assert_int_equal(files.round, at[n++]);
		probe_files_bad(&files, &files.file[0], NULL);
	}
	assert_int_equal(n, sizeof(at) / sizeof(at[0]));
}

/* Users with fewer files get places of those with more; nobody loses one to a user with as many. */
static void test_places_are_shared(void **unused)
{
	struct probe_file *file, *leaves;

	for (uint64_t i = 0; i < PROBE_USED_MAX; i++)
		use(1000, i + 1);
	for (uint64_t i = 0; i < PROBE_USED_MAX / 2; i++)
		use(1001, i + 101);
	assert_int_equal(probe_files_count(&files, PROBE_USED), PROBE_USED_MAX);
	assert_false(is_used(1)); /* the oldest left */
	assert_true(is_used(PROBE_USED_MAX));
	for (int i = 0; i < 8; i++)
		assert_true(is_used(101 + (uint64_t)i));
	file = see(1001, 200);
	assert_ptr_equal(probe_files_next(&files), file);
	assert_false(probe_files_has_place(&files, file, &leaves));
	assert_null(leaves);
	probe_files_bad(&files, file, NULL);
	use(1002, 300);
	assert_true(is_used(300));
}

/* The driver's own file, which many use, does not leave for those of the user who came first. */
static void test_shared_file_stays(void **unused)
{
	use(1000, 1);
	see(1001, 1);
	for (uint64_t i = 1; i < PROBE_USED_MAX; i++)
		use(1000, i + 1);
	use(1002, 100);
	assert_true(is_used(1));
	assert_false(is_used(2));
}

static void test_unused_leave(void **unused)
{
	struct probe_file *file;

	use(1000, 1);
	use(1000, 2);
	assert_null(probe_files_unused(&files));
	files.round++;
	see(1000, 2);
	file = probe_files_unused(&files);
	assert_non_null(file);
	assert_int_equal(file->key.inode, 1);
	probe_files_forget(file);
	assert_null(probe_files_unused(&files));
	/*
	 * Where rounds are not whole, one that was long not seen leaves when its place is needed.
	 */
	for (uint64_t i = 1; i < PROBE_USED_MAX; i++)
		use((uint32_t)(2000 + i), i + 10);
	files.round += 2;
	for (uint64_t i = 1; i < PROBE_USED_MAX; i++)
		see((uint32_t)(2000 + i), i + 10);
	use(3000, 100);
	assert_false(is_used(2));
	assert_int_equal(probe_files_count(&files, PROBE_USED), PROBE_USED_MAX);
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_bad_files_take_no_place),
		TEST(test_tries_are_bounded),
		TEST(test_one_try_of_each_user),
		TEST(test_retries_grow_rare),
		TEST(test_places_are_shared),
		TEST(test_shared_file_stays),
		TEST(test_unused_leave),
	};

	return cmocka_run_group_tests_name("probe_files", tests, NULL, NULL);
}
