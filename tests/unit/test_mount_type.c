/* SPDX-License-Identifier: BSD-2-Clause */
/* Mounts, real and made up. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/mount_type.h"
#include "host_tree.h"

static void test_real(void **state)
{
	int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), fd, before = open_descriptors();
	char type[MOUNT_TYPE_BYTES];

	fd = open("/proc/self/status", O_PATH | O_CLOEXEC);
	assert_int_equal(mount_type_of(proc, getpid(), fd, type), 0);
	assert_string_equal(type, "proc");
	assert_false(mount_type_is_local(type));
	close(fd);
	assert_int_equal(mount_type_of(proc, 1 << 30, proc, type), -ENOENT);
	assert_int_equal(open_descriptors(), before);
	close(proc);
}

/* A table in which the mount of the file is as `format` says. */
static int type_in(const char *format, char type[MOUNT_TYPE_BYTES])
{
	char line[64];
	struct host_tree tree;
	int id = -1, dir, r;
	FILE *file;

	tree_make(&tree);
	dir = tree_opendir(&tree, ".");
	snprintf(line, sizeof(line), "/proc/self/fdinfo/%d", dir);
	file = fopen(line, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "mnt_id: %d", &id) == 1)
			break;
	fclose(file);
	snprintf(line, sizeof(line), "%d", id);
	tree_write(&tree, "7/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n%s%s%s", line, format,
		   " 35 8:2 / /mnt rw - xfs /dev/sda2 rw\n");
	r = mount_type_of(dir, 7, dir, type);
	close(dir);
	tree_free(&tree);
	return r;
}

static void test_made_up(void **state)
{
	char type[MOUNT_TYPE_BYTES];

	assert_int_equal(type_in(" 35 0:40 / /a rw shared:1 master:2 - fuse.x x rw\n9", type), 0);
	assert_string_equal(type, "fuse.x");
	assert_int_equal(type_in(" 35 0:40 / /a\\040b rw - overlay none rw\n9", type), 0);
	assert_string_equal(type, "overlay");
	assert_int_equal(type_in(" 35 0:40 / /a rw\n9", type), -ENOENT);
	assert_int_equal(type_in("9 35 0:40 / /a rw - ext4 x rw\n9", type), -ENOENT);
	assert_int_equal(type_in(" - \n9", type), -ENOENT);
	assert_int_equal(type_in(" - aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa x\n9", type),
			 -ENOENT);
}

static void test_local(void **state)
{
	assert_true(mount_type_is_local("ext4"));
	assert_true(mount_type_is_local("tmpfs"));
	assert_false(mount_type_is_local("fuse"));
	assert_false(mount_type_is_local("fuseblk"));
	assert_false(mount_type_is_local("nfs4"));
	assert_false(mount_type_is_local("overlay"));
	assert_false(mount_type_is_local(""));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_real),
		cmocka_unit_test(test_made_up),
		cmocka_unit_test(test_local),
	};

	return cmocka_run_group_tests_name("mount_type", tests, NULL, NULL);
}
