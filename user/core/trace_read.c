/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the records in a file's bytes, and checks the bytes like network input. See trace.h. */
#include <errno.h>
#include <string.h>

#include "core/trace.h"

#define HEAD_BYTES_MAX 4096

/*
 * A head of another version may have another length. It has at least the fields up to its length.
 */
#define HEAD_BYTES_MIN 24

int trace_read_head(const void *buf, size_t bytes, struct trace_head *ret, size_t *ret_used)
{
	static const uint64_t magic = TRACE_MAGIC;
	struct trace_head head = { 0 };
	size_t known;

	if (memcmp(buf, &magic, bytes < sizeof(magic) ? bytes : sizeof(magic)))
		return -EBADMSG;
	if (bytes < HEAD_BYTES_MIN)
		return -EAGAIN;
	memcpy(&head, buf, HEAD_BYTES_MIN);
	if (head.head_bytes < HEAD_BYTES_MIN || head.head_bytes > HEAD_BYTES_MAX ||
	    head.head_bytes % 8)
		return -EBADMSG;
	if (bytes < head.head_bytes)
		return -EAGAIN;
	known = head.head_bytes < sizeof(head) ? head.head_bytes : sizeof(head);
	memcpy(&head, buf, known);
	if (trace_check(buf, head.head_bytes, offsetof(struct trace_head, check)) != head.check)
		return -EBADMSG;
	head.agent[sizeof(head.agent) - 1] = 0;
	head.kernel[sizeof(head.kernel) - 1] = 0;
	head.host[sizeof(head.host) - 1] = 0;
	*ret = head;
	*ret_used = head.head_bytes;
	return 0;
}

int trace_read_record(const void *buf, size_t bytes, struct trace_record *ret, size_t *ret_used)
{
	struct trace_record_head head;

	if (bytes < sizeof(head))
		return -EAGAIN;
	memcpy(&head, buf, sizeof(head));
	if (head.bytes < sizeof(head) || head.bytes % 8 || head.kind == TRACE_PAD)
		return -EBADMSG;
	if (bytes < head.bytes)
		return -EAGAIN;
	if (trace_check(buf, head.bytes, offsetof(struct trace_record_head, check)) != head.check)
		return -EBADMSG;
	*ret = (struct trace_record){
		.kind = head.kind,
		.ts_ns = head.ts_ns,
		.payload = (const unsigned char *)buf + sizeof(head),
		.payload_bytes = head.bytes - sizeof(head),
	};
	*ret_used = head.bytes;
	return 0;
}
