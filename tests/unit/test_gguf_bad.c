/* SPDX-License-Identifier: BSD-2-Clause */
/* Bad GGUF headers: truncated, altered, hostile, endless. Each has its error and its reason. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gguf_writer.h"

static void test_every_truncation(void **state)
{
	static struct file f;
	pn_model_error err;
	pn_model m;
	size_t whole;

	qwen35(&f, 3);
	whole = f.n;
	for (f.n = 0; f.n < whole; f.n++)
		assert_int_equal(describe(&f, &m, &err), -ENODATA);
}

/* No byte can make it crash, read outside (asan), or return without a reason. */
static void test_every_byte_changed(void **state)
{
	static const uint8_t flips[] = { 0x01, 0x80, 0xff };
	static struct file f;
	pn_model_error err;
	unsigned bad = 0;
	pn_model m;

	qwen35(&f, 3);
	for (size_t i = 0; i < f.n; i++) {
		for (size_t j = 0; j < sizeof(flips); j++) {
			f.bytes[i] ^= flips[j];
			if (describe(&f, &m, &err))
				bad++;
			else
				assert_true(pn_model_weights_bytes(&m) <= f.n);
			f.bytes[i] ^= flips[j];
		}
	}
	assert_true(bad > 500);
}

static void hostile_magic(struct file *f)
{
	f->bytes[3] = 'T';
}

static void hostile_version_1(struct file *f)
{
	f->bytes[4] = 1;
}

static void hostile_version_4(struct file *f)
{
	f->bytes[4] = 4;
}

static void hostile_big_endian(struct file *f)
{
	f->bytes[4] = 0;
	f->bytes[7] = 3;
}

static void hostile_tensor_count(struct file *f)
{
	memset(f->bytes + 8, 0xff, 8);
}

static void hostile_key_count(struct file *f)
{
	memset(f->bytes + 16, 0xff, 8);
}

static void hostile_key_count_wraps(struct file *f)
{
	memset(f->bytes + 16, 0, 8);
	f->bytes[23] = 0x20; /* 2^61: times 8 is 0 */
}

static void hostile_key_length(struct file *f)
{
	memset(f->bytes + 24, 0xff, 8);
}

static void hostile_key_beyond_file(struct file *f)
{
	memset(f->bytes + 24, 0xff, 2);
}

static void hostile_arch_long(struct file *f)
{
	start(f, 3);
	key_string(f, "general.architecture", "a name of more than thirty-one bytes");
	finish(f, 32, 0);
}

static void hostile_arch_missing(struct file *f)
{
	start(f, 3);
	key_u32(f, "llama.block_count", 2);
	finish(f, 32, 0);
}

static void hostile_arch_number(struct file *f)
{
	start(f, 3);
	key_u32(f, "general.architecture", 2);
	finish(f, 32, 0);
}

static void hostile_arch_twice(struct file *f)
{
	minimal(f);
	key_string(f, "general.architecture", "llama");
	finish(f, 32, 0);
}

static void hostile_string_length(struct file *f)
{
	minimal(f);
	key(f, "general.name", STRING);
	put(f, UINT64_MAX - 7, 8);
	finish(f, 32, 64);
}

static void hostile_string_in_array(struct file *f)
{
	minimal(f);
	key_array(f, "tokenizer.ggml.tokens", STRING, 2);
	put_string(f, "a");
	put(f, 1ull << 63, 8);
	finish(f, 32, 64);
}

static void hostile_array_count(struct file *f)
{
	minimal(f);
	key_array(f, "tokenizer.ggml.scores", F32, (1ull << 62) + 1); /* times 4 wraps to 4 */
	finish(f, 32, 64);
}

static void hostile_array_of_strings_count(struct file *f)
{
	minimal(f);
	key_array(f, "tokenizer.ggml.tokens", STRING, UINT64_MAX);
	finish(f, 32, 64);
}

