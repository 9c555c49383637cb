/* SPDX-License-Identifier: BSD-2-Clause */
/* The report as JSON: the same numbers, in bytes, nanoseconds and percent. */
#ifndef PNMEM_CLI_TRACE_REPORT_JSON_H
#define PNMEM_CLI_TRACE_REPORT_JSON_H

#include <jansson.h>

#include "cli/trace/file.h"
#include "cli/trace/report/story.h"

/* The caller frees it. */
json_t *report_json(const char *path, const struct story *story, enum trace_file_end end);

#endif
