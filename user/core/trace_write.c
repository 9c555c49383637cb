/* SPDX-License-Identifier: BSD-2-Clause */
/* Laying out trace records, and the start of a file with its schemas. See trace.h. */
#include <stdio.h>
#include <string.h>

#include "core/trace.h"

/* A kind's fields are those of its struct in trace_format.h and pn_event.h, in their order. */
static const struct kind {
	const char *name;
	const char *fields;
	size_t bytes;
} kinds[TRACE_KIND_COUNT] = {
	[TRACE_SCHEMA] = { "schema", "u32 kind,u32 payload_bytes,text schema",
			   sizeof(struct trace_schema) },
	[TRACE_CONFIG] = { "config",
			   "u64 host_reserve_bytes,u64 die_reserve_bytes,u64 hold_ns,"
			   "f64 psi_full_reject_pct,u32 cgroup_level,u32 mode",
			   sizeof(struct trace_config) },
	[TRACE_NAME] = { "name", "u32 of,u32 reserved,u64 id,text name",
			 sizeof(struct trace_name) },
	[TRACE_EVENT] = { "event",
			  "u32 kind,u32 size,u64 ts_ns,u64 value,u64 cgroup_id,u32 tid,u32 pid,"
			  "u32 cpu,u32 flags,c16 comm",
			  sizeof(struct pn_event) },
	[TRACE_LOOK] = { "look",
			 "u32 view,u32 level,u32 wanted_level,u32 reasons,u32 mode,u32 n_dies,"
			 "u64 host_total_bytes,u64 host_avail_bytes,u64 host_reserve_bytes,"
			 "f64 host_psi_some_avg10,f64 host_psi_full_avg10,f64 live_psi_some_avg10,"
			 "f64 live_psi_full_avg10,u64 psi_some_total_us,u64 psi_full_total_us,"
			 "u64 cgroup_current_bytes,u64 cgroup_high_bytes,u64 cgroup_max_bytes,"
			 "u64 cgroup_headroom_bytes,u64 cgroup_limit_bytes,"
			 "f64 cgroup_psi_some_avg10,f64 cgroup_psi_full_avg10,u64 event_ns,"
			 "u64x5 source_ns,u8x8 source_state,u64 stalls,u64 stall_ns,u64 oom_kills,"
			 "u64 events,u64 event_drops",
			 sizeof(struct trace_look) },
	[TRACE_DIE] = { "die",
			"u32 view,u32 index,u64 free_bytes,u64 budget_bytes,u64 used_bytes,"
			"u64 sample_ns,u8x16 uuid,c16 pci,u32 state,u32 reserved",
			sizeof(struct trace_die) },
	[TRACE_VERDICT] = { "verdict",
			    "u32 view,u32 pid,u32 ask,u32 flags,i32 n_tokens,i32 max_window,"
			    "u32 verdict,u32 check,i32 fit_tokens,i32 die_id,u32 level,"
			    "u32 retry_after_ms,u64 need_bytes,u64 have_bytes,u64 reserve_bytes,"
			    "f64 psi_full_pct,f64 psi_limit_pct,c16 comm",
			    sizeof(struct trace_verdict) },
	[TRACE_VMSTAT] = { "vmstat",
			   "u64 scan_direct_pages,u64 steal_direct_pages,u64 scan_kswapd_pages,"
			   "u64 steal_kswapd_pages,u64 fault_count,u64 major_fault_count,"
			   "u64 scan_all_pages,u64 steal_all_pages",
			   sizeof(struct trace_vmstat) },
	[TRACE_DROPS] = { "drops",
			  "u64 kernel_count,u64 recorder_count,u64 verdict_count,u64 old_count",
			  sizeof(struct trace_drops) },
	[TRACE_MARK] = { "mark", "u32 of,u32 reserved,u64 value,text what",
			 sizeof(struct trace_mark) },
	[TRACE_END] = { "end", "u64 record_count", sizeof(struct trace_end) },
};

const char *trace_kind_name(unsigned kind)
{
	return kind < TRACE_KIND_COUNT ? kinds[kind].name : NULL;
}

size_t trace_kind_bytes(unsigned kind)
{
	return kind < TRACE_KIND_COUNT ? kinds[kind].bytes : 0;
}

uint32_t trace_check(const void *buf, size_t bytes, size_t check_at)
{
	const unsigned char *p = buf;
	uint64_t h = 0xcbf29ce484222325ull, word;

	for (size_t i = 0; i < bytes; i += sizeof(word)) {
		memcpy(&word, p + i, sizeof(word));
		if (check_at - i < sizeof(word))
			memset((unsigned char *)&word + (check_at - i), 0, sizeof(uint32_t));
		h = (h ^ word) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 32;
	}
	return (uint32_t)(h >> 32);
}

size_t trace_record_bytes(size_t payload_bytes)
{
	return (sizeof(struct trace_record_head) + payload_bytes + 7) & ~(size_t)7;
}

size_t trace_put(void *buf, uint16_t kind, uint64_t ts_ns, const void *fixed, size_t fixed_bytes,
		 const char *text)
{
	size_t text_bytes = text ? strnlen(text, TRACE_PAYLOAD_MAX - fixed_bytes - 1) : 0;
	size_t payload_bytes = fixed_bytes + text_bytes + (text ? 1 : 0);
	size_t bytes = trace_record_bytes(payload_bytes);
	struct trace_record_head head = {
		.bytes = (uint16_t)bytes,
		.kind = kind,
		.ts_ns = ts_ns,
	};
	unsigned char *p = buf;

	memcpy(p, &head, sizeof(head));
	memcpy(p + sizeof(head), fixed, fixed_bytes);
	if (text)
		memcpy(p + sizeof(head) + fixed_bytes, text, text_bytes);
	memset(p + sizeof(head) + fixed_bytes + text_bytes, 0,
	       bytes - sizeof(head) - fixed_bytes - text_bytes);
	return bytes;
}

void trace_seal(void *record)
{
	struct trace_record_head head;

	memcpy(&head, record, sizeof(head));
	head.check = trace_check(record, head.bytes, offsetof(struct trace_record_head, check));
	memcpy(record, &head, sizeof(head));
}

static size_t put_schema(void *buf, unsigned kind, uint64_t ts_ns)
{
	struct trace_schema schema = {
		.kind = kind,
		.payload_bytes = (uint32_t)kinds[kind].bytes,
	};
	char text[1024];
	size_t bytes;

	snprintf(text, sizeof(text), "%s %s", kinds[kind].name, kinds[kind].fields);
	bytes = trace_put(buf, TRACE_SCHEMA, ts_ns, &schema, sizeof(schema), text);
	trace_seal(buf);
	return bytes;
}

size_t trace_put_start(void *buf, const struct trace_head *from, uint64_t *ret_count)
{
	struct trace_head head = *from;
	unsigned char *p = buf;
	size_t bytes = sizeof(head);

	head.magic = TRACE_MAGIC;
	head.version = TRACE_VERSION;
	head.head_bytes = sizeof(head);
	head.check = trace_check(&head, sizeof(head), offsetof(struct trace_head, check));
	memcpy(p, &head, sizeof(head));
	for (unsigned kind = TRACE_SCHEMA; kind < TRACE_KIND_COUNT; kind++)
		bytes += put_schema(p + bytes, kind, head.mono_ns);
	*ret_count = TRACE_KIND_COUNT - TRACE_SCHEMA;
	return bytes;
}
