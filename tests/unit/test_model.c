/* SPDX-License-Identifier: BSD-2-Clause */
/* Geometry to bytes, and the split over dies: figures of a known model, limits, exact sums. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pn_model.h"

#define GIB (1ull << 30)

/* Qwen3.5-35B-A3B: 40 layers, every 4th attention; 2 KV heads of 256; 32 value heads of 128. */
static const pn_model_geometry qwen35 = {
	.n_layers = 40,
	.attention_interval = 4,
	.n_kv_heads = 2,
	.k_dim = 256,
	.v_dim = 256,
	.ssm_conv_kernel = 4,
	.ssm_inner_size = 32 * 128,
	.ssm_state_size = 128,
	.ssm_n_groups = 16,
	.weights_bytes = 20 * GIB + 7,
};

static void test_kv_bytes_per_token(void **state)
{
	static const struct {
		pn_model_geometry g;
		pn_kv_type type;
		uint64_t expected;
	} cases[] = {
		{ qwen35, PN_KV_F32, 40960 },
		{ qwen35, PN_KV_F16, 20480 },
		{ qwen35, PN_KV_Q8_0, 10880 },
		{ qwen35, PN_KV_Q4_0, 5760 },
		/* Llama 3 8B: 32 layers, 8 KV heads of 128. */
		{ { .n_layers = 32, .n_kv_heads = 8, .k_dim = 128, .v_dim = 128 },
		  PN_KV_F16,
		  131072 },
		/* K and V of different width. */
		{ { .n_layers = 3, .n_kv_heads = 4, .k_dim = 192, .v_dim = 128 }, PN_KV_F16, 7680 },
		/* 40 elements are two blocks of 32. */
		{ { .n_layers = 1, .n_kv_heads = 1, .k_dim = 40, .v_dim = 32 }, PN_KV_Q4_0, 54 },
		{ { .n_layers = 1, .n_kv_heads = 1, .k_dim = 40, .v_dim = 32 }, PN_KV_Q8_0, 102 },
		/* Fewer layers than the interval: none has attention. */
		{ { .n_layers = 3, .attention_interval = 4, .n_kv_heads = 2, .k_dim = 64 },
		  PN_KV_F32,
		  0 },
		{ qwen35, (pn_kv_type)4, UINT64_MAX },
		{ qwen35, (pn_kv_type)-1, UINT64_MAX },
	};
	pn_model m;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(pn_model_from_geometry(&cases[i].g, &m), 0);
		assert_int_equal(pn_model_kv_bytes_per_token(&m, cases[i].type), cases[i].expected);
	}
}

static void test_kv_bytes(void **state)
{
	pn_model m;

	assert_int_equal(pn_model_from_geometry(&qwen35, &m), 0);
	assert_int_equal(pn_model_kv_bytes(&m, PN_KV_Q4_0, 131072), 5760ull * 131072);
	assert_int_equal(pn_model_kv_bytes(&m, PN_KV_Q4_0, 0), 0);
	assert_int_equal(pn_model_kv_bytes(&m, PN_KV_F32, UINT64_MAX / 40960),
			 UINT64_MAX / 40960 * 40960);
	assert_int_equal(pn_model_kv_bytes(&m, PN_KV_F32, UINT64_MAX / 40960 + 1), UINT64_MAX);
}

