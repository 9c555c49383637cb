/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as a GGUF header, twice as the two files of a split model: no crash, no read outside
 * the input, a reason for every failure, and no description that costs more than its file.
 */
#include <stdlib.h>
#include <string.h>

#include "core/gguf.h"

struct input {
	const uint8_t *bytes;
	size_t n;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static int read_input(void *ctx, uint64_t offset, void *buf, size_t len)
{
	const struct input *in = ctx;

	require(len >= 1 && len <= GGUF_WINDOW_BYTES && offset <= in->n && len <= in->n - offset);
	memcpy(buf, in->bytes + offset, len);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct input in = { data, n };
	struct gguf_source source = { .read = read_input, .ctx = &in, .size_bytes = n };
	static struct gguf_info info;
	pn_model_slice slices[3];
	pn_model_error err;
	pn_model m;
	bool readable;
	int r;

	memset(&info, 0, sizeof(info));
	r = gguf_read(&source, 1, &info, &err);
	readable = !r;
	if (readable)
		r = gguf_model(&info, &m, &err);
	require(!r || (err.err == r && err.what && err.offset_bytes <= n));
	if (!r) {
		require(pn_model_weights_bytes(&m) <= n);
		require(m.n_layers >= 1 && m.n_layers <= PN_MODEL_MAX_LAYERS);
		pn_model_split(&m, PN_KV_Q4_0, 4096, 2, NULL, 3, slices);
	}
	/* A later part is read the same, but for the keys that it is not asked for. */
	r = gguf_read(&source, 2, &info, &err);
	require(!readable || !r);
	require(!r || (err.err == r && err.what && err.offset_bytes <= n));
	return 0;
}
