/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Model files: opens a GGUF file, finds the other parts of a split one, and has core/gguf.c read
 * their headers by pread. Not mmap: a file that shrinks while it is read is then an error here,
 * not a SIGBUS in the engine.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/gguf.h"

/* "-00001-of-00012.gguf", what gguf-split appends to a name. */
#define SUFFIX_BYTES 20
/* Parts believed: the largest models in public come in fewer than 200. */
#define MAX_PARTS 1000

static int source_pread(void *ctx, uint64_t offset, void *buf, size_t len)
{
	int fd = *(int *)ctx;
	char *to = buf;

	while (len) {
		ssize_t n = pread(fd, to, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return -ENODATA;
		to += n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static int file_fail(pn_model_error *err, int r, const char *what, unsigned file_no)
{
	*err = (pn_model_error){ .err = r, .what = what, .file_no = file_no };
	return r;
}

/* O_NONBLOCK: opening a FIFO must not wait for its writer before it is refused. */
static int read_file(const char *path, unsigned file_no, struct gguf_info *info,
		     pn_model_error *err)
{
	struct gguf_source source = { .read = source_pread };
	struct stat st;
	int fd, r;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return file_fail(err, -errno, "file could not be opened", file_no);
	if (fstat(fd, &st) < 0) {
		r = file_fail(err, -errno, "file could not be examined", file_no);
		goto out;
	}
	if (!S_ISREG(st.st_mode)) {
		r = file_fail(err, -EINVAL, "not a regular file", file_no);
		goto out;
	}
	source.ctx = &fd;
	source.size_bytes = (uint64_t)st.st_size;
	r = gguf_read(&source, file_no, info, err);
out:
	close(fd);
	return r;
}

/* Parses NAME-00001-of-00012.gguf; false if the name is not of that form. */
static bool parse_part_name(const char *path, size_t *ret_stem, unsigned *ret_no,
			    unsigned *ret_count)
{
	size_t len = strlen(path);
	const char *s;
	int end = 0;

	if (len <= SUFFIX_BYTES)
		return false;
	s = path + len - SUFFIX_BYTES;
	if (strspn(s + 1, "0123456789") != 5 || strspn(s + 10, "0123456789") != 5 ||
	    sscanf(s, "-%5u-of-%5u.gguf%n", ret_no, ret_count, &end) != 2 || end != SUFFIX_BYTES)
		return false;
	*ret_stem = len - SUFFIX_BYTES;
	return *ret_no >= 1 && *ret_no <= *ret_count;
}

static int check_part(const struct gguf_info *info, unsigned no, unsigned count,
		      pn_model_error *err)
{
	if (!info->split_count.seen || info->split_count.v != count)
		return file_fail(err, -EBADMSG, "split.count is not the number in the name", no);
	if (!info->split_no.seen || info->split_no.v != no - 1)
		return file_fail(err, -EBADMSG, "split.no is not the number in the name", no);
	return 0;
}

/* All parts in order. part is the path's buffer, whose number is rewritten in place. */
static int read_parts(char *part, size_t stem, unsigned count, struct gguf_info *info,
		      pn_model_error *err)
{
	struct gguf_number expected = { .seen = false };
	uint64_t n_tensors = 0;

	for (unsigned no = 1; no <= count; no++) {
		int r;

		snprintf(part + stem, SUFFIX_BYTES + 1, "-%05u-of-%05u.gguf", no, count);
		r = read_file(part, no, info, err);
		/* A file may bear such a name and be whole. */
		if (!r && count == 1 && !info->split_count.seen)
			return 0;
		if (!r)
			r = check_part(info, no, count, err);
		if (r)
			return r;
		if (no == 1)
			expected = info->split_tensors;
		n_tensors += info->n_tensors;
	}
	if (expected.seen && expected.v != n_tensors)
		return file_fail(err, -EBADMSG, "split.tensors.count is not the parts' sum", count);
	return 0;
}

int pn_model_read_gguf(const char *path, pn_model *ret, pn_model_error *ret_err)
{
	struct gguf_info *info = calloc(1, sizeof(*info));
	char *part = strdup(path);
	pn_model_error err = { 0 };
	unsigned no, count;
	size_t stem;
	int r;

	if (!info || !part)
		r = file_fail(&err, -ENOMEM, "out of memory", 1);
	else if (!parse_part_name(path, &stem, &no, &count))
		r = read_file(path, 1, info, &err);
	else if (count > MAX_PARTS)
		r = file_fail(&err, -EFBIG, "split into more than 1000 files", no);
	else
		r = read_parts(part, stem, count, info, &err);
	if (!r && info->split_count.seen && info->split_count.v > 1 &&
	    !parse_part_name(path, &stem, &no, &count))
		r = file_fail(&err, -EINVAL, "split file not named NAME-00001-of-000NN.gguf", 1);
	if (!r)
		r = gguf_model(info, ret, &err);
	free(part);
	free(info);
	if (r && ret_err)
		*ret_err = err;
	return r;
}