static void hostile_nested_array(struct file *f)
{
	minimal(f);
	key_array(f, "x", ARRAY, 1);
	finish(f, 32, 64);
}

static void hostile_value_type(struct file *f)
{
	minimal(f);
	key(f, "x", 13);
	finish(f, 32, 64);
}

static void hostile_element_type(struct file *f)
{
	minimal(f);
	key_array(f, "x", 13, 1);
	finish(f, 32, 64);
}

static void hostile_key_twice(struct file *f)
{
	minimal(f);
	key_u32(f, "llama.block_count", 1);
	finish(f, 32, 0);
}

static void hostile_array_key_twice(struct file *f)
{
	minimal(f);
	key_u32(f, "llama.attention.head_count", 1);
	finish(f, 32, 0);
}

static void hostile_alignment_twice(struct file *f)
{
	minimal(f);
	key_u32(f, "general.alignment", 32);
	key_u32(f, "general.alignment", 64);
	finish(f, 32, 0);
}

static void hostile_float_count(struct file *f)
{
	minimal(f);
	key(f, "llama.context_length", F32);
	put(f, 0x3f800000, 4);
	finish(f, 32, 0);
}

static void hostile_string_for_number(struct file *f)
{
	minimal(f);
	key_string(f, "llama.context_length", "4096");
	finish(f, 32, 0);
}

static void hostile_negative(struct file *f)
{
	minimal(f);
	key(f, "llama.attention.head_count_kv", I8);
	put(f, 0xff, 1);
	finish(f, 32, 0);
}

static void hostile_many_heads(struct file *f)
{
	minimal(f);
	key_u32(f, "llama.attention.head_count_kv", UINT32_MAX);
	finish(f, 32, 0);
}

static void hostile_long_per_layer(struct file *f)
{
	minimal(f);
	key_array(f, "llama.attention.head_count_kv", U8, 513);
	for (int i = 0; i < 513; i++)
		put(f, 1, 1);
	finish(f, 32, 0);
}

static void hostile_strings_per_layer(struct file *f)
{
	minimal(f);
	key_array(f, "llama.attention.head_count_kv", STRING, 1);
	put_string(f, "8");
	finish(f, 32, 0);
}

static void hostile_alignment_0(struct file *f)
{
	minimal(f);
	key_u32(f, "general.alignment", 0);
	finish(f, 32, 0);
}

static void hostile_alignment_24(struct file *f)
{
	minimal(f);
	key_u32(f, "general.alignment", 24);
	finish(f, 32, 0);
}

static void hostile_alignment_huge(struct file *f)
{
	minimal(f);
	key(f, "general.alignment", U64);
	put(f, 1ull << 63, 8);
	tensor(f, "blk.0.x", 8, 1, T_F32, 0);
	finish(f, 32, 64);
}

static void hostile_alignment_past_file(struct file *f)
{
	minimal(f);
	key_u32(f, "general.alignment", 1u << 31);
	tensor(f, "blk.0.x", 8, 1, T_UNKNOWN, 0);
	finish(f, 32, 64);
}

static void hostile_dims(struct file *f)
{
	minimal(f);
	put_string(f, "blk.0.x");
	put(f, 5, 4);
	f->n_tensors++;
	finish(f, 32, 64);
}

static void hostile_dims_wrap(struct file *f)
{
	minimal(f);
	tensor(f, "blk.0.x", 1ull << 32, 1ull << 32, T_F32, 0);
	finish(f, 32, 64);
}

static void hostile_dims_huge(struct file *f)
{
	minimal(f);
	tensor(f, "blk.0.x", 1ull << 25, 1ull << 25, 28, 0);
	finish(f, 32, 64);
}

static void hostile_row_no_blocks(struct file *f)
{
	minimal(f);
	tensor(f, "blk.0.x", 33, 32, T_Q4_0, 0);
	finish(f, 32, 4096);
}

