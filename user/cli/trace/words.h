/* SPDX-License-Identifier: BSD-2-Clause */
/* The words that an exported trace uses for what its records hold as numbers. */
#ifndef PNMEM_CLI_TRACE_WORDS_H
#define PNMEM_CLI_TRACE_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/trace/file.h"
#include "pn_event.h"

/* What happened: "OOM kill", "memory.events max,oom". Returns buf. */
char *words_event(char *buf, size_t buf_bytes, const struct pn_event *event);
const char *words_verdict(uint32_t verdict);    /* "admitted" */
const char *words_ask(uint32_t ask);            /* "request" */
const char *words_check(uint32_t check);        /* "host" */
const char *words_end(enum trace_file_end end); /* "whole" */
/* What a mark is about: "dump". */
const char *words_mark(uint32_t of);

/*
 * Writes a text in quotes, as JSON that may also stand in HTML: what is not printable ASCII is
 * replaced, and no < is left.
 */
void words_json(FILE *out, const char *text);

/* A number from a file that can be written as JSON: 0 for an infinite one and for none at all. */
double words_finite(double value);

#endif