static void test_state_and_weights(void **state)
{
	pn_model m;

	assert_int_equal(pn_model_from_geometry(&qwen35, &m), 0);
	/* 62.8125 MiB: 30 layers of a 128 x 4096 matrix and 3 x 8192 convolution inputs, f32. */
	assert_int_equal(pn_model_state_bytes(&m), 30ull * 4 * (128 * 4096 + 3 * 8192));
	assert_int_equal(pn_model_state_bytes(&m), 65863680);
	assert_int_equal(pn_model_weights_bytes(&m), 20 * GIB + 7);
	assert_int_equal(m.layers[3].state_bytes, 0);
	assert_int_equal(m.layers[2].k_elems, 0);

	/* Mamba 1 has no groups; one without a convolution has only the matrix. */
	assert_int_equal(pn_model_ssm_state_bytes(4, 5120, 16, 0), 4 * (3 * 5120 + 16 * 5120));
	assert_int_equal(pn_model_ssm_state_bytes(0, 64, 8, 2), 4 * 8 * 64);
	assert_int_equal(pn_model_ssm_state_bytes(0, 0, 0, 0), 0);
	assert_int_equal(pn_model_ssm_state_bytes(PN_MODEL_MAX_DIM + 1, 1, 1, 1), UINT64_MAX);
	assert_int_not_equal(pn_model_ssm_state_bytes(PN_MODEL_MAX_DIM, PN_MODEL_MAX_DIM,
						      PN_MODEL_MAX_DIM, PN_MODEL_MAX_DIM),
			     UINT64_MAX);

	/* Totals saturate. */
	for (unsigned i = 0; i < 40; i++)
		m.layers[i].state_bytes = m.layers[i].weights_bytes = UINT64_MAX / 8;
	assert_int_equal(pn_model_state_bytes(&m), UINT64_MAX);
	assert_int_equal(pn_model_weights_bytes(&m), UINT64_MAX);
}

static void test_bad_geometry(void **state)
{
	static const pn_model_geometry cases[] = {
		{ .n_layers = 0 },
		{ .n_layers = PN_MODEL_MAX_LAYERS + 1 },
		{ .n_layers = 1, .n_kv_heads = PN_MODEL_MAX_DIM + 1 },
		{ .n_layers = 1, .k_dim = PN_MODEL_MAX_DIM + 1 },
		{ .n_layers = 1, .v_dim = UINT32_MAX },
		{ .n_layers = 1, .n_kv_heads = 1u << 16, .k_dim = 1u << 16 },
		{ .n_layers = 1, .n_kv_heads = 1u << 16, .v_dim = 1u << 16 },
		{ .n_layers = 1, .ssm_inner_size = UINT32_MAX },
	};
	pn_model m, before;

	memset(&m, 0x5a, sizeof(m));
	before = m;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(pn_model_from_geometry(&cases[i], &m), -EINVAL);
	assert_memory_equal(&m, &before, sizeof(m));
}

