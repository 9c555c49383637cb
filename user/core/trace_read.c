/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading trace records: what comes from a file is checked like network input. See trace.h. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/trace.h"

#define HEAD_BYTES_MAX 4096

/* A head of another version may be longer, and not shorter than what tells its length. */
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

void trace_get(const struct trace_record *record, void *ret, size_t ret_bytes)
{
	size_t known = record->payload_bytes < ret_bytes ? record->payload_bytes : ret_bytes;

	memset(ret, 0, ret_bytes);
	memcpy(ret, record->payload, known);
}

bool trace_is_finite(const struct trace_record *record)
{
	struct trace_look look;
	struct trace_verdict verdict;
	struct trace_config config;

	switch (record->kind) {
	case TRACE_LOOK:
		trace_get(record, &look, sizeof(look));
		return isfinite(look.host_psi_some_avg10) && isfinite(look.host_psi_full_avg10) &&
		       isfinite(look.live_psi_some_avg10) && isfinite(look.live_psi_full_avg10) &&
		       isfinite(look.cgroup_psi_some_avg10) && isfinite(look.cgroup_psi_full_avg10);
	case TRACE_VERDICT:
		trace_get(record, &verdict, sizeof(verdict));
		return isfinite(verdict.psi_full_pct) && isfinite(verdict.psi_limit_pct);
	case TRACE_CONFIG:
		trace_get(record, &config, sizeof(config));
		return isfinite(config.psi_full_reject_pct);
	default:
		return true;
	}
}

const char *trace_text(const struct trace_record *record, size_t fixed_bytes)
{
	if (record->payload_bytes <= fixed_bytes || record->payload[record->payload_bytes - 1] != 0)
		return "";
	return (const char *)record->payload + fixed_bytes;
}
