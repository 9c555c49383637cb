/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A place in a GGUF header that cannot leave the file: numbers and strings are read through a
 * small window, and the first failure is noted with its offset. What the bytes mean is gguf.c's
 * part. A function that returns an int returns 0 or the -errno that it noted.
 */
#ifndef PNMEM_CORE_GGUF_CURSOR_H
#define PNMEM_CORE_GGUF_CURSOR_H

#include "core/gguf.h"

struct gguf_cursor {
	const struct gguf_source *source;
	uint64_t pos;
	uint64_t end; /* of what may be a header: the file's size or the limit */
	uint64_t window_pos;
	size_t window_len;
	pn_model_error *error;
	uint8_t window[GGUF_WINDOW_BYTES];
};

/* Starts at offset 0. */
void cursor_open(struct gguf_cursor *c, const struct gguf_source *source, pn_model_error *error);

/* Notes err and what (a static string) at the present offset; returns err. */
int cursor_fail(struct gguf_cursor *c, int err, const char *what);

/* Fails if fewer than n_bytes are left: -ENODATA, or -EFBIG if it is the limit that ends. */
int cursor_need(struct gguf_cursor *c, uint64_t n_bytes);

int cursor_skip(struct gguf_cursor *c, uint64_t n_bytes);

int cursor_take(struct gguf_cursor *c, void *buf, size_t n_bytes);

/* A little-endian number of 1, 2, 4 or 8 bytes. */
int cursor_number(struct gguf_cursor *c, unsigned n_bytes, uint64_t *ret);

/* Reads a u64 length that must exceed neither max_bytes (too_long says so) nor what is left. */
int cursor_length(struct gguf_cursor *c, uint64_t max_bytes, const char *too_long, uint64_t *ret);

/* A string into buf, NUL-terminated and cut to its size: what is longer matches no name here. */
int cursor_string(struct gguf_cursor *c, uint64_t max_bytes, const char *too_long, char *buf,
		  size_t buf_bytes);

#endif