static void test_type_names(void **state)
{
	static const struct {
		const char *name;
		int r;
		pn_kv_type type;
	} cases[] = {
		{ "f32", 0, PN_KV_F32 },       { "f16", 0, PN_KV_F16 },
		{ "q8_0", 0, PN_KV_Q8_0 },     { "q8", 0, PN_KV_Q8_0 },
		{ "q4", 0, PN_KV_Q4_0 },       { "q4_0", 0, PN_KV_Q4_0 },
		{ "", -EINVAL, PN_KV_F32 },    { "q5", -EINVAL, PN_KV_F32 },
		{ "F16", -EINVAL, PN_KV_F32 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pn_kv_type type = PN_KV_F32;

		assert_int_equal(pn_kv_type_parse(cases[i].name, &type), cases[i].r);
		assert_int_equal(type, cases[i].type);
	}
}

/* The slices cover the layers once, in order, and sum to the whole. */
static void check_split(const pn_model *m, pn_kv_type type, uint64_t n_tokens, uint32_t n_sequences,
			const pn_model_slice *s, unsigned n_dies)
{
	uint64_t weights = 0, kv = 0, states = 0;
	uint32_t layer = 0;

	for (unsigned d = 0; d < n_dies; d++) {
		uint64_t own = 0;

		assert_int_equal(s[d].first_layer, layer);
		for (uint32_t i = layer; i < layer + s[d].n_layers; i++)
			own += m->layers[i].weights_bytes;
		assert_true(own <= s[d].weights_bytes);
		layer += s[d].n_layers;
		weights += s[d].weights_bytes;
		kv += s[d].kv_bytes;
		states += s[d].state_bytes;
	}
	assert_int_equal(layer, m->n_layers);
	assert_int_equal(weights, pn_model_weights_bytes(m));
	assert_int_equal(kv, pn_model_kv_bytes(m, type, n_tokens));
	assert_int_equal(states, pn_model_state_bytes(m) * n_sequences);
}

static void test_split_cases(void **state)
{
	static const struct {
		unsigned n_dies;
		bool even;
		uint64_t free_bytes[4];
		uint32_t layers[4];
	} cases[] = {
		{ 1, true, { 0 }, { 32 } },
		{ 2, true, { 0 }, { 16, 16 } },
		{ 4, true, { 0 }, { 8, 8, 8, 8 } },
		{ 2, false, { 24 * GIB, 8 * GIB }, { 24, 8 } },
		{ 3, false, { 8 * GIB, 0, 8 * GIB }, { 16, 0, 16 } },
		{ 3, false, { 0, 0, 5 }, { 0, 0, 32 } },
		{ 3, false, { 5, 0, 0 }, { 32, 0, 0 } },
		{ 2, false, { 1, 1ull << 60 }, { 0, 32 } },
	};
	pn_model_geometry g = { .n_layers = 32,
				.n_kv_heads = 8,
				.k_dim = 128,
				.v_dim = 128,
				.weights_bytes = 32 * 100000000ull };
	pn_model_slice s[4];
	pn_model m;

	assert_int_equal(pn_model_from_geometry(&g, &m), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const uint64_t *free_bytes = cases[i].even ? NULL : cases[i].free_bytes;

		assert_int_equal(
			pn_model_split(&m, PN_KV_F16, 8192, 1, free_bytes, cases[i].n_dies, s), 0);
		check_split(&m, PN_KV_F16, 8192, 1, s, cases[i].n_dies);
		for (unsigned d = 0; d < cases[i].n_dies; d++)
			assert_int_equal(s[d].n_layers, cases[i].layers[d]);
	}

	/*
	 * A large output tensor pulls layers off the last die; nothing lands where nothing is free.
	 */
	m.input_weights_bytes = 1000;
	m.output_weights_bytes = 8 * 100000000ull;
	assert_int_equal(pn_model_split(&m, PN_KV_F16, 0, 0, NULL, 2, s), 0);
	check_split(&m, PN_KV_F16, 0, 0, s, 2);
	assert_int_equal(s[0].n_layers, 20);
	assert_int_equal(s[0].weights_bytes, 20 * 100000000ull + 1000);
	assert_int_equal(pn_model_split(&m, PN_KV_F16, 9, 1, (uint64_t[]){ 0, GIB, 0 }, 3, s), 0);
	check_split(&m, PN_KV_F16, 9, 1, s, 3);
	assert_int_equal(s[0].weights_bytes + s[2].weights_bytes, 0);
	assert_int_equal(s[0].kv_bytes + s[2].kv_bytes, 0);
}

/* Layers that cost nothing do not land on a die with nothing free either. */
static void test_split_of_nothing(void **state)
{
	pn_model_geometry g = { .n_layers = 5 };
	pn_model_slice s[3];
	pn_model m;

	assert_int_equal(pn_model_from_geometry(&g, &m), 0);
	assert_int_equal(pn_model_split(&m, PN_KV_F16, 0, 0, (uint64_t[]){ 0, 7, 9 }, 3, s), 0);
	check_split(&m, PN_KV_F16, 0, 0, s, 3);
	assert_int_equal(s[0].n_layers, 0);
	assert_int_equal(s[1].n_layers, 5);
}

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static void test_split_random(void **state)
{
	uint64_t seed = 20260709;

	for (int run = 0; run < 3000; run++) {
		uint64_t free_bytes[PN_MEM_MAX_DIES], free_total = 0, total = 0, largest = 0;
		uint64_t n_tokens = next_random(&seed) % 200000;
		uint32_t n_sequences = next_random(&seed) % 9;
		unsigned n_dies = 1 + next_random(&seed) % PN_MEM_MAX_DIES;
		pn_kv_type type = (pn_kv_type)(next_random(&seed) % 4);
		pn_model_slice s[PN_MEM_MAX_DIES];
		pn_model m = { .n_layers = 1 + next_random(&seed) % 100 };

		m.input_weights_bytes = next_random(&seed) % GIB;
		m.output_weights_bytes = next_random(&seed) % GIB;
		for (uint32_t i = 0; i < m.n_layers; i++) {
			if (next_random(&seed) % 4)
				m.layers[i].state_bytes = next_random(&seed) % 3000000;
			else
				m.layers[i].k_elems = m.layers[i].v_elems =
					next_random(&seed) % 2000;
			m.layers[i].weights_bytes = next_random(&seed) % GIB;
		}
		for (unsigned d = 0; d < n_dies; d++) {
			free_bytes[d] =
				next_random(&seed) % 5 ? next_random(&seed) % (80 * GIB) : 0;
			free_total += free_bytes[d];
		}
		if (!free_total) {
			assert_int_equal(pn_model_split(&m, type, n_tokens, n_sequences, free_bytes,
							n_dies, s),
					 -ENOSPC);
			continue;
		}
		assert_int_equal(
			pn_model_split(&m, type, n_tokens, n_sequences, free_bytes, n_dies, s), 0);
		check_split(&m, type, n_tokens, n_sequences, s, n_dies);

		/* A share differs from its proportion by at most the items at its two ends. */
		for (unsigned d = 0; d < n_dies; d++)
			total += s[d].weights_bytes + s[d].kv_bytes + s[d].state_bytes;
		largest = m.input_weights_bytes > m.output_weights_bytes ? m.input_weights_bytes
									 : m.output_weights_bytes;
		for (uint32_t i = 0; i < m.n_layers; i++) {
			pn_model one = { .n_layers = 1, .layers = { m.layers[i] } };
			uint64_t bytes = pn_model_weights_bytes(&one) +
					 pn_model_kv_bytes(&one, type, n_tokens) +
					 pn_model_state_bytes(&one) * n_sequences;

			largest = bytes > largest ? bytes : largest;
		}
		for (unsigned d = 0; d < n_dies; d++) {
			uint64_t own = s[d].weights_bytes + s[d].kv_bytes + s[d].state_bytes;
			double ideal = (double)total * (double)free_bytes[d] / (double)free_total;

			assert_true((double)own <= ideal + (double)largest + 1024.0);
			assert_true((double)own >= ideal - (double)largest - 1024.0);
			if (!free_bytes[d])
				assert_int_equal(own, 0);
		}
	}
}

static void test_split_errors(void **state)
{
	const uint64_t huge[2] = { UINT64_MAX, 1 }, none[2] = { 0, 0 };
	pn_model_slice s[PN_MEM_MAX_DIES + 1], before[PN_MEM_MAX_DIES + 1];
	pn_model empty = { .n_layers = 0 };
	pn_model m;

	memset(s, 0x5a, sizeof(s));
	memcpy(before, s, sizeof(s));
	assert_int_equal(pn_model_from_geometry(&qwen35, &m), 0);
	assert_int_equal(pn_model_split(&m, PN_KV_F16, 1, 1, NULL, 0, s), -EINVAL);
	assert_int_equal(pn_model_split(&m, PN_KV_F16, 1, 1, NULL, PN_MEM_MAX_DIES + 1, s),
			 -EINVAL);
	assert_int_equal(pn_model_split(&m, (pn_kv_type)9, 1, 1, NULL, 2, s), -EINVAL);
	assert_int_equal(pn_model_split(&empty, PN_KV_F16, 1, 1, NULL, 2, s), -EINVAL);
	assert_int_equal(pn_model_split(&m, PN_KV_F16, 1, 1, none, 2, s), -ENOSPC);
	assert_int_equal(pn_model_split(&m, PN_KV_F16, 1, 1, huge, 2, s), -EOVERFLOW);
	assert_int_equal(pn_model_split(&m, PN_KV_F16, UINT64_MAX, 1, NULL, 2, s), -EOVERFLOW);
	assert_memory_equal(s, before, sizeof(s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kv_bytes_per_token), cmocka_unit_test(test_kv_bytes),
		cmocka_unit_test(test_state_and_weights),  cmocka_unit_test(test_bad_geometry),
		cmocka_unit_test(test_type_names),         cmocka_unit_test(test_split_cases),
		cmocka_unit_test(test_split_of_nothing),   cmocka_unit_test(test_split_random),
		cmocka_unit_test(test_split_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
