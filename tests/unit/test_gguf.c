/* SPDX-License-Identifier: BSD-2-Clause */
/* Good GGUF headers: geometries of every form, tensor types, alignment, order of keys. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gguf_writer.h"

static void test_hybrid(void **state)
{
	static struct file f;
	pn_model_error err;
	pn_model m;

	for (uint32_t version = 2; version <= 3; version++) {
		qwen35(&f, version);
		assert_int_equal(describe(&f, &m, &err), 0);
		assert_string_equal(m.arch, "qwen35moe");
		assert_int_equal(m.n_layers, 40);
		assert_int_equal(m.context_tokens, 262144);
		assert_int_equal(pn_model_kv_bytes_per_token(&m, PN_KV_F32), 40960);
		assert_int_equal(pn_model_kv_bytes_per_token(&m, PN_KV_F16), 20480);
		assert_int_equal(pn_model_kv_bytes_per_token(&m, PN_KV_Q8_0), 10880);
		assert_int_equal(pn_model_kv_bytes_per_token(&m, PN_KV_Q4_0), 5760);
		assert_int_equal(pn_model_state_bytes(&m), 65863680); /* 62.8125 MiB */
		assert_int_equal(m.input_weights_bytes, 180);
		assert_int_equal(m.layers[0].weights_bytes, 96);
		assert_int_equal(m.layers[1].weights_bytes, 0);
		assert_int_equal(m.layers[39].weights_bytes, 64);
		assert_int_equal(m.output_weights_bytes, 32);
		assert_int_equal(pn_model_weights_bytes(&m), 372);
	}
}

/* Geometries told by plain numbers. */
static void test_geometries(void **state)
{
	static const struct {
		const char *arch;
		const char *const names[10];
		uint32_t values[10];
		int r;
		uint64_t kv_f16_bytes;
		uint64_t state_bytes;
	} cases[] = {
		{ "llama",
		  { "block_count", "embedding_length", "attention.head_count",
		    "attention.head_count_kv" },
		  { 32, 4096, 32, 8 },
		  0,
		  131072,
		  0 },
		/* No head_count_kv: as many as query heads. */
		{ "llama",
		  { "block_count", "embedding_length", "attention.head_count" },
		  { 32, 4096, 32 },
		  0,
		  524288,
		  0 },
		/* The first qwen3next files leave the interval unsaid. */
		{ "qwen3next",
		  { "block_count", "attention.head_count", "attention.head_count_kv",
		    "attention.key_length", "attention.value_length", "ssm.state_size",
		    "ssm.inner_size" },
		  { 8, 16, 2, 256, 256, 128, 4096 },
		  0,
		  2 * 2 * 512 * 2,
		  6 * 4 * 128 * 4096 },
		/* The 9th layer predicts the next token, with attention: not counted in the
		   interval. */
		{ "qwen35",
		  { "block_count", "attention.head_count", "attention.head_count_kv",
		    "attention.key_length", "attention.value_length", "ssm.state_size",
		    "ssm.inner_size", "nextn_predict_layers" },
		  { 9, 16, 2, 256, 256, 128, 4096, 1 },
		  0,
		  3 * 2 * 512 * 2,
		  6 * 4 * 128 * 4096 },
		/* Pure state models: no attention at all. */
		{ "mamba",
		  { "block_count", "embedding_length", "attention.head_count", "ssm.conv_kernel",
		    "ssm.inner_size", "ssm.state_size" },
		  { 64, 2560, 0, 4, 5120, 16 },
		  0,
		  0,
		  64 * 4 * (3 * 5120 + 16 * 5120) },
		{ "rwkv7",
		  { "block_count", "embedding_length", "attention.head_count", "wkv.head_size" },
		  { 32, 4096, 0, 64 },
		  0,
		  0,
		  32 * 4 * 4096 * (2 + 64) },
		{ "lfm2",
		  { "block_count", "embedding_length", "attention.head_count",
		    "shortconv.l_cache" },
		  { 2, 1024, 16, 3 },
		  0,
		  2 * 2 * 1024 * 2,
		  2 * 4 * 1024 * 2 },
		/* Attention and state in every layer. */
		{ "falcon-h1",
		  { "block_count", "attention.head_count", "attention.head_count_kv",
		    "attention.key_length", "attention.value_length", "ssm.conv_kernel",
		    "ssm.inner_size", "ssm.state_size", "ssm.group_count" },
		  { 10, 8, 2, 64, 64, 4, 1024, 128, 1 },
		  0,
		  10 * 2 * 128 * 2,
		  10 * 4 * (3 * (1024 + 256) + 128 * 1024) },
		{ "kimi-linear",
		  { "block_count", "embedding_length", "attention.head_count", "kda.head_dim" },
		  { 27, 2304, 32, 128 },
		  -ENOTSUP,
		  0,
		  0 },
		{ "llama",
		  { "embedding_length", "attention.head_count" },
		  { 4096, 32 },
		  -EINVAL,
		  0,
		  0 },
		{ "llama", { "block_count", "attention.head_count" }, { 0, 32 }, -EINVAL, 0, 0 },
		{ "llama", { "block_count", "attention.head_count" }, { 513, 32 }, -EINVAL, 0, 0 },
		{ "llama", { "block_count", "attention.head_count" }, { 32, 32 }, -EINVAL, 0, 0 },
		{ "llama", { "block_count", "embedding_length" }, { 32, 4096 }, -EINVAL, 0, 0 },
		{ "llama",
		  { "block_count", "attention.head_count", "attention.key_length" },
		  { 32, 32, 1u << 21 },
		  -EINVAL,
		  0,
		  0 },
		{ "llama",
		  { "block_count", "attention.head_count", "attention.key_length",
		    "attention.value_length" },
		  { 1, 1u << 16, 1u << 16, 1 },
		  -EINVAL,
		  0,
		  0 },
		{ "llama",
		  { "block_count", "embedding_length", "attention.head_count",
		    "nextn_predict_layers" },
		  { 2, 4096, 32, 3 },
		  -EINVAL,
		  0,
		  0 },
		/* Keys of another architecture say nothing. */
		{ "clip",
		  { "vision.block_count", "attention.head_count" },
		  { 32, 32 },
		  -EINVAL,
		  0,
		  0 },
	};
	static struct file f;
	pn_model_error err;
	pn_model m;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		start_arch(&f, cases[i].arch, cases[i].names, cases[i].values);
		finish(&f, 32, 0);
		assert_int_equal(describe(&f, &m, &err), cases[i].r);
		if (cases[i].r)
			continue;
		assert_int_equal(pn_model_kv_bytes_per_token(&m, PN_KV_F16), cases[i].kv_f16_bytes);
		assert_int_equal(pn_model_state_bytes(&m), cases[i].state_bytes);
	}
}

