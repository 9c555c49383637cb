/* SPDX-License-Identifier: BSD-2-Clause */
/* Words for the numbers in trace records. */
#ifndef PNMEM_CLI_TRACE_WORDS_H
#define PNMEM_CLI_TRACE_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/trace/file.h"
#include "pn_event.h"

/* The kind of an event: "OOM kill", "memory.events max,oom". Returns buf. */
char *words_event(char *buf, size_t buf_bytes, const struct pn_event *event);
const char *words_verdict(uint32_t verdict);    /* "admitted" */
const char *words_ask(uint32_t ask);            /* "request" */
const char *words_check(uint32_t check);        /* "host" */
const char *words_end(enum trace_file_end end); /* "whole" */
/* The kind of a mark: "recorder written". */
const char *words_mark(uint32_t of);

/*
 * Writes a text in quotes, as JSON that may also stand in HTML: characters other than printable
 * ASCII are replaced, and < is escaped.
 */
void words_json(FILE *out, const char *text);

/* The number, or 0 if it is not finite, since JSON has no such numbers. */
double words_finite(double value);

#endif
