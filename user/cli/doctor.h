/* SPDX-License-Identifier: BSD-2-Clause */
/* The findings of pnmem doctor. */
#ifndef PNMEM_CLI_DOCTOR_H
#define PNMEM_CLI_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>

/* Also the exit status. DOCTOR_MISSING: pnmem does not work without it. */
enum doctor_verdict { DOCTOR_OK, DOCTOR_DEGRADED, DOCTOR_MISSING };

/* Findings are printed at once, or gathered for --json. */
struct doctor {
	json_t *findings; /* NULL: print */
	enum doctor_verdict worst;
	bool hooks_work; /* the agent sees stalls by BPF, so it does not need better hooks */
};

/* One line; fix is "" where there is nothing to do. */
__attribute__((format(printf, 5, 6))) void doctor_finding(struct doctor *report,
							  enum doctor_verdict verdict,
							  const char *subject, const char *fix,
							  const char *format, ...);

#endif