static void hostile_layer(struct file *f)
{
	minimal(f);
	tensor(f, "blk.512.x", 8, 1, T_F32, 0);
	finish(f, 32, 64);
}

static void hostile_layer_wraps(struct file *f)
{
	minimal(f);
	tensor(f, "blk.4294967296.x", 8, 1, T_F32, 0);
	finish(f, 32, 64);
}

static void hostile_tensor_name(struct file *f)
{
	char name[1026];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	minimal(f);
	tensor(f, name, 8, 1, T_F32, 0);
	finish(f, 32, 64);
}

static void hostile_offset_unaligned(struct file *f)
{
	minimal(f);
	tensor(f, "blk.0.x", 8, 1, T_F32, 8);
	finish(f, 32, 64);
}

static void hostile_offset_huge(struct file *f)
{
	minimal(f);
	tensor(f, "blk.0.x", 8, 1, T_F32, UINT64_MAX - 31);
	finish(f, 32, 64);
}

static void hostile_offset_past_file(struct file *f)
{
	minimal(f);
	tensor(f, "blk.0.x", 8, 1, T_UNKNOWN, 1ull << 40);
	finish(f, 32, 64);
}

static void hostile_overlap(struct file *f)
{
	minimal(f);
	tensor(f, "blk.0.x", 8, 2, T_F32, 0);
	tensor(f, "blk.0.y", 8, 2, T_F32, 0);
	finish(f, 32, 64);
}

static void test_hostile(void **state)
{
	static const struct {
		void (*make)(struct file *f);
		int r;
		const char *what;
	} cases[] = {
		{ hostile_magic, -EBADMSG, "not a GGUF file" },
		{ hostile_version_1, -ENOTSUP, "GGUF version" },
		{ hostile_version_4, -ENOTSUP, "GGUF version" },
		{ hostile_big_endian, -ENOTSUP, "big-endian" },
		{ hostile_tensor_count, -EFBIG, "1000000 tensors" },
		{ hostile_key_count, -EFBIG, "65536 keys" },
		{ hostile_key_count_wraps, -EFBIG, "65536 keys" },
		{ hostile_key_length, -EBADMSG, "key longer" },
		{ hostile_key_beyond_file, -ENODATA, "ends inside" },
		{ hostile_arch_long, -EBADMSG, "architecture name" },
		{ hostile_arch_missing, -EINVAL, "no general.architecture" },
		{ hostile_arch_number, -EBADMSG, "not a string" },
		{ hostile_arch_twice, -EEXIST, "twice" },
		{ hostile_string_length, -ENODATA, "ends inside" },
		{ hostile_string_in_array, -ENODATA, "ends inside" },
		{ hostile_array_count, -ENODATA, "ends inside" },
		{ hostile_array_of_strings_count, -ENODATA, "ends inside" },
		{ hostile_nested_array, -EBADMSG, "array of arrays" },
		{ hostile_value_type, -EBADMSG, "unknown value type" },
		{ hostile_element_type, -EBADMSG, "element type" },
		{ hostile_key_twice, -EEXIST, "twice" },
		{ hostile_array_key_twice, -EEXIST, "twice" },
		{ hostile_alignment_twice, -EEXIST, "twice" },
		{ hostile_float_count, -EBADMSG, "whole number" },
		{ hostile_string_for_number, -EBADMSG, "whole number" },
		{ hostile_negative, -EBADMSG, "negative" },
		{ hostile_many_heads, -EINVAL, "implausible number of heads" },
		{ hostile_long_per_layer, -EFBIG, "512 elements" },
		{ hostile_strings_per_layer, -EBADMSG, "whole number" },
		{ hostile_alignment_0, -EBADMSG, "power of two" },
		{ hostile_alignment_24, -EBADMSG, "power of two" },
		{ hostile_alignment_huge, -EBADMSG, "power of two" },
		{ hostile_alignment_past_file, -ENODATA, "shorter than its tensors" },
		{ hostile_dims, -EBADMSG, "dimensions" },
		{ hostile_dims_wrap, -EBADMSG, "large tensor" },
		{ hostile_dims_huge, -ENODATA, "shorter than its tensors" },
		{ hostile_row_no_blocks, -EBADMSG, "whole blocks" },
		{ hostile_layer, -EFBIG, "layer over 511" },
		{ hostile_layer_wraps, -EFBIG, "layer over 511" },
		{ hostile_tensor_name, -EBADMSG, "tensor name" },
		{ hostile_offset_unaligned, -EBADMSG, "aligned" },
		{ hostile_offset_huge, -EBADMSG, "offset" },
		{ hostile_offset_past_file, -ENODATA, "shorter than its tensors" },
		{ hostile_overlap, -EBADMSG, "overlap" },
	};
	static struct file f;
	pn_model_error err;
	pn_model m, before;

	memset(&m, 0x5a, sizeof(m));
	before = m;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		qwen35(&f, 3);
		cases[i].make(&f);
		assert_int_equal(describe(&f, &m, &err), cases[i].r);
		if (!strstr(err.what, cases[i].what))
			fail_msg("case %zu: \"%s\" has no \"%s\"", i, err.what, cases[i].what);
		assert_memory_equal(&m, &before, sizeof(m));
	}
}

