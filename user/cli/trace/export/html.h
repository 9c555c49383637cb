/* SPDX-License-Identifier: BSD-2-Clause */
/* A page of a timeline. */
#ifndef PNMEM_CLI_TRACE_EXPORT_HTML_H
#define PNMEM_CLI_TRACE_EXPORT_HTML_H

#include <stdio.h>

#include "cli/trace/export/timeline.h"

/* Puts the timeline's notes in order. end: how the file ended, as words_end says. */
void html_write(FILE *out, struct timeline *timeline, const char *end);

#endif
