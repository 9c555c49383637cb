/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of pnmem doctor. */
#ifndef PNMEM_CLI_DOCTOR_H
#define PNMEM_CLI_DOCTOR_H

#include "cli/cli.h"

/* Also the exit status: what is missing is what nothing can do without. */
enum doctor_verdict { DOCTOR_OK, DOCTOR_DEGRADED, DOCTOR_MISSING };

/* Either printed at once or gathered for --json. */
struct doctor {
	json_t *findings; /* NULL: print */
	enum doctor_verdict worst;
	bool hooks_work; /* the agent sees stalls by BPF: what better hooks would need is no loss */
};

/* One line; fix is "" where there is nothing to do. */
__attribute__((format(printf, 5, 6))) void doctor_finding(struct doctor *report,
							  enum doctor_verdict verdict,
							  const char *subject, const char *fix,
							  const char *format, ...);

/* doctor_machine.c */
void doctor_kernel(struct doctor *report); /* release, lockdown, BTF, kallsyms, kprobes */
void doctor_cgroup(struct doctor *report); /* layout, and this process's group */
void doctor_swap(struct doctor *report);

/* doctor_privileges.c: of the agent, process pid */
void doctor_privileges(struct doctor *report, int pid);

#endif
