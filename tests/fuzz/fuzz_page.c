/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A snapshot page from anywhere: opened and read within its mapping (which AddressSanitizer
 * watches), with values in their ranges. The input is laid over a good page, so that most get
 * past the magic: 2 bytes of mapping size, 1 of where, the rest.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

static void check_read(const struct page_view *view)
{
	pn_mem_state state;
	pn_mem_ext ext;
	int r = page_read(view, &state, &ext);

	/* Nobody writes meanwhile: there is always a whole copy. */
	if (r || state.n_dies < 0 || state.n_dies > PN_MEM_MAX_DIES ||
	    (unsigned)state.level > PN_MEM_LEVEL_CRITICAL)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
	struct page_view view = { 0 };
	struct page *page;
	size_t mapped_bytes, at, room_bytes;
	int r;

	if (len_bytes < 3)
		return 0;
	mapped_bytes = sizeof(*page) + data[0] + 256u * data[1];
	at = data[2] * 4u;
	data += 3;
	len_bytes -= 3;
	page = calloc(1, mapped_bytes); /* as aligned as a mapping's words need */
	if (!page)
		return 0;
	page_init(page);
	room_bytes = mapped_bytes - at;
	memcpy((char *)page + at, data, len_bytes < room_bytes ? len_bytes : room_bytes);
	r = page_open(&view, page, mapped_bytes);
	if (r && r != -EPROTO)
		abort();
	if (!r)
		check_read(&view);
	if (page_open(&view, page, offsetof(struct page, copy) - 1) != -EPROTO)
		abort();
	free(page);
	return 0;
}
