/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GGUF files made in memory, for the tests of what reads them: a tiny writer, two whole models and
 * describe(), which reads one back. Include after cmocka.h.
 */
#ifndef PNMEM_TESTS_GGUF_WRITER_H
#define PNMEM_TESTS_GGUF_WRITER_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/gguf.h"

/* Value types, and the tensor types used by name. */
enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 };
enum { T_F32 = 0, T_F16 = 1, T_Q4_0 = 2, T_UNKNOWN = 200 };

struct file {
	uint8_t bytes[32768];
	size_t n;
	uint64_t n_keys;
	uint64_t n_tensors;
};

static inline void put(struct file *f, uint64_t v, unsigned n_bytes)
{
	assert_true(f->n + n_bytes <= sizeof(f->bytes));
	for (unsigned i = 0; i < n_bytes; i++)
		f->bytes[f->n++] = (uint8_t)(v >> 8 * i);
}

static inline void put_string(struct file *f, const char *s)
{
	put(f, strlen(s), 8);
	while (*s)
		put(f, (uint8_t)*s++, 1);
}

static inline void start(struct file *f, uint32_t version)
{
	f->n = 0;
	f->n_keys = f->n_tensors = 0;
	put(f, 0x46554747, 4);
	put(f, version, 4);
	put(f, 0, 8);
	put(f, 0, 8);
}

static inline void key(struct file *f, const char *name, uint32_t type)
{
	put_string(f, name);
	put(f, type, 4);
	f->n_keys++;
}

static inline void key_u32(struct file *f, const char *name, uint32_t v)
{
	key(f, name, U32);
	put(f, v, 4);
}

static inline void key_string(struct file *f, const char *name, const char *v)
{
	key(f, name, STRING);
	put_string(f, v);
}

static inline void key_array(struct file *f, const char *name, uint32_t type, uint64_t count)
{
	key(f, name, ARRAY);
	put(f, type, 4);
	put(f, count, 8);
}

static inline void tensor(struct file *f, const char *name, uint64_t row, uint64_t rows,
			  uint32_t type, uint64_t offset)
{
	put_string(f, name);
	put(f, 2, 4);
	put(f, row, 8);
	put(f, rows, 8);
	put(f, type, 4);
	put(f, offset, 8);
	f->n_tensors++;
}

/* Fills in the counts and appends data_bytes of tensor data after the alignment. */
static inline void finish(struct file *f, uint32_t alignment, size_t data_bytes)
{
	size_t end = f->n;

	f->n = 8;
	put(f, f->n_tensors, 8);
	put(f, f->n_keys, 8);
	f->n = end;
	if (f->n_tensors) {
		while (f->n % alignment)
			put(f, 0, 1);
	}
	while (data_bytes--)
		put(f, 0xee, 1);
}

static inline int read_memory(void *ctx, uint64_t offset, void *buf, size_t len)
{
	struct file *f = ctx;

	assert_true(len >= 1 && len <= GGUF_WINDOW_BYTES);
	assert_true(offset <= f->n && len <= f->n - offset);
	memcpy(buf, f->bytes + offset, len);
	return 0;
}

/* Reads and describes; the error's file number and message are checked on the way. */
static inline int describe(struct file *f, pn_model *ret, pn_model_error *err)
{
	struct gguf_source source = { .read = read_memory, .ctx = f, .size_bytes = f->n };
	static struct gguf_info info;
	int r;

	memset(&info, 0, sizeof(info));
	memset(err, 0, sizeof(*err));
	r = gguf_read(&source, 1, &info, err);
	if (!r)
		r = gguf_model(&info, ret, err);
	if (r) {
		assert_int_equal(err->err, r);
		assert_non_null(err->what);
		assert_int_equal(err->file_no, 1);
		assert_true(err->offset_bytes <= f->n);
	}
	return r;
}

static inline void start_arch(struct file *f, const char *arch, const char *const *names,
			      const uint32_t *values)
{
	char name[96];

	start(f, 3);
	key_string(f, "general.architecture", arch);
	for (; *names; names++, values++) {
		snprintf(name, sizeof(name), "%s.%s", arch, *names);
		key_u32(f, name, *values);
	}
}

/* A small but whole hybrid model; with the geometry of Qwen3.5-35B-A3B. */
static inline void qwen35(struct file *f, uint32_t version)
{
	start(f, version);
	key_string(f, "general.architecture", "qwen35moe");
	key_string(f, "general.name", "a model");
	key_array(f, "tokenizer.ggml.tokens", STRING, 3);
	put_string(f, "a");
	put_string(f, "");
	put_string(f, "a longer token");
	key_array(f, "tokenizer.ggml.scores", F32, 5);
	for (int i = 0; i < 5; i++)
		put(f, 0x3f800000, 4);
	key(f, "general.quantized", BOOL);
	put(f, 1, 1);
	key_u32(f, "qwen35moe.block_count", 40);
	key(f, "qwen35moe.context_length", U64);
	put(f, 262144, 8);
	key_u32(f, "qwen35moe.embedding_length", 2048);
	key_u32(f, "qwen35moe.attention.head_count", 16);
	key(f, "qwen35moe.attention.head_count_kv", I16);
	put(f, 2, 2);
	key_u32(f, "qwen35moe.attention.key_length", 256);
	key_u32(f, "qwen35moe.attention.value_length", 256);
	key_u32(f, "qwen35moe.full_attention_interval", 4);
	key_u32(f, "qwen35moe.ssm.conv_kernel", 4);
	key_u32(f, "qwen35moe.ssm.inner_size", 4096);
	key_u32(f, "qwen35moe.ssm.state_size", 128);
	key_u32(f, "qwen35moe.ssm.time_step_rank", 32);
	key_u32(f, "qwen35moe.ssm.group_count", 16);
	tensor(f, "token_embd.weight", 32, 10, T_Q4_0, 0);
	tensor(f, "blk.0.attn_qkv.weight", 8, 3, T_F32, 192);
	tensor(f, "blk.39.attn_q.weight", 8, 4, T_F16, 288);
	tensor(f, "output_norm.weight", 8, 1, T_F32, 352);
	finish(f, 32, 384);
}

static inline void minimal(struct file *f)
{
	start_arch(f, "llama",
		   (const char *const[]){ "block_count", "embedding_length", "attention.head_count",
					  NULL },
		   (const uint32_t[]){ 1, 64, 1 });
}

#endif
