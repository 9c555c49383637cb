/* SPDX-License-Identifier: BSD-2-Clause */
/* The words that both forms of a report use. Functions with a buffer return it. */
#ifndef PNMEM_CLI_TRACE_REPORT_WORDS_H
#define PNMEM_CLI_TRACE_REPORT_WORDS_H

#include "cli/trace/report/story.h"

#define REPORT_TEXT 320

/* "+12.345 s" from the start of the trace, "?" before it. */
char *report_at(char buf[static REPORT_TEXT], const struct story *story, uint64_t ts_ns);

/* The path of a cgroup, or of a view by its place; the number where there is no name. */
char *report_cgroup(char buf[static REPORT_TEXT], const struct story *story, uint64_t cgroup_id);
char *report_view(char buf[static REPORT_TEXT], const struct story *story, uint32_t view);

/* Are there settings that would have admitted all of them? */
bool report_has_settings(const struct refusal *refusal);

/* What would have admitted them; "not known" if nothing in the trace says it. */
char *report_prevented(char buf[static REPORT_TEXT], const struct story *story,
		       const struct refusal *refusal);

#endif
