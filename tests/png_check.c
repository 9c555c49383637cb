// SPDX-License-Identifier: BSD-2-Clause
/*
 * png_check FILE [RRGGBB...]: FILE is a PNG of 8-bit colour, and each of these colours is that of
 * at least 20 of its pixels. To tell a drawn picture from a blank one.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static uint32_t be32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

struct picture {
	uint32_t width, height, pixel_bytes;
	unsigned char *data; /* of all IDAT chunks */
	size_t data_bytes;
	unsigned char *rows; /* each a filter type and the pixels */
};

static int read_chunks(FILE *f, struct picture *ret)
{
	unsigned char head[8], body[13];
	uint32_t bytes;

	if (fread(head, 8, 1, f) != 1 || memcmp(head, "\211PNG\r\n\032\n", 8))
		return -1;
	while (fread(head, 8, 1, f) == 1) {
		bytes = be32(head);
		if (!memcmp(head + 4, "IHDR", 4) && bytes == sizeof(body)) {
			if (fread(body, sizeof(body), 1, f) != 1)
				return -1;
			ret->width = be32(body);
			ret->height = be32(body + 4);
			/* Eight bits, RGB or RGBA, not interlaced. */
			if (body[8] != 8 || (body[9] != 2 && body[9] != 6) || body[12])
				return -1;
			ret->pixel_bytes = body[9] == 2 ? 3 : 4;
		} else if (!memcmp(head + 4, "IDAT", 4)) {
			ret->data = realloc(ret->data, ret->data_bytes + bytes);
			if (!ret->data || fread(ret->data + ret->data_bytes, bytes, 1, f) != 1)
				return -1;
			ret->data_bytes += bytes;
		} else if (fseek(f, (long)bytes, SEEK_CUR)) {
			return -1;
		}
		if (fseek(f, 4, SEEK_CUR)) /* the chunk's CRC: zlib has one of its own */
			return -1;
	}
	return ret->width && ret->height && ret->data ? 0 : -1;
}

static int nearest(int left, int up, int corner)
{
	int a = abs(up - corner), b = abs(left - corner), c = abs(left + up - 2 * corner);

	return a <= b && a <= c ? left : b <= c ? up : corner;
}

/* Undoes what each row was filtered with. */
static void unfilter(struct picture *picture)
{
	size_t row_bytes = (size_t)picture->width * picture->pixel_bytes;
	static const unsigned char none[1 << 20];

	for (uint32_t y = 0; y < picture->height; y++) {
		unsigned char *row = picture->rows + y * (row_bytes + 1) + 1;
		const unsigned char *up = y ? row - row_bytes - 1 : none;

		for (size_t i = 0; i < row_bytes; i++) {
			int before = i < picture->pixel_bytes ? 0 : row[i - picture->pixel_bytes];
			int corner = i < picture->pixel_bytes ? 0 : up[i - picture->pixel_bytes];
			int add[] = { 0, before, up[i], (before + up[i]) / 2,
				      nearest(before, up[i], corner) };

			row[i] = (unsigned char)(row[i] + add[row[-1] % 5]);
		}
	}
}

static int unpack(struct picture *picture)
{
	size_t row_bytes = (size_t)picture->width * picture->pixel_bytes;
	uLongf bytes = (row_bytes + 1) * picture->height;

	if (row_bytes > 1 << 20 || picture->height > 1 << 14)
		return -1;
	picture->rows = malloc(bytes);
	if (!picture->rows ||
	    uncompress(picture->rows, &bytes, picture->data, picture->data_bytes) != Z_OK)
		return -1;
	unfilter(picture);
	return 0;
}

static unsigned count(const struct picture *picture, uint32_t rgb)
{
	size_t row_bytes = (size_t)picture->width * picture->pixel_bytes;
	unsigned n = 0;

	for (uint32_t y = 0; y < picture->height; y++) {
		const unsigned char *p = picture->rows + y * (row_bytes + 1) + 1;

		for (uint32_t x = 0; x < picture->width; x++, p += picture->pixel_bytes)
			n += ((uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2]) == rgb;
	}
	return n;
}

int main(int argc, char **argv)
{
	FILE *f = argc > 1 ? fopen(argv[1], "re") : NULL;
	struct picture picture = { 0 };
	int missing = 0;

	if (!f || read_chunks(f, &picture) || unpack(&picture)) {
		printf("%s is no PNG of 8-bit colour\n", argc > 1 ? argv[1] : "?");
		return 1;
	}
	for (int i = 2; i < argc; i++) {
		unsigned n = count(&picture, (uint32_t)strtoul(argv[i], NULL, 16));

		if (n >= 20)
			continue;
		printf("%u pixels of %s\n", n, argv[i]);
		missing = 1;
	}
	return missing;
}
