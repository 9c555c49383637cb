/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names of the cgroup ids in a trace, as its name records say, in a bounded amount of memory.
 */
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
 * The name of a cgroup id; NULL if there is none. It is safe to print: characters that a terminal
 * would act on are replaced.
 */
const char *trace_names_get(const struct trace_names *names, uint32_t of, uint64_t id);

/* Copies a text from a trace, cut to fit, so that it is safe to print. Returns ret. */
char *trace_printable(char *ret, size_t bytes, const char *text);

#endif
