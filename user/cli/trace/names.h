/* SPDX-License-Identifier: BSD-2-Clause */
/* What the numbers of a trace stand for, as its name records say. A bounded amount of memory. */
#ifndef PNMEM_CLI_TRACE_NAMES_H
#define PNMEM_CLI_TRACE_NAMES_H

#include "core/trace_decode.h"

struct trace_names;

/* NULL without memory. Freeing takes NULL. */
struct trace_names *trace_names_new(void);
void trace_names_free(struct trace_names *names);

/*
 * Takes each record and keeps the name of a cgroup id; views.h keeps the names of views. Names
 * beyond some thousands are left out.
 */
void trace_names_add(struct trace_names *names, const struct trace_item *item);

/*
 * The name of a cgroup id, NULL if there is none. It can be printed as it is: characters
 * that a terminal would act on are replaced.
 */
const char *trace_names_get(const struct trace_names *names, uint32_t of, uint64_t id);

/* Copies a text from a trace, cut off at bytes, so that it can be printed. Returns ret. */
char *trace_printable(char *ret, size_t bytes, const char *text);

#endif