static void per_layer_array(struct file *f, const char *name, uint32_t type, uint64_t n,
			    const uint8_t *values)
{
	key_array(f, name, type, n);
	for (uint64_t i = 0; i < n; i++)
		put(f, values[i % 4], type == BOOL ? 1 : 4);
}

static void test_per_layer_arrays(void **state)
{
	const char *const names[] = { "block_count",    "attention.head_count", "embedding_length",
				      "ssm.state_size", "ssm.inner_size",       NULL };
	const uint32_t values[] = { 4, 8, 512, 2, 100 };
	const uint8_t heads[] = { 0, 0, 4, 2 }, recurrent[] = { 1, 1, 0, 1 };
	static struct file f;
	pn_model_error err;
	pn_model m;

	/* 0 heads: no attention, but the state. */
	start_arch(&f, "jamba", names, values);
	per_layer_array(&f, "jamba.attention.head_count_kv", I32, 4, heads);
	finish(&f, 32, 0);
	assert_int_equal(describe(&f, &m, &err), 0);
	assert_int_equal(m.layers[1].k_elems, 0);
	assert_int_equal(m.layers[1].state_bytes, 4 * 2 * 100);
	assert_int_equal(m.layers[2].k_elems, 4 * 64);
	assert_int_equal(m.layers[2].state_bytes, 0);
	assert_int_equal(m.layers[3].v_elems, 2 * 64);
	assert_int_equal(pn_model_state_bytes(&m), 2 * 800);

	/* A list of the recurrent layers decides over an interval. */
	start_arch(&f, "qwen35", names, values);
	key_u32(&f, "qwen35.full_attention_interval", 4);
	per_layer_array(&f, "qwen35.attention.recurrent_layers", BOOL, 4, recurrent);
	finish(&f, 32, 0);
	assert_int_equal(describe(&f, &m, &err), 0);
	assert_int_equal(m.layers[2].k_elems, 8 * 64);
	assert_int_equal(m.layers[3].k_elems, 0);
	assert_int_equal(m.layers[3].state_bytes, 800);

	/* Query heads a layer, 0 first: the width of a head comes from the first that has any. */
	start_arch(&f, "deci", (const char *const[]){ "block_count", "embedding_length", NULL },
		   (const uint32_t[]){ 4, 512 });
	per_layer_array(&f, "deci.attention.head_count", U32, 4, heads);
	finish(&f, 32, 0);
	assert_int_equal(describe(&f, &m, &err), 0);
	assert_int_equal(m.layers[2].k_elems, 512);
	assert_int_equal(m.layers[3].k_elems, 256);

	for (uint64_t n = 3; n <= 5; n += 2) {
		start_arch(&f, "jamba", names, values);
		per_layer_array(&f, "jamba.attention.head_count_kv", I32, n, heads);
		finish(&f, 32, 0);
		assert_int_equal(describe(&f, &m, &err), -EINVAL);
	}
}

