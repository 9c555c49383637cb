/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads a trace file of any content to its end. AddressSanitizer watches that it reads within its
 * bytes. The check words of the input are corrected, or nearly no record would pass them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/trace_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

static void use_record(const struct trace_record *record)
{
	struct trace_item item;
	pn_mem_state state;
	pn_mem_ext ext;
	int r = trace_decode(record, &item);

	if ((r && r != -ERANGE) || strlen(item.text) > record->payload_bytes)
		abort();
	if (r || item.kind != TRACE_LOOK)
		return;
	trace_look_unmake(&item.look, &state, &ext);
	if ((unsigned)state.level > PN_MEM_LEVEL_CRITICAL)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
	static const uint64_t magic = TRACE_MAGIC;
	unsigned char *buf = malloc(len_bytes ? len_bytes : 1);
	struct trace_record_head record_head;
	struct trace_record record;
	struct trace_head head;
	size_t at = 0, used = 0;
	int r;

	memcpy(buf, data, len_bytes);
	if (len_bytes > 24) {
		memcpy(buf, &magic, sizeof(magic));
		memcpy(&head, buf, 24);
		if (head.head_bytes % 8 == 0 && head.head_bytes >= 24 &&
		    head.head_bytes <= len_bytes) {
			head.check = trace_check(buf, head.head_bytes,
						 offsetof(struct trace_head, check));
			memcpy(buf, &head, 24);
		}
	}
	r = trace_read_head(buf, len_bytes, &head, &used);
	if (!r && strlen(head.host) >= sizeof(head.host))
		abort();
	while (!r) {
		at += used;
		if (at > len_bytes)
			abort();
		if (len_bytes - at >= sizeof(record_head)) {
			memcpy(&record_head, buf + at, sizeof(record_head));
			if (record_head.bytes >= sizeof(record_head) &&
			    record_head.bytes % 8 == 0 && record_head.bytes <= len_bytes - at)
				trace_seal(buf + at);
		}
		r = trace_read_record(buf + at, len_bytes - at, &record, &used);
		if (!r)
			use_record(&record);
	}
	if (r != -EAGAIN && r != -EBADMSG)
		abort();
	free(buf);
	return 0;
}