/* A source without end: what it repeats after the first bytes, and how often it was asked. */
struct endless {
	struct file *start;
	unsigned reads;
};

static int read_endless(void *ctx, uint64_t offset, void *buf, size_t len)
{
	struct endless *e = ctx;

	e->reads++;
	memset(buf, 0, len);
	if (offset < e->start->n)
		memcpy(buf, e->start->bytes + offset,
		       len < e->start->n - offset ? len : e->start->n - offset);
	return 0;
}

static int read_error(void *ctx, uint64_t offset, void *buf, size_t len)
{
	return -EIO;
}

static void test_bounded_work(void **state)
{
	static struct file f;
	static struct gguf_info info;
	struct endless e = { .start = &f };
	struct gguf_source source = { .read = read_endless, .ctx = &e, .size_bytes = 1ull << 45 };
	pn_model_error err;

	/* The most there is to do: a vocabulary of empty strings up to the limit. */
	minimal(&f);
	key_array(&f, "tokenizer.ggml.tokens", STRING, (1ull << 24) - 64);
	finish(&f, 32, 0);
	assert_int_equal(gguf_read(&source, 1, &info, &err), 0);
	assert_true(e.reads <= (128u << 20) / GGUF_WINDOW_BYTES + 1);

	/* One of 2^40, in a file that is said to hold them. */
	minimal(&f);
	key_array(&f, "tokenizer.ggml.tokens", STRING, 1ull << 40);
	finish(&f, 32, 0);
	e.reads = 0;
	memset(&info, 0, sizeof(info));
	assert_int_equal(gguf_read(&source, 1, &info, &err), -EFBIG);
	assert_string_equal(err.what, "header longer than 128 MiB");
	assert_true(e.reads <= 2);

	/* One array may be skipped as a whole; what follows it is past the limit. */
	minimal(&f);
	key_array(&f, "x", U8, (128u << 20) - 1024);
	finish(&f, 32, 0);
	memset(f.bytes + 16, 0, 8);
	f.bytes[17] = 1; /* 256 keys */
	e.reads = 0;
	memset(&info, 0, sizeof(info));
	assert_int_equal(gguf_read(&source, 1, &info, &err), -EFBIG);
	assert_string_equal(err.what, "header longer than 128 MiB");

	source.size_bytes = (1ull << 50) + 1;
	assert_int_equal(gguf_read(&source, 1, &info, &err), -EFBIG);
	source.read = read_error;
	source.size_bytes = 100;
	assert_int_equal(gguf_read(&source, 1, &info, &err), -EIO);
	assert_int_equal(err.offset_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_truncation),
		cmocka_unit_test(test_every_byte_changed),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_bounded_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
