/* SPDX-License-Identifier: BSD-2-Clause */
/* Model files on disk: whole, split, with parts missing or mixed up, and what is no file. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "gguf_writer.h"

static char folder[] = "/tmp/test_model_file.XXXXXX";

static const char *path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void store(const struct file *f, const char *name)
{
	int fd = open(path_of(name), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, f->bytes, f->n), f->n);
	close(fd);
}

static int make_folder(void **state)
{
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char command[300];

	snprintf(command, sizeof(command), "rm -r '%s'", folder);
	return system(command);
}

static void split_keys(struct file *f, uint32_t no, uint32_t count, int32_t n_tensors)
{
	key(f, "split.no", U16);
	put(f, no, 2);
	key(f, "split.count", U16);
	put(f, count, 2);
	key(f, "split.tensors.count", I32);
	put(f, (uint32_t)n_tensors, 4);
}

/* Part no (from 1) of three; the first has the keys, each has one layer's tensor. */
static void store_part(const char *name, uint32_t no, uint32_t said_no, uint32_t count,
		       int32_t n_tensors)
{
	static struct file f;
	char tensor_name[32];

	if (no == 1)
		start_arch(&f, "llama",
			   (const char *const[]){ "block_count", "embedding_length",
						  "attention.head_count", NULL },
			   (const uint32_t[]){ 3, 64, 1 });
	else
		start(&f, 3);
	split_keys(&f, said_no - 1, count, n_tensors);
	snprintf(tensor_name, sizeof(tensor_name), "blk.%u.x", no - 1);
	tensor(&f, tensor_name, 8, no, T_F32, 0);
	finish(&f, 32, 32 * no);
	store(&f, name);
}

static void test_whole_file(void **state)
{
	static struct file f;
	pn_model_error err = { 0 };
	pn_model m;

	qwen35(&f, 3);
	store(&f, "whole.gguf");
	assert_int_equal(pn_model_read_gguf(path_of("whole.gguf"), &m, &err), 0);
	assert_null(err.what);
	assert_int_equal(pn_model_kv_bytes_per_token(&m, PN_KV_Q4_0), 5760);
	/* The name alone does not make it a part. */
	store(&f, "whole-00001-of-00001.gguf");
	assert_int_equal(pn_model_read_gguf(path_of("whole-00001-of-00001.gguf"), &m, NULL), 0);

	f.n = 60;
	store(&f, "short.gguf");
	assert_int_equal(pn_model_read_gguf(path_of("short.gguf"), &m, &err), -ENODATA);
	assert_int_equal(err.file_no, 1);
	assert_true(err.offset_bytes <= 60);
	assert_int_equal(pn_model_read_gguf(path_of("short.gguf"), &m, NULL), -ENODATA);
}

static void test_split_file(void **state)
{
	static const char *const names[] = { "m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
					     "m-00003-of-00003.gguf" };
	pn_model_error err;
	pn_model m;

	for (uint32_t no = 1; no <= 3; no++)
		store_part(names[no - 1], no, no, 3, 3);
	/* By any of its parts. */
	for (uint32_t no = 1; no <= 3; no++) {
		memset(&m, 0, sizeof(m));
		assert_int_equal(pn_model_read_gguf(path_of(names[no - 1]), &m, &err), 0);
		assert_int_equal(m.n_layers, 3);
		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(m.layers[i].weights_bytes, 32 * (i + 1));
	}

	store_part(names[1], 2, 3, 3, 3);
	assert_int_equal(pn_model_read_gguf(path_of(names[0]), &m, &err), -EBADMSG);
	assert_non_null(strstr(err.what, "split.no"));
	assert_int_equal(err.file_no, 2);
	store_part(names[1], 2, 2, 4, 3);
	assert_int_equal(pn_model_read_gguf(path_of(names[0]), &m, &err), -EBADMSG);
	assert_non_null(strstr(err.what, "split.count"));
	store_part(names[1], 2, 2, 3, 3);
	store_part(names[0], 1, 1, 3, 4);
	assert_int_equal(pn_model_read_gguf(path_of(names[0]), &m, &err), -EBADMSG);
	assert_non_null(strstr(err.what, "split.tensors.count"));
	store_part(names[0], 1, 1, 3, 3);
	assert_int_equal(unlink(path_of(names[2])), 0);
	assert_int_equal(pn_model_read_gguf(path_of(names[0]), &m, &err), -ENOENT);
	assert_int_equal(err.file_no, 3);

	/* A part under a name that does not lead to the others. */
	store_part("part.gguf", 1, 1, 3, 3);
	assert_int_equal(pn_model_read_gguf(path_of("part.gguf"), &m, &err), -EINVAL);
	store_part("part.gguf", 1, 1, 1, 1);
	assert_int_equal(pn_model_read_gguf(path_of("part.gguf"), &m, &err), 0);
}

static void test_bad_paths(void **state)
{
	static const struct {
		const char *name;
		int r;
	} cases[] = {
		{ "none.gguf", -ENOENT },
		{ "none-00002-of-00003.gguf", -ENOENT },
		{ "none-00003-of-00002.gguf", -ENOENT },
		{ "none-00001-of-99999.gguf", -EFBIG },
		{ "fifo", -EINVAL },
		{ "", -EINVAL }, /* the folder */
		{ "empty", -ENODATA },
	};
	static struct file f;
	pn_model_error err;
	pn_model m;

	assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
	store(&f, "empty");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(pn_model_read_gguf(path_of(cases[i].name), &m, &err), cases[i].r);
		assert_int_equal(err.err, cases[i].r);
		assert_non_null(err.what);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_file),
		cmocka_unit_test(test_split_file),
		cmocka_unit_test(test_bad_paths),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
