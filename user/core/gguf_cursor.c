/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cursor: every read is checked against the end first, and fetched in windows, since a
 * vocabulary is hundreds of thousands of short strings.
 */
#include "core/gguf_cursor.h"

#include <errno.h>
#include <string.h>

/*
 * The largest vocabularies (260,000 tokens with scores, types and merges) make headers of some
 * 20 MiB; 128 MiB leaves room and still bounds a hostile file to well under a second.
 */
#define GGUF_MAX_HEADER_BYTES (128ull << 20)

void cursor_open(struct gguf_cursor *c, const struct gguf_source *source, pn_model_error *error)
{
	c->source = source;
	c->pos = c->window_pos = c->window_len = 0;
	c->end = source->size_bytes;
	if (c->end > GGUF_MAX_HEADER_BYTES)
		c->end = GGUF_MAX_HEADER_BYTES;
	c->error = error;
}

int cursor_fail(struct gguf_cursor *c, int err, const char *what)
{
	c->error->err = err;
	c->error->what = what;
	c->error->offset_bytes = c->pos;
	return err;
}

static uint64_t cursor_left(const struct gguf_cursor *c)
{
	return c->end - c->pos;
}

int cursor_need(struct gguf_cursor *c, uint64_t n_bytes)
{
	if (n_bytes <= cursor_left(c))
		return 0;
	if (c->end < c->source->size_bytes)
		return cursor_fail(c, -EFBIG, "header longer than 128 MiB");
	return cursor_fail(c, -ENODATA, "file ends inside its header");
}

int cursor_skip(struct gguf_cursor *c, uint64_t n_bytes)
{
	int r = cursor_need(c, n_bytes);

	if (!r)
		c->pos += n_bytes;
	return r;
}

int cursor_take(struct gguf_cursor *c, void *buf, size_t n_bytes)
{
	uint8_t *to = buf;
	int r = cursor_need(c, n_bytes);

	while (!r && n_bytes) {
		uint64_t at = c->pos - c->window_pos;
		size_t part;

		if (c->pos < c->window_pos || at >= c->window_len) {
			uint64_t len = cursor_left(c);

			if (len > sizeof(c->window))
				len = sizeof(c->window);
			c->window_len = 0;
			r = c->source->read(c->source->ctx, c->pos, c->window, len);
			if (r)
				return cursor_fail(c, r, "file could not be read");
			c->window_pos = c->pos;
			c->window_len = len;
			at = 0;
		}
		part = c->window_len - at;
		if (part > n_bytes)
			part = n_bytes;
		memcpy(to, c->window + at, part);
		to += part;
		n_bytes -= part;
		c->pos += part;
	}
	return r;
}

int cursor_number(struct gguf_cursor *c, unsigned n_bytes, uint64_t *ret)
{
	uint8_t raw[8];
	uint64_t v = 0;
	int r = cursor_take(c, raw, n_bytes);

	if (r)
		return r;
	for (unsigned i = n_bytes; i-- > 0;)
		v = v << 8 | raw[i];
	*ret = v;
	return 0;
}

int cursor_length(struct gguf_cursor *c, uint64_t max_bytes, const char *too_long, uint64_t *ret)
{
	uint64_t len;
	int r = cursor_number(c, 8, &len);

	if (r)
		return r;
	if (len > max_bytes)
		return cursor_fail(c, -EBADMSG, too_long);
	r = cursor_need(c, len);
	if (!r)
		*ret = len;
	return r;
}

int cursor_string(struct gguf_cursor *c, uint64_t max_bytes, const char *too_long, char *buf,
		  size_t buf_bytes)
{
	uint64_t len, part;
	int r = cursor_length(c, max_bytes, too_long, &len);

	if (r)
		return r;
	part = len < buf_bytes - 1 ? len : buf_bytes - 1;
	r = cursor_take(c, buf, part);
	if (r)
		return r;
	buf[part] = '\0';
	return cursor_skip(c, len - part);
}
