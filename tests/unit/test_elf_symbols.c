/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions in the C library's file, compared with where they are; and damaged files. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/elf_symbols.h"

static const char *const names[] = { "a64l", "no_such_function", "l64a", "environ" };

static int open_libc(void)
{
	Dl_info info;
	int fd;

	assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "a64l"), &info), 0);
	fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void test_found(void **state)
{
	uint64_t offsets[4];
	char there[16];
	int fd = open_libc();

	assert_int_equal(elf_symbols_find(fd, names, 4, offsets), 2);
	assert_int_equal(offsets[1], 0);
	assert_int_equal(offsets[3], 0); /* data */
	for (int i = 0; i < 3; i += 2) {
		assert_int_equal(pread(fd, there, sizeof(there), (off_t)offsets[i]), sizeof(there));
		assert_memory_equal(there, dlsym(RTLD_DEFAULT, names[i]), sizeof(there));
	}
	close(fd);
}

/* The header, the tables and the names, cut short or changed: an error or an answer, no more. */
static void test_damaged(void **state)
{
	int libc = open_libc(), fd = memfd_create("elf", MFD_CLOEXEC);
	off_t size = lseek(libc, 0, SEEK_END);
	uint64_t offsets[4];
	char *image = malloc((size_t)size);

	assert_int_equal(pread(libc, image, (size_t)size, 0), size);
	for (off_t cut = 0; cut < size; cut += cut < 1024 ? 7 : size / 50) {
		assert_int_equal(ftruncate(fd, cut), 0);
		assert_int_equal(pwrite(fd, image, (size_t)cut, 0), cut);
		assert_true(elf_symbols_find(fd, names, 4, offsets) < 0);
	}
	assert_int_equal(pwrite(fd, image, (size_t)size, 0), size);
	srand(1);
	for (int round = 0; round < 3000; round++) {
		/* Half of them in the ELF header, the others in the section headers at the end. */
		off_t at = rand() % 2 ? rand() % 64 : size - 1 - rand() % 4096;
		char byte = (char)rand();

		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
		elf_symbols_find(fd, names, 4, offsets);
		assert_int_equal(pwrite(fd, image + at, 1, at), 1);
	}
	assert_int_equal(elf_symbols_find(fd, names, 4, offsets), 2);
	free(image);
	close(fd);
	close(libc);
	assert_int_equal(elf_symbols_find(-1, names, 4, offsets), -EBADF);
	fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	assert_true(elf_symbols_find(fd, names, 4, offsets) < 0);
	close(fd);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests_name("elf_symbols", tests, NULL, NULL);
}
