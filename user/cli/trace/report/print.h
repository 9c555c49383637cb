/* SPDX-License-Identifier: BSD-2-Clause */
/* The report for people: a screenful. */
#ifndef PNMEM_CLI_TRACE_REPORT_PRINT_H
#define PNMEM_CLI_TRACE_REPORT_PRINT_H

#include <stdio.h>

#include "cli/trace/file.h"
#include "cli/trace/report/story.h"

void report_print(FILE *out, const char *path, const struct story *story, enum trace_file_end end);

#endif
