/* SPDX-License-Identifier: BSD-2-Clause */
/* libcuda in made-up and in real /proc/PID/maps. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/cuda_maps.h"
#include "host_tree.h"

#define LIB "/usr/lib/x86_64-linux-gnu/"

static int read_maps(const char *text, struct cuda_map *ret, size_t max)
{
	struct host_tree tree;
	int fd, n;

	tree_make(&tree);
	tree_write(&tree, "7/maps", "%s", text);
	fd = tree_opendir(&tree, ".");
	n = cuda_maps_read(fd, 7, ret, max);
	close(fd);
	tree_free(&tree);
	return n;
}

static void test_found(void **state)
{
	struct cuda_map maps[4];
	int n;

	n = read_maps(
		"7f0000000000-7f0000001000 r--p 00000000 103:02 77 " LIB "libcuda.so.535.1\n"
		"7f0000001000-7f0000403000 r-xp 00001000 103:02 77    " LIB "libcuda.so.535.1\n"
		"7f0000403000-7f0000404000 rw-p 00403000 103:02 77 " LIB "libcuda.so.535.1\n"
		"7f0001000000-7f0001001000 r-xp 00001000 103:02 77 " LIB "libcuda.so.1\n"
		"7f0002000000-7f0002001000 r-xp 00000000 00:2f 9 /opt/a b/libcuda.so (deleted)\n"
		"7ffe00000000-7ffe00001000 r-xp 00000000 00:00 0 [vdso]\n",
		maps, 4);
	assert_int_equal(n, 2); /* a file mapped twice is one */
	assert_true(maps[0].start == 0x7f0000001000 && maps[0].end == 0x7f0000403000);
	assert_int_equal(maps[0].dev_major, 0x103);
	assert_int_equal(maps[0].dev_minor, 2);
	assert_int_equal(maps[0].inode, 77);
	assert_int_equal(maps[1].inode, 9);
	assert_int_equal(maps[1].dev_minor, 0x2f);
}

static void test_not_found(void **state)
{
	static const char *const texts[] = {
		"",
		"7f0000001000-7f0000403000 r--p 00001000 103:02 77 " LIB "libcuda.so.1\n",
		"7f0000001000-7f0000403000 r-xp 00001000 103:02 77 " LIB "libcudart.so.12\n",
		"7f0000001000-7f0000403000 r-xp 00001000 103:02 77 " LIB "libcuda.sox\n",
		"7f0000001000-7f0000403000 r-xp 00001000 103:02 77 " LIB "xlibcuda.so.1\n",
		"7f0000001000-7f0000403000 r-xp 00001000 103:02 77 /libcuda.so.1/other\n",
		"7f0000001000-7f0000403000 r-xp 00001000 00:00 0 /libcuda.so.1\n",
		"7f0000001000-7f0000403000 r-xp 00001000 103:02 77 " LIB "libcuda.so.1", /* cut */
		"/libcuda.so.1\n",
		"x-y r-xp 0 0:0 7 /libcuda.so.1\n",
		"7f0000001000-7f0000403000 r-xp 00001000 103:02 /libcuda.so.1\n",
	};
	struct cuda_map map;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(read_maps(texts[i], &map, 1), 0);
	assert_int_equal(cuda_maps_read(-1, 7, &map, 1), -EBADF);
}

/* Longer than any buffer, with lines on its edges and one that never ends. */
static void test_long(void **state)
{
	static char text[400000];
	struct cuda_map maps[2];

	for (size_t shift = 0; shift < 200; shift += 7) {
		size_t n = 0;

		for (int i = 0; i < 1000; i++)
			n += (size_t)sprintf(text + n, "7f00-7f01 r-xp 0 0:1 5 /lib/%0*d\n",
					     (int)shift + 1, i);
		n += (size_t)sprintf(text + n, "7f10-7f11 r-xp 0 0:1 6 /lib/libcuda.so.1\n");
		memset(text + n, 'x', 100000);
		n += 100000;
		n += (size_t)sprintf(text + n, "\n7f20-7f21 r-xp 0 0:1 7 /lib/libcuda.so.1\n");
		assert_true(n < sizeof(text));
		assert_int_equal(read_maps(text, maps, 2), 2);
		assert_int_equal(maps[0].inode, 6);
		assert_int_equal(maps[1].inode, 7);
	}
}

static void test_real(void **state)
{
	struct cuda_map map;
	int fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), before = open_descriptors();

	assert_int_equal(cuda_maps_read(fd, getpid(), &map, 1), 0);
	assert_int_equal(cuda_maps_read(fd, 1 << 30, &map, 1), -ENOENT);
	assert_int_equal(open_descriptors(), before);
	close(fd);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_not_found),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests_name("cuda_maps", tests, NULL, NULL);
}
