/* SPDX-License-Identifier: BSD-2-Clause */
/* The one place where the payload of a trace record is decoded and checked. Pure. */
#ifndef PNMEM_CORE_TRACE_DECODE_H
#define PNMEM_CORE_TRACE_DECODE_H

#include "core/trace.h"

/* A decoded record. */
struct trace_item {
	uint16_t kind;
	uint64_t ts_ns;
	const char *text; /* in the reader's buffer; "" where there is none */
	/* By kind. A kind that this program does not know has none of them. */
	union {
		struct trace_schema schema;
		struct trace_config config;
		struct trace_name name;
		struct pn_event event; /* ts_ns is the record's, comm ends in NUL */
		struct trace_look look;
		struct trace_die die;         /* pci ends in NUL */
		struct trace_verdict verdict; /* comm ends in NUL */
		struct trace_vmstat vmstat;
		struct trace_drops drops;
		struct trace_mark mark;
		struct trace_end end;
		unsigned char fixed[sizeof(struct trace_look)]; /* the largest */
	};
};

/*
 * Decodes a record. A field that the writer did not know is 0; a field that this program does not
 * know is skipped. Returns 0 also for a kind that this program does not know. Returns -ERANGE if a
 * floating-point number is not finite, or if a level, verdict, check, ask, state, mode, die index
 * or another enumerated field holds a value that this program does not know: every reader leaves
 * such a record out.
 */
int trace_decode(const struct trace_record *record, struct trace_item *ret);

#endif