static void test_key_order(void **state)
{
	static struct file f;
	pn_model_error err;
	pn_model m;

	start(&f, 3);
	key_u32(&f, "llama.block_count", 2);
	key_u32(&f, "llama.embedding_length", 64);
	key_u32(&f, "other.block_count", 7);
	key_u32(&f, "llama.attention.head_count", 1);
	key_string(&f, "general.architecture", "llama");
	finish(&f, 32, 0);
	assert_int_equal(describe(&f, &m, &err), 0);
	assert_int_equal(m.n_layers, 2);
	assert_int_equal(pn_model_kv_bytes_per_token(&m, PN_KV_F32), 2 * 128 * 4);
}

/* Bits per weight as ggml's tables of quantisations give them; 256 elements are 32 bytes a bit. */
static void test_tensor_types(void **state)
{
	static const struct {
		uint32_t type;
		double bits;
	} cases[] = {
		{ 0, 32 },      { 1, 16 },      { 2, 4.5 },    { 3, 5 },       { 6, 5.5 },
		{ 7, 6 },       { 8, 8.5 },     { 10, 2.625 }, { 11, 3.4375 }, { 12, 4.5 },
		{ 13, 5.5 },    { 14, 6.5625 }, { 15, 9.125 }, { 16, 2.0625 }, { 17, 2.3125 },
		{ 18, 3.0625 }, { 19, 1.5625 }, { 20, 4.5 },   { 21, 3.4375 }, { 22, 2.5625 },
		{ 23, 4.25 },   { 24, 8 },      { 25, 16 },    { 26, 32 },     { 27, 64 },
		{ 28, 64 },     { 29, 1.75 },   { 30, 16 },    { 34, 1.6875 }, { 35, 2.0625 },
		{ 39, 4.25 },   { 40, 4.5 },
	};
	static struct file f;
	pn_model_error err;
	pn_model m;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		minimal(&f);
		tensor(&f, "blk.0.x", 256, 3, cases[i].type, 0);
		finish(&f, 32, 8192);
		assert_int_equal(describe(&f, &m, &err), 0);
		assert_int_equal(m.layers[0].weights_bytes, (uint64_t)(cases[i].bits * 32 * 3));
	}
}

static void test_unknown_tensor_type(void **state)
{
	static struct file f;
	pn_model_error err;
	pn_model m;

	/* By the next tensor's offset, padding included; the last by the end of the file. */
	minimal(&f);
	tensor(&f, "blk.0.x", 256, 1, T_UNKNOWN, 0);
	tensor(&f, "token_embd.weight", 5, 1, 4, 96);
	tensor(&f, "output.weight", 8, 1, T_F32, 128);
	tensor(&f, "blk.0.y", 8, 1, T_UNKNOWN, 160);
	finish(&f, 32, 200);
	assert_int_equal(describe(&f, &m, &err), 0);
	assert_int_equal(m.layers[0].weights_bytes, 96 + 40);
	assert_int_equal(m.input_weights_bytes, 32);
	assert_int_equal(m.output_weights_bytes, 32);

	minimal(&f);
	tensor(&f, "blk.0.x", 256, 1, T_UNKNOWN, 64);
	tensor(&f, "blk.0.y", 8, 1, T_F32, 0);
	finish(&f, 32, 500);
	assert_int_equal(describe(&f, &m, &err), -ENOTSUP);
}

static void test_alignment(void **state)
{
	static struct file f;
	pn_model_error err;
	pn_model m;

	minimal(&f);
	key_u32(&f, "general.alignment", 256);
	tensor(&f, "blk.0.x", 8, 1, T_F32, 0);
	tensor(&f, "blk.1.y", 8, 1, T_F32, 256);
	tensor(&f, "blkless", 8, 1, T_F32, 512);
	tensor(&f, "blk.0", 8, 1, T_F32, 768);
	finish(&f, 256, 800);
	assert_int_equal(f.n % 256, 32);
	assert_int_equal(describe(&f, &m, &err), 0);
	/* Of a layer that the model has not, or of none: with the output. */
	assert_int_equal(m.layers[0].weights_bytes, 32);
	assert_int_equal(m.output_weights_bytes, 96);
	f.n--;
	assert_int_equal(describe(&f, &m, &err), -ENODATA);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hybrid),           cmocka_unit_test(test_geometries),
		cmocka_unit_test(test_per_layer_arrays), cmocka_unit_test(test_key_order),
		cmocka_unit_test(test_tensor_types),     cmocka_unit_test(test_unknown_tensor_type),
		cmocka_unit_test(test_alignment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
