/* SPDX-License-Identifier: BSD-2-Clause */
/* The one place where the payload of a trace record is decoded and checked. Pure. */
#ifndef PNMEM_CORE_TRACE_DECODE_H
#define PNMEM_CORE_TRACE_DECODE_H

#include "core/trace.h"

/*
 * Decodes a record. A field that the writer did not know is 0; a field that this program does not
 * know is skipped. Returns 0 also for a kind that this program does not know. Returns -ERANGE if a
 * floating-point number is not finite, or if a level, verdict, check, ask, state, mode, die index
 * or another enumerated field holds a value that this program does not know: every reader leaves
 * such a record out.
 */
int trace_decode(const struct trace_record *record, struct trace_item *ret);

#endif
