/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Made-up procfs and cgroupfs trees for the host tests, and the files of tests/data. Include after
 * cmocka.h: a helper that fails fails the test.
 */
#ifndef PNMEM_TESTS_HOST_TREE_H
#define PNMEM_TESTS_HOST_TREE_H

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef PNMEM_TESTS_DATA
#define HOST_TREE_DATA PNMEM_TESTS_DATA
#else
#define HOST_TREE_DATA "tests/data"
#endif

#define HOST_TREE_SECOND_NS 1000000000ull

struct host_tree {
	char path[64];
	int fd;
};

static inline void tree_make(struct host_tree *tree)
{
	strcpy(tree->path, "/tmp/pnmem-host-XXXXXX");
	assert_non_null(mkdtemp(tree->path));
	tree->fd = open(tree->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(tree->fd >= 0);
}

static inline int tree_remove_one(const char *path, const struct stat *st, int type,
				  struct FTW *walk)
{
	return remove(path);
}

/* Removes a file or folder with all that is in it; "" is the tree itself. */
static inline void tree_remove(struct host_tree *tree, const char *name)
{
	char path[4400];

	snprintf(path, sizeof(path), "%s/%s", tree->path, name);
	assert_int_equal(nftw(path, tree_remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static inline void tree_free(struct host_tree *tree)
{
	close(tree->fd);
	tree_remove(tree, "");
}

/* Makes every folder above the last slash of name. */
static inline void tree_mkdirs(struct host_tree *tree, const char *name)
{
	char part[4400];

	snprintf(part, sizeof(part), "%s", name);
	for (char *slash = strchr(part, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (*part)
			mkdirat(tree->fd, part, 0755);
		*slash = '/';
	}
}

/* Writes a file in place, making its folders: a descriptor held on it sees the new text. */
__attribute__((format(printf, 3, 4))) static inline void
tree_write(struct host_tree *tree, const char *name, const char *format, ...)
{
	va_list args;
	int fd;

	tree_mkdirs(tree, name);
	fd = openat(tree->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	va_start(args, format);
	assert_true(vdprintf(fd, format, args) >= 0);
	va_end(args);
	close(fd);
}

static inline int tree_opendir(struct host_tree *tree, const char *name)
{
	int fd = openat(tree->fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

/* The text of a file of tests/data, in the caller's buffer, with a NUL. */
static inline size_t data_read(const char *name, char *buf, size_t cap_bytes)
{
	char path[256];
	size_t len;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", HOST_TREE_DATA, name);
	file = fopen(path, "re");
	if (!file)
		fail_msg("cannot open %s: run from the root of the repository", path);
	len = fread(buf, 1, cap_bytes - 1, file);
	buf[len] = '\0';
	fclose(file);
	return len;
}

/* Descriptors this process has open. */
static inline int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = -3; /* ".", ".." and the one this takes */

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

#endif
