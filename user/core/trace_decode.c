/* SPDX-License-Identifier: BSD-2-Clause */
/* Decoding and checking of trace records. See trace_decode.h. */
#include "core/trace_decode.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/dies.h"
#include "pn_admission.h"

static bool has_text(uint16_t kind)
{
	return kind == TRACE_SCHEMA || kind == TRACE_NAME || kind == TRACE_MARK;
}

/* The text behind the fixed part. It ends within the payload. */
static const char *text_of(const struct trace_record *record, size_t fixed_bytes)
{
	if (!has_text(record->kind) || record->payload_bytes <= fixed_bytes ||
	    record->payload[record->payload_bytes - 1] != 0)
		return "";
	return (const char *)record->payload + fixed_bytes;
}

static bool are_states(const uint8_t *states, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (states[i] > PN_SRC_GONE)
			return false;
	return true;
}

static bool is_look(const struct trace_look *look)
{
	return look->level <= PN_MEM_LEVEL_CRITICAL &&
	       look->wanted_level <= PN_MEM_LEVEL_CRITICAL && look->mode <= PN_MODE_POLL &&
	       look->n_dies <= DIE_TABLE_MAX && are_states(look->source_state, PN_SRC_COUNT) &&
	       isfinite(look->host_psi_some_avg10) && isfinite(look->host_psi_full_avg10) &&
	       isfinite(look->live_psi_some_avg10) && isfinite(look->live_psi_full_avg10) &&
	       isfinite(look->cgroup_psi_some_avg10) && isfinite(look->cgroup_psi_full_avg10);
}

static bool is_verdict(const struct trace_verdict *verdict)
{
	return verdict->ask >= TRACE_ASK_REQUEST && verdict->ask <= TRACE_ASK_SLOT &&
	       verdict->verdict <= PN_VERDICT_REJECT && verdict->check <= PN_CHECK_WINDOW &&
	       verdict->level <= PN_MEM_LEVEL_CRITICAL && isfinite(verdict->psi_full_pct) &&
	       isfinite(verdict->psi_limit_pct);
}

static bool is_in_range(const struct trace_item *item)
{
	switch (item->kind) {
	case TRACE_CONFIG:
		return item->config.mode <= PN_MODE_POLL && item->config.cgroup_level <= 1 &&
		       isfinite(item->config.psi_full_reject_pct);
	case TRACE_NAME:
		return item->name.of >= TRACE_NAME_CGROUP && item->name.of <= TRACE_NAME_VIEW;
	case TRACE_EVENT:
		return item->event.kind && item->event.kind < PN_EVENT_KIND_COUNT;
	case TRACE_LOOK:
		return is_look(&item->look);
	case TRACE_DIE:
		return item->die.index < DIE_TABLE_MAX && item->die.state <= PN_SRC_GONE;
	case TRACE_VERDICT:
		return is_verdict(&item->verdict);
	case TRACE_MARK:
		return item->mark.of >= TRACE_MARK_DUMP && item->mark.of <= TRACE_MARK_VIEW_END;
	default:
		return true;
	}
}

/* Ends the texts of fixed length in NUL, and gives an event its record's time. */
static void complete(struct trace_item *item)
{
	switch (item->kind) {
	case TRACE_EVENT:
		item->event.ts_ns = item->ts_ns;
		item->event.comm[sizeof(item->event.comm) - 1] = 0;
		break;
	case TRACE_DIE:
		item->die.pci[sizeof(item->die.pci) - 1] = 0;
		break;
	case TRACE_VERDICT:
		item->verdict.comm[sizeof(item->verdict.comm) - 1] = 0;
		break;
	default:
		break;
	}
}

int trace_decode(const struct trace_record *record, struct trace_item *ret)
{
	size_t fixed_bytes = trace_kind_bytes(record->kind);
	size_t there = record->payload_bytes < fixed_bytes ? record->payload_bytes : fixed_bytes;

	ret->kind = record->kind;
	ret->ts_ns = record->ts_ns;
	ret->text = text_of(record, fixed_bytes);
	memcpy(ret->fixed, record->payload, there);
	memset(ret->fixed + there, 0, fixed_bytes - there);
	complete(ret);
	return is_in_range(ret) ? 0 : -ERANGE;
}
